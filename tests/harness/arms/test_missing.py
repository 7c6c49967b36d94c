"""Which errors come of what is not here, and which of a mistake."""

import asyncio
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from connector.data import RequestData
from harness.arms.missing import is_stand_in, not_runnable, watching
from stepbench_core.errors import Missing, NotRunnableError
from stubs import providers
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.request import LlmRequest
from stubs.surface.known import KNOWN
from stubs.surface.placeholders import placeholder

ARMS = {"other": "other.py", "arm": __file__}
FOUND: Any = placeholder("torch.found")
REQUEST: Any = LlmRequest(1, [1])


class Layer(placeholder("torch.nn.Module")):  # type: ignore[misc]
    def bare(self) -> object:
        return super().forward()


async def awaited() -> None:
    await FOUND


def native() -> Any:  # noqa: ANN401
    if providers.absent("nanobind"):
        pytest.skip("the provider nanobind is absent")
    return providers.load_provider("nanobind").LlmRequest(1, [1])


def raised(use: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        use()
    return caught.value


def exec_here(text: str) -> None:
    exec(compile(text, __file__, "exec"), globals())  # noqa: S102


# Each way to use what stands for no value.
USES: dict[str, Callable[[], object]] = {
    "called": lambda: FOUND(1),
    "awaited": lambda: asyncio.run(awaited()),
    "iterated": lambda: list(FOUND),
    "unpacked": lambda: [*FOUND],
    "passed on as keywords": lambda: dict(**FOUND),
    "entered": lambda: exec_here("with FOUND: pass"),
    "compared": lambda: FOUND == 3,
    "compared from the right": lambda: 3 != FOUND,  # noqa: SIM300
    "ordered": lambda: max(3, FOUND),
    "added": lambda: 1 + FOUND,
    "added to a text": lambda: "a" + FOUND,
    "an index": lambda: [1, 2][FOUND],
    "subscripted, then used": lambda: FOUND[3] * 2,
    "asked for": lambda: 3 in FOUND,
    "counted": lambda: len(FOUND),
    "true": lambda: not FOUND,
    "formatted": lambda: f"{FOUND:>3}",
    "a text": lambda: str(FOUND),
    "put into a text": lambda: "%d" % FOUND,  # noqa: UP031
    "joined": lambda: ",".join([FOUND]),
    "raised as an error": lambda: exec_here("raise placeholder('torch.found').SomeError"),
}


@pytest.mark.parametrize("name", USES)
def test_each_use_of_a_placeholder_is_one_of_what_is_not_here(name: str):
    error = not_runnable(raised(USES[name]), ARMS)

    assert error is not None
    assert error.missing is not None
    assert error.missing.uses in ("torch.found", "torch.found.keys", "torch.found.SomeError")
    assert error.missing.library == ""


@pytest.mark.parametrize(
    ("use", "uses"),
    [
        (lambda: REQUEST.py_request_id, "LlmRequest.py_request_id"),
        (lambda: native().is_child, "LlmRequest.is_child"),
        (lambda: setattr(native(), "prompt_length", 1) or native().more, "LlmRequest.more"),
        (lambda: native().get_num_tokens(beam=0, of="all"), "LlmRequest.get_num_tokens() with"),
        (lambda: REQUEST.get_num_tokens(beam=0, of="all"), "LlmRequest.get_num_tokens() with"),
        (lambda: REQUEST.get_num_tokens(0, 1, 2), "LlmRequest.get_num_tokens() with"),
        (lambda: ScheduledRequests().all_requests(), "ScheduledRequests.all_requests"),
        (lambda: AsyncRequests.add_from, "AsyncRequests.add_from"),
        (lambda: REQUEST.state.DISAGG_UNKNOWN, "LlmRequestState.DISAGG_UNKNOWN"),
        (lambda: KNOWN["LlmRequestState"].ENCODER, "EnumType.ENCODER"),  # type: ignore[attr-defined]
        (lambda: Layer().forward(), "torch.nn.Module.forward"),
        (lambda: Layer().bare(), "torch.nn.Module.forward"),
        (lambda: Layer(size=3), "torch.nn.Module"),
    ],
)
def test_what_a_stand_in_lacks_is_not_here(use: Callable[[], object], uses: str):
    error = not_runnable(raised(use), ARMS)

    assert error is not None
    assert error.missing is not None
    if not uses.startswith("EnumType"):
        assert error.missing.uses.startswith(uses)
    assert (error.missing.arm, error.missing.file) == ("arm", __file__)
    assert error.missing.line > 0


@pytest.mark.parametrize(
    "use",
    [
        lambda: RequestData.nothing,  # type: ignore[attr-defined]
        lambda: None.request_id,  # type: ignore[attr-defined]
        lambda: REQUEST.get_tokens(0).request_id,
        lambda: REQUEST.get_tokens_range(0),
        lambda: REQUEST.get_num_tokens(9),
        lambda: REQUEST.get_num_tokens("0"),
        lambda: REQUEST.get_tokens_range(0, None, 1),
        lambda: {}["torch.found"],
        lambda: exec_here("raise 3"),
        lambda: exec_here("raise NotImplementedError('not yet')"),
        lambda: exec_here("raise ImportError('needs a GPU')"),
    ],
)
def test_a_mistake_is_none_of_that(use: Callable[[], object]):
    assert not_runnable(raised(use), ARMS) is None


def test_what_was_raised_on_the_way_counts():
    def wrap() -> None:
        try:
            FOUND()
        except NotImplementedError:
            raise RuntimeError("no luck") from None

    group = ExceptionGroup("several", [KeyError(1), raised(wrap)])  # type: ignore[list-item]

    for error in (raised(wrap), group):
        found = not_runnable(error, {"arm": None})
        assert found is not None
        assert found.missing == Missing("arm", "torch.found")


def test_a_module_that_is_not_installed_is_named_by_what_installs_it():
    found = not_runnable(raised(lambda: exec_here("import yaml.no_such")), ARMS)
    other = not_runnable(raised(lambda: exec_here("import no_such_module.inner")), ARMS)

    assert found is not None
    assert found.missing is not None
    assert found.missing.library == "pyyaml"
    assert other is not None
    assert str(other).startswith(
        "arm: cannot be run here: uses no_such_module (line 1), which is not installed: pip "
        "install no_such_module; see "
    )


def test_what_is_caught_or_dies_in_a_thread_is_seen():
    before = threading.excepthook
    with watching() as watch:
        watch.check("arm", __file__)
        with pytest.raises(NotImplementedError):
            FOUND()
        watch.check("arm", __file__, None)
        watch.check_difference("arm", "other.py")
        with pytest.raises(NotRunnableError):
            watch.check_difference("arm", __file__)
        thread = threading.Thread(target=lambda: FOUND(1))
        thread.start()
        watch.wait()
        watch.check("arm", "other.py")
        with pytest.raises(NotRunnableError, match=r"uses torch\.found \(line \d+\)"):
            watch.check("arm", __file__)
    assert threading.excepthook is before


def test_the_error_comes_back_from_another_process_as_it_was():
    error = NotRunnableError(Missing("arm", "torch.zeros", "arm.py", 3))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301

    assert (str(again), again.missing) == (str(error), error.missing)


def test_what_is_a_stand_in():
    assert all(map(is_stand_in, (REQUEST, LlmRequest, REQUEST.state, Layer(), Layer, FOUND)))
    assert not any(map(is_stand_in, (RequestData, [], None, pytest, test_what_is_a_stand_in)))
