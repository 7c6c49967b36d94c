"""What may do nothing: ranges, metrics that are only counted, decorators, the logger."""

import asyncio
import importlib
import logging
from typing import Any, Optional

import pytest

from connector import log
from stubs.surface.logger import _seen
from stubs.surface.not_provided import NotProvidedError
from stubs.surface.placeholders import is_noop, is_placeholder, resolve


def twice(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize(
    "path",
    [
        *("tensorrt_llm._utils.nvtx_range", "tensorrt_llm.tomorrow.nvtx_range_debug"),
        *("nvtx.annotate", "torch.cuda.nvtx.range", "torch.profiler.record_function"),
        *("torch.autograd.profiler.record_function", "torch.cuda.nvtx.range_push"),
        *("torch.compile", "torch.no_grad", "torch.inference_mode", "torch.compiler.disable"),
        *("tensorrt_llm._torch.utils.maybe_compile", "torch.jit.script", "torch.set_grad_enabled"),
        *("prometheus_client.Histogram.time", "tensorrt_llm.metrics.collector.Collector"),
        "opentelemetry.trace.get_tracer.start_as_current_span",
    ],
)
def test_it_is_a_range_and_a_decorator_in_every_form(path: str):
    found = resolve(path)

    assert is_noop(found)
    assert found(twice) is twice
    assert found("x", color="red", domain="d", category="c")(twice) is twice
    assert found()(twice) is twice
    assert found(fn=twice) is twice
    with found("x"), found, found() as entered:
        assert is_noop(entered)

    async def enter() -> None:
        async with found("x"):
            pass

    asyncio.run(enter())
    assert found("a").labels("b", c="d").inc() is not None
    with pytest.raises(ZeroDivisionError), found("x"):
        1 / 0  # noqa: B018


@pytest.mark.parametrize(
    "path",
    [
        *("torch.compiled", "torch.nvtx", "torch.cuda.Stream", "torch.no_gradient"),
        *("tensorrt_llm._utils.mpi_rank", "tensorrt_llm.nvtx.Range", "vllm.nvtx_range"),
    ],
)
def test_what_is_only_named_alike_is_a_placeholder(path: str):
    assert is_placeholder(resolve(path))


def test_a_value_that_is_read_from_it_is_not_made_up():
    gauge = resolve("prometheus_client.Gauge")("name", "words", ["label"])
    value = gauge.labels("x")._value.get()

    for use in (
        lambda: value + 1,
        lambda: value > 3,
        lambda: value == 3,
        lambda: bool(value),
        lambda: list(value),
        lambda: f"{value}",
        lambda: int(value),
    ):
        with pytest.raises(NotProvidedError, match=r"^prometheus_client\.Gauge"):
            use()
    assert resolve("nvtx.enabled")() is False


def test_it_stands_in_annotations_and_is_a_base_class():
    counter = resolve("prometheus_client.Counter")

    def counted(a: counter, b: counter | None, c: Optional[counter]) -> None: ...  # type: ignore[valid-type]  # noqa: UP045

    class Own(counter):  # type: ignore[misc]
        pass

    assert counted.__annotations__["a"] is counter
    assert not isinstance(3, counter)
    assert isinstance(Own(), Own)


def test_the_whole_logger_takes_everything_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    class Broken:
        def __str__(self) -> str:
            raise ValueError

    monkeypatch.setattr(log, "_seen", set())
    _seen.clear()
    found: Any = importlib.import_module("stubs.surface.tensorrt_llm.a.b").logger
    caplog.set_level(logging.DEBUG, "stepbench.connector")

    for _ in range(2):
        found.info_once("a", key="k")
        found.debug_once("b")
        found.error_once("c", key=("of", "any", "type"))
        found.warning_once("d")
        found.log_once("[I]", "e", key="e")
    found.log("[E]", "f", 1)
    found.critical("g", exc_info=True, stacklevel=2)
    found.verbose(Broken(), resolve("torch.Tensor"))
    found.set_level("info")
    found.set_rank(3)

    words = [f"{record.levelname[0]} {record.getMessage()}" for record in caplog.records]
    assert words[:7] == ["I a", "D b", "E c", "W d", "I e", "E f 1", "C g"]
    assert words[7].startswith("D <")
    assert (found.level, found.rank) == ("info", 3)
    assert found.isEnabledFor(10) is found.some_question_of_tomorrow("x") is False
    assert found is importlib.import_module("stubs.surface.tensorrt_llm").logger
