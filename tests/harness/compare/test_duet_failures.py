"""Workers of a duet that fail, or return anything but a result."""

import itertools
import json
import math
from collections.abc import Callable, Sequence

import pytest

from harness.compare import processes as module
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.system.worker_process import Child, WorkerError
from scenarios.scenario import SteadyDecode

from ..duet_workers import A, B, Workers

CELL = SteadyDecode(requests=2, tokens=64)


def raising(error: str) -> Callable[..., list[str]]:
    def run_children(children: Sequence[Child], _timeout: float) -> list[str]:
        raise WorkerError(f"{children[-1].what}: the worker {error}")

    return run_children


@pytest.mark.parametrize("error", ["was killed by SIGKILL", "hung: no result after 120 s"])
def test_a_worker_that_fails_makes_the_cell_inconclusive(
    monkeypatch: pytest.MonkeyPatch, error: str
):
    monkeypatch.setattr(module, "run_children", raising(error))

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.failure == f"cell v2-2x64, process 1: the worker {error}"
    assert (result.verdict.kind, result.verdict.reason) == (Kind.INCONCLUSIVE, result.failure)
    assert (result.first, result.second, result.samples) == ([], [], [])


def test_a_worker_that_fails_late_takes_the_verdict_with_it(monkeypatch: pytest.MonkeyPatch):
    workers = Workers(monkeypatch)
    workers.draws = itertools.repeat((0.02, 0.0, 1.0), 8)
    real = module.run_children

    def run_children(children: Sequence[Child], timeout: float) -> list[str]:
        try:
            return real(children, timeout)
        except StopIteration:
            return raising("exited with 3")(children, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_children", run_children)
        result = compare_cell(Duet(A, B, (CELL,)), CELL)

    # The first run found it slower; the third process of the second died.
    assert (len(result.first), len(result.second), len(result.samples)) == (6, 2, 8)
    assert result.failure == "cell v2-2x64, process 9: the worker exited with 3"
    assert result.verdict.kind == Kind.INCONCLUSIVE


# What else a worker returns.
REST = {
    "background": None,
    "alive": [[]] * 4,
    "is_restless": False,
    "imports": [0, 1, 2, 3],
    "orders": [[0, 1, 2, 3]],
}


def document(seconds: object, share: object = 1.0) -> str:
    return json.dumps({"seconds": seconds, "cpu_share": share, **REST})


@pytest.mark.parametrize(
    "text",
    [
        *["", "garbage", "{", "1", "null", "[]", "{}", '"text"'],
        '{"seconds": [[1.0], [1.0], [1.0]]}',
        *[document(1), document([]), document([[1.0]]), document([[], [], []])],
        *[document([[1.0], [1.0, 2.0], [1.0]]), document([["a"], ["b"], ["c"]])],
        *[document([[1.0], [-1.0], [1.0]]), document([[1.0], [0.0], [1.0]])],
        # A clock that stood still.
        document([[0.0], [1.0], [1.0]]),
        document([[1.0], [math.nan], [1.0]]),
        *[document([[1.0]] * 3, None), document([[1.0]] * 3, "much")],
        *[document([[1.0]] * 4, None), document([[1.0]] * 4, "much")],
        json.dumps({"seconds": [[1.0]] * 4, "cpu_share": 1.0}),
        json.dumps({"seconds": [[1.0]] * 4, "cpu_share": 1.0, **REST, "background": [[-1.0]] * 4}),
        json.dumps({"seconds": [[1.0]] * 4, "cpu_share": 1.0, **REST, "background": [[1.0, 1.0]]}),
        json.dumps({"seconds": [[1.0]] * 4, "cpu_share": 1.0, **REST, "alive": [[]]}),
    ],
)
def test_anything_else_from_a_worker_is_no_result(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setattr(module, "run_children", lambda *_: [text])

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.failure is not None
    assert result.failure.startswith("cell v2-2x64, process 1: the worker returned no result")
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.samples == []


def test_an_interrupt_is_handed_on(monkeypatch: pytest.MonkeyPatch):
    def run_children(*_: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_children", run_children)
    with pytest.raises(KeyboardInterrupt):
        compare_cell(Duet(A, B, (CELL,)), CELL)
