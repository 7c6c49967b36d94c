"""What stands for the engine around a connector module, and placeholders for all else."""

import importlib
import logging
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Optional, TypeVar, Union

import pytest

import stubs.surface
from connector import interfaces, log
from stubs import batch, counting, kv_cache_v2, providers
from stubs.request import KvCacheRetentionConfig
from stubs.surface.not_provided import NotProvidedError
from stubs.surface.placeholders import is_placeholder, placeholder

T = TypeVar("T")


def surface(module: str) -> Any:  # noqa: ANN401
    return importlib.import_module(f"stubs.surface.{module}")


@pytest.mark.parametrize(
    "module",
    [
        "tensorrt_llm",
        "tensorrt_llm.bindings.internal.batch_manager",
        "tensorrt_llm._torch.pyexecutor.resource_manager",
        "tensorrt_llm._torch.pyexecutor.kv_cache_manager_v2",
        "tensorrt_llm._torch.pyexecutor.kv_cache.kv_cache_manager_v2",
        "tensorrt_llm.a.module.of_tomorrow",
    ],
)
def test_what_the_measured_path_needs_is_one_thing_under_every_path_of_the_engine(module: str):
    found = surface(module)

    assert found.KVCacheManagerV2 is interfaces.KVCacheManagerV2
    assert found.LlmRequestState is interfaces.LlmRequestState
    assert found.get_draft_token_length is interfaces.get_draft_token_length
    assert found.ScheduledRequests is batch.ScheduledRequests
    assert found.AsyncRequests is batch.AsyncRequests
    assert found.LlmRequest is surface("tensorrt_llm.bindings").LlmRequest
    assert found.KVCacheManager is surface("tensorrt_llm.bindings").KVCacheManager
    assert found.KVCacheConnectorManager is not found.KvCacheConnectorManager
    # A placeholder's attributes as well, where the module was not imported by itself.
    assert placeholder("tensorrt_llm.x").KVCacheManagerV2 is interfaces.KVCacheManagerV2
    assert is_placeholder(surface("vllm").LlmRequest)


@pytest.mark.parametrize("name", ["python", "nanobind"])
def test_stand_ins_are_instances_of_the_engines_classes(name: str):
    if providers.absent(name):
        pytest.skip(f"the provider {name} is absent")
    provider = providers.load_provider(name)
    engine = surface("tensorrt_llm.bindings")
    request = provider.LlmRequest(1, [1])
    v1 = provider.KVCacheManager(1, rng=random.Random(0))
    v2 = provider.KVCacheManagerV2(1, rng=random.Random(0))
    crossings = counting.Crossings()

    for made in (request, counting.CountingRequest(request, crossings)):
        assert isinstance(made, engine.LlmRequest)
        assert not isinstance(made, engine.KVCacheManager)
    for made in (v1, counting.counting_manager(v1, crossings)):
        assert isinstance(made, engine.KVCacheManager)
        assert not isinstance(made, engine.KVCacheManagerV2)
    for made in (v2, counting.counting_manager(v2, crossings)):
        assert isinstance(made, engine.KVCacheManagerV2)
        assert not isinstance(made, engine.KVCacheManager)
    for made in (v1, v2, counting.counting_manager(v2, crossings)):
        assert isinstance(made, engine.BaseResourceManager)
    config = KvCacheRetentionConfig()
    kept = provider.LlmRequest(1, [1], retention_config=config).kv_cache_retention_config
    assert isinstance(kept, engine.KvCacheRetentionConfig)
    assert not isinstance(object(), engine.LlmRequest)

    class Own(engine.LlmRequest):  # type: ignore[misc]
        pass

    assert isinstance(Own(), Own)
    assert not isinstance(request, Own)
    with pytest.raises(NotProvidedError, match="LlmRequest"):
        engine.LlmRequest(request_id=1)


def test_a_v2_manager_is_one_of_the_surface():
    found = surface("tensorrt_llm._torch.pyexecutor.kv_cache.kv_cache_manager_v2")

    assert issubclass(kv_cache_v2.KVCacheManagerV2, found.KVCacheManagerV2)


def test_the_native_manager_is_a_base_class_without_arguments():
    native = surface("tensorrt_llm.bindings.internal.batch_manager").KvCacheConnectorManager

    class Leader(native):  # type: ignore[misc]
        def __init__(self, rank: int) -> None:
            super().__init__()
            self.rank = rank

    assert Leader(3).rank == 3
    assert not is_placeholder(native)


def test_what_is_logged_goes_to_the_log_of_this_project(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(log, "_seen", set())
    found = surface("tensorrt_llm").logger
    caplog.set_level(logging.DEBUG, "stepbench.connector")

    found.warning("a", "b 1")
    for _ in range(2):
        found.warning_once("b", key="k")
    found.warning_once("c", key="another")
    found.debug("d")
    found.info("100 %s")
    found.error("f")

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "a b 1"),
        *[("WARNING", "b"), ("WARNING", "c")],
        *[("DEBUG", "d"), ("INFO", "100 %s"), ("ERROR", "f")],
    ]
    assert {record.name for record in caplog.records} == {"stepbench.connector"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        *[("torch", "Tensor"), ("torch.cuda", "Stream"), ("tensorrt_llm._utils", "mpi_rank")],
        ("tensorrt_llm.llmapi.llm_args", "TorchLlmArgs"),
        ("tensorrt_llm.logger", "severity_map"),
        ("tensorrt_llm._torch.pyexecutor.connectors.kv_cache_layout", "KvCacheLayout"),
        *[("no_such_module_at_all", "name"), ("torch", "_C"), ("torch.a.b.c", "d")],
    ],
)
def test_what_is_not_known_is_a_placeholder_which_says_so_when_it_is_called(module: str, name: str):
    found = getattr(surface(module), name)

    assert is_placeholder(found)
    assert found is getattr(surface(module), name)
    with pytest.raises(NotProvidedError) as caught:
        found(1, key=2)
    assert str(caught.value) == f"{module}.{name} is a placeholder here, and was called"


def test_attributes_of_a_placeholder_are_placeholders():
    # Each is always the same, so that it can be compared and be a key.
    assert placeholder("torch.cuda").Stream is placeholder("torch").cuda.Stream
    assert placeholder("torch.cuda").Stream is surface("torch.cuda").Stream
    assert placeholder("torch.int8") != placeholder("torch.int4")
    with pytest.raises(NotProvidedError) as caught:
        placeholder("torch.cuda").Stream.wait("now")
    assert str(caught.value) == "torch.cuda.Stream.wait is a placeholder here, and was called"


@pytest.mark.parametrize("name", ["__version__", "__no_such__"])
def test_names_that_python_itself_asks_for_are_missing(name: str):
    with pytest.raises(AttributeError, match=rf"^torch has no attribute '{name}'$"):
        getattr(surface("torch"), name)
    with pytest.raises(AttributeError, match=rf"^torch.x has no attribute '{name}'$"):
        getattr(surface("torch").x, name)
    with pytest.raises(AttributeError, match=rf"^tensorrt_llm.logger has no attribute '{name}'$"):
        getattr(surface("tensorrt_llm.logger"), name)


def test_a_placeholder_stands_in_annotations():
    tensor = surface("torch").Tensor

    def plain(a: tensor, b: tensor | None, c: Optional[tensor]) -> Union[tensor, int]: ...  # type: ignore[valid-type]  # noqa: UP007, UP045
    def nested(
        a: dict[str, tensor], b: list[tensor], c: Callable[[tensor], None]
    ) -> type[tensor]: ...  # type: ignore[valid-type]
    def subscripted(a: tensor[int], b: tensor["x", 3]) -> None: ...  # type: ignore[valid-type,type-arg]  # noqa: F821

    assert plain.__annotations__["b"] == tensor | None
    assert nested.__annotations__["a"] == dict[str, tensor]
    assert subscripted.__annotations__["a"] is tensor


def test_a_placeholder_is_a_base_class_beside_others():
    module = surface("torch").Module

    class Alone(module):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = size

    class First(module, ABC):  # type: ignore[misc]
        @abstractmethod
        def forward(self) -> None: ...

    class Second(ABC, module[int], Generic[T]):  # type: ignore[misc]
        @abstractmethod
        def forward(self) -> None: ...

    class Whole(First):
        def forward(self) -> None: ...

    assert Alone(size=3).size == 3
    assert isinstance(Whole(), module)
    for abstract in (First, Second):
        with pytest.raises(TypeError, match="abstract"):
            abstract()
    assert not any(map(is_placeholder, (Alone, First, Second, Whole, Whole())))


def test_what_a_class_on_top_of_a_placeholder_lacks_is_missing():
    class Own(placeholder("torch.Module")):  # type: ignore[misc]
        pass

    with pytest.raises(AttributeError, match=r"Own has no attribute 'missing'$"):
        Own.missing  # noqa: B018
    with pytest.raises(AttributeError, match="'Own' object has no attribute 'missing'"):
        Own().missing  # noqa: B018
    assert not hasattr(Own, "_is_layer")


def test_nothing_is_named_as_what_it_stands_for():
    surface("torch.cuda").Stream  # noqa: B018
    surface("tensorrt_llm.bindings.executor").Request  # noqa: B018

    assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "tensorrt_llm")]
    for name in ("torch_stub_of_nobody", "stubs.no_such_module"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


def test_one_finder_is_installed_behind_all_others():
    names = [type(finder).__name__ for finder in sys.meta_path]

    importlib.import_module("stubs.surface")
    assert names == [type(finder).__name__ for finder in sys.meta_path]
    assert names.count("_Finder") == 1
    assert stubs.surface.__name__ == "stubs.surface"
