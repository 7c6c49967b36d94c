"""The processes of a cell: their jobs, what they return, and what goes wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.forward.forward_time import ForwardTime
from harness.overlap import run as overlap_run
from harness.overlap.run import OverlapPlan, read_segments, run_cell, samples_of
from harness.system.worker_process import WorkerError
from scenarios.scenario import SteadyDecode, TraceReplay

from ..overlap_runs import CELL, make_plan, make_segments


class Children:
    """Stands in for the worker processes."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, list[str], int, dict[str, Any], float]] = []

    def __call__(self, what: str, command: list[str], seed: int, text: str, limit: float) -> str:
        self.calls.append((what, command, seed, json.loads(text), limit))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, str) else json.dumps(answer)


def good(**segments: Any) -> dict[str, Any]:  # noqa: ANN401
    found = make_segments([0.003, 0.001], 0.004, **segments)
    return {"segments": found, "cpu_share": 0.99, "device": {}}


def run(monkeypatch: pytest.MonkeyPatch, plan: OverlapPlan, *answers: Any) -> tuple[Any, Children]:  # noqa: ANN401
    children = Children(list(answers))
    monkeypatch.setattr(overlap_run, "run_child", children)
    return run_cell(plan, plan.scenarios[0]), children


def test_each_process_has_its_own_seeds(monkeypatch: pytest.MonkeyPatch):
    plan = make_plan(processes=3, seed=7, cpu=1, other_host=0.002, swept=2**20)

    found, children = run(monkeypatch, plan, good(), good(), good())

    assert (len(found.processes), found.failure) == (3, None)
    assert [call[0] for call in children.calls] == [
        f"cell v2-2x64, process {number}" for number in (1, 2, 3)
    ]
    assert len({call[2] for call in children.calls}) == 3
    jobs = [call[3] for call in children.calls]
    assert [job.pop("seed") for job in jobs] == ["7-0", "7-1", "7-2"]
    assert jobs[0] == jobs[1] == jobs[2]
    assert [source["name"] for source in jobs[0].pop("sources")] == ["full-copy", "incremental"]
    assert jobs[0] == {
        "scenario": json.loads(json.dumps(CELL.to_dict())),
        "cpu": 1,
        "provider": "python",
        "forward": {"seconds": 0.004, "model": None, "gpu": None, "gpus": 1},
        "device": "simulated",
        "other_host": 0.002,
        "swept": 2**20,
        "warmups": 5,
        "iterations": 100,
    }


def test_a_trace_has_more_iterations_unless_told():
    assert make_plan().iterations_of(CELL) == 100
    assert make_plan().iterations_of(replace(CELL, requests=64, tokens=8192)) == 20
    assert make_plan().iterations_of(TraceReplay(path="/x")) == 100
    plan = make_plan(iterations=4)
    assert plan.iterations_of(CELL) == plan.iterations_of(TraceReplay(path="/x")) == 4
    # Warm-ups before them, and one after them.
    assert plan.advances(CELL) == 10


def test_a_worker_gets_longer_for_more(monkeypatch: pytest.MonkeyPatch):
    def limit(**changed: Any) -> float:  # noqa: ANN401
        scenario = changed.pop("scenario", CELL)
        plan = make_plan(scenario, processes=1, **changed)
        return run(monkeypatch, plan, good())[1].calls[0][4]

    least = limit()
    assert least > 120
    assert limit(forward=ForwardTime(10.0)) > least + 4 * 26 * 9.9
    assert limit(other_host=10.0) > least + 4 * 26 * 9.9
    assert limit(iterations=1_000) > least
    assert limit(scenario=SteadyDecode(requests=1_000, tokens=10_000)) > least + 1_000


def test_a_worker_that_fails_ends_its_cell(monkeypatch: pytest.MonkeyPatch):
    found, children = run(
        monkeypatch, make_plan(processes=4), good(), WorkerError("cell v2-2x64, process 2: hung")
    )

    assert found.failure == "cell v2-2x64, process 2: hung"
    assert len(found.processes) == 1
    assert children.answers == []


def broken(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    found = good()
    found["segments"][0].update(changes)
    return found


BROKEN = [
    "",
    "{",
    "[]",
    {"segments": []},
    {"segments": make_segments([0.1], 0.1), "device": {}},
    {**good(), "device": None},
    {"device": {}},
    {**good(), "cpu_share": None},
    {**good(), "cpu_share": float("nan")},
    {name: value for name, value in good().items() if name != "cpu_share"},
    broken(path=[0.1]),
    broken(path=["x"] * 4),
    broken(path=[None] * 4),
    broken(path=[True] * 4),
    broken(step=[float("nan")] * 4),
    broken(step=[float("inf")] * 4),
    broken(step=[1e300] * 4),
    broken(step=[-1.0] * 4),
    broken(step=[10**400] * 4),
    broken(overlap=1),
    broken(overlap=True),
    broken(arm=2),
    broken(arm="0"),
    good(iterations=0),
]


@pytest.mark.parametrize("answer", BROKEN)
def test_nonsense_is_no_result(monkeypatch: pytest.MonkeyPatch, answer: Any):  # noqa: ANN401
    found, _ = run(monkeypatch, make_plan(processes=1), answer)

    assert found.failure is not None
    assert found.failure.startswith("cell v2-2x64, process 1: the worker returned no result: ")
    assert found.processes == []


def test_samples_by_arm_and_order(monkeypatch: pytest.MonkeyPatch):
    plan = make_plan(processes=2)
    run_, _ = run(monkeypatch, plan, good(), good(other=0.002))

    samples = samples_of(plan, run_)

    assert samples.keys() == {(arm, overlap) for arm in (0, 1) for overlap in (False, True)}
    assert [sample.exposed for sample in samples[0, False]] == [0.003, 0.005]
    assert [sample.exposed for sample in samples[0, True]] == [0, pytest.approx(0.001)]
    assert [sample.exposed for sample in samples[1, True]] == [0, 0]
    assert [sample.step for sample in samples[1, True]] == [0.004, 0.004]


def test_the_iterations_of_a_segment_are_read_as_they_were_written():
    (segment, *_) = make_segments([0.5], 0.25, other=0.125, iterations=2)
    iterations = read_segments([segment])[0, False]

    assert [(each.path, each.other, each.forward, each.step) for each in iterations] == (
        [(0.5, 0.125, 0.25, 0.875)] * 3
    )
