import enum
import importlib.util
import random
import sys
from types import ModuleType

import pytest

import stubs
from connector.interfaces import LlmRequestState
from stubs import kv_cache_v1, kv_cache_v2, request
from stubs.providers import (
    DEFAULT_PROVIDER,
    PROVIDERS,
    Provider,
    ProviderError,
    absent,
    load_provider,
)


@pytest.fixture
def no_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package is found, whatever is installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_holds_for_every_provider_is_tested_on_this_one(name: str):
    reason = absent(name)
    if reason is not None:
        pytest.skip(reason)
    loaded = load_provider(name)
    assert (loaded.name, loaded.summary) == (name, PROVIDERS[name])


def test_the_providers_in_order():
    assert list(PROVIDERS) == ["python", "nanobind", "tensorrt_llm"]
    assert DEFAULT_PROVIDER == "python"
    assert all("\n" not in summary and len(summary) < 80 for summary in PROVIDERS.values())


@pytest.mark.usefixtures("no_extension")
def test_python_is_the_stand_ins_and_always_there():
    assert absent("python") is None
    assert load_provider("python") == Provider(
        "python",
        PROVIDERS["python"],
        request.LlmRequest,
        kv_cache_v1.KVCacheManager,
        kv_cache_v2.KVCacheManagerV2,
    )


@pytest.mark.usefixtures("no_extension")
def test_an_unknown_provider_is_named():
    message = "there is no provider 'cython': choose from python, nanobind, tensorrt_llm"
    for call in (absent, load_provider):
        with pytest.raises(ProviderError) as caught:
            call("cython")
        assert str(caught.value) == message


@pytest.mark.usefixtures("no_extension")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nanobind", "pip install ./stubs/native builds it"),
        ("tensorrt_llm", "tensorrt_llm is not installed"),
    ],
)
def test_an_absent_provider_says_how_to_get_it(name: str, hint: str):
    reason = absent(name)
    assert hint in reason
    assert "\n" not in reason
    with pytest.raises(ProviderError) as caught:
        load_provider(name)
    assert str(caught.value) == f"the provider {name} is absent: {reason}"


@pytest.mark.usefixtures("no_extension")
def test_auto_is_python_without_the_extension():
    assert load_provider("auto").name == "python"


def test_an_extension_that_lacks_a_call_is_an_error(monkeypatch: pytest.MonkeyPatch):
    if absent("nanobind") is not None:
        pytest.skip(absent("nanobind"))
    import stepbench_native

    class Older:
        get_num_blocks = get_page_indices_range = get_batch_updates = None

    monkeypatch.setattr(stepbench_native, "KvCacheManagerV2", Older)
    monkeypatch.delitem(sys.modules, "stubs.nanobind_provider", raising=False)
    monkeypatch.delattr(stubs, "nanobind_provider", raising=False)
    with pytest.raises(ProviderError, match=r"nanobind cannot be imported: .*create_reported_req"):
        load_provider("nanobind")


def test_auto_is_nanobind_with_it():
    if absent("nanobind") is not None:
        pytest.skip(absent("nanobind"))
    assert load_provider("auto") == load_provider("nanobind")


def test_an_extension_that_cannot_be_imported_is_an_error_and_not_for_auto(
    monkeypatch: pytest.MonkeyPatch,
):
    broken = ModuleType("stepbench_native")  # Of another version, for example.
    broken.__spec__ = importlib.util.spec_from_loader("stepbench_native", loader=None)
    monkeypatch.setitem(sys.modules, "stepbench_native", broken)
    monkeypatch.delitem(sys.modules, "stubs.nanobind_provider", raising=False)
    monkeypatch.delattr(stubs, "nanobind_provider", raising=False)
    assert absent("nanobind") is None
    with pytest.raises(ProviderError, match="the provider nanobind cannot be imported: "):
        load_provider("nanobind")
    assert load_provider("auto").name == "python"


# A fake of the engine's bindings, since the engine needs a GPU.

EngineState = enum.Enum("EngineState", [state.name for state in LlmRequestState])


class SamplingConfig:
    def __init__(self, beam_width: int) -> None:
        self.beam_width = beam_width


class EngineRequest:
    """The part of the engine's constructor and attributes that the provider uses."""

    def __init__(
        self,
        request_id: int,
        max_new_tokens: int,
        input_tokens: list[int],
        sampling_config: SamplingConfig,
        is_streaming: bool,
    ) -> None:
        assert max_new_tokens > 100_000
        assert not is_streaming
        beams = sampling_config.beam_width
        self.stand_in = request.LlmRequest(request_id, input_tokens, beam_width=beams)
        self._state = EngineState.CONTEXT_INIT

    @property
    def state(self) -> EngineState:
        return self._state

    @state.setter
    def state(self, state: EngineState) -> None:
        assert isinstance(state, EngineState)
        self._state = state

    def __getattr__(self, name: str) -> object:
        return getattr(self.stand_in, name)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The provider tensorrt_llm over the fake."""
    contents = {
        "tensorrt_llm": {},
        "tensorrt_llm.bindings": {
            "LlmRequestState": EngineState,
            "SamplingConfig": SamplingConfig,
        },
        "tensorrt_llm.bindings.internal": {},
        "tensorrt_llm.bindings.internal.batch_manager": {"LlmRequest": EngineRequest},
    }
    for name, attributes in contents.items():
        module = ModuleType(name)
        module.__dict__.update(attributes, __path__=[])
        module.__spec__ = importlib.util.spec_from_loader(name, loader=None)
        monkeypatch.setitem(sys.modules, name, module)
    # Imported for the fake, the module is not to stay.
    monkeypatch.setitem(sys.modules, "stubs.tensorrt_llm_provider", None)
    del sys.modules["stubs.tensorrt_llm_provider"]
    return load_provider("tensorrt_llm")


def test_the_engines_request_has_the_stand_ins_constructor(engine: Provider):
    config = request.KvCacheRetentionConfig([request.TokenRangeRetention(0, None, 80)])
    made = engine.LlmRequest(
        7,
        range(4),
        beam_width=2,
        draft_tokens=[9],
        retention_config=config,
        cache_salt="salt",
        is_dummy_request=True,
    )
    assert isinstance(made, EngineRequest)
    assert made.get_tokens() == [[0, 1, 2, 3]] * 2
    assert (made.request_id, made.cache_salt, made.is_dummy_request) == (7, "salt", True)
    assert made.py_draft_tokens == [9]
    config.decode_priority = 1
    assert made.kv_cache_retention_config.decode_priority == 35
    assert engine.LlmRequest(7, [1]).kv_cache_retention_config is None


def test_the_engines_states_are_those_that_arms_know(engine: Provider):
    made = engine.LlmRequest(7, [1])
    for state in LlmRequestState:
        made.state = state
        assert made.state is state
        assert made._state is EngineState[state.name]


def test_the_managers_read_the_engines_tokens(engine: Provider, rng: random.Random):
    made = engine.LlmRequest(7, range(40))
    manager = engine.KVCacheManagerV2(4, rng=rng)
    manager.resize(made, 40)
    lengths, tokens, _ = manager.get_batch_updates([made], [37], [0])
    assert (lengths, tokens) == ([40], [[37, 38, 39]])
