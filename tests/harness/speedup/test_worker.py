import json
import os
from pathlib import Path
from typing import Any

import pyperf
import pytest

from harness.speedup import isolated
from harness.speedup.plan import SETTLING, Job, Plan
from harness.system.cores import allowed_cpus
from harness.system.worker_process import hash_seed
from scenarios.scenario import TraceReplay, from_dict
from stepbench_core.errors import WorkerError

from ..helpers import OTHER, TINY, make_plan, run_job


def metadata(plan: Plan, job: Job) -> dict[str, Any]:
    (only,) = run_job(plan, job).get_runs()
    found: dict[str, Any] = only.get_metadata()
    return found


def test_the_result_alone_goes_to_stdout(monkeypatch: pytest.MonkeyPatch):
    said: list[str | WorkerError] = []
    real = isolated.run_in_turns

    def run(*arguments: Any) -> list[str | WorkerError]:  # noqa: ANN401
        said.extend(real(*arguments))
        return said

    monkeypatch.setattr(isolated, "run_in_turns", run)
    plan = make_plan()
    run_job(plan, plan.jobs()[0])

    (text,) = said
    assert isinstance(text, str)
    assert text.count("\n") == 1
    document = json.loads(text)
    assert len(document["benchmarks"]) == 1
    (result,) = document["benchmarks"][0]["runs"]
    # One value for each timed iteration, and none of pyperf's own calibration.
    assert [loops for loops, _ in result["warmups"]] == [1, 1]
    assert len(result["values"]) == 2 * 3


@pytest.mark.parametrize(
    ("warmups", "rounds", "samples"), [(0, 1, 1), (1, 1, 15), (10, 2, 15)], ids=str
)
def test_the_protocol_is_followed(warmups: int, rounds: int, samples: int):
    plan = make_plan(warmups=warmups, rounds=rounds, samples=samples)

    (only,) = run_job(plan, plan.jobs()[1]).get_runs()

    assert len(only.warmups) == warmups
    assert len(only.values) == rounds * samples
    assert only.get_metadata()["loops"] == 1


@pytest.mark.parametrize("arm", ["full-copy", "incremental"])
def test_a_run_says_what_it_measured(arm: str):
    plan = make_plan(scenarios=[OTHER, TINY])

    found = metadata(plan, Job(TINY, arm, 1))

    assert found["name"] == f"v2-2x40/{arm}"
    assert found["unit"] == "second"
    assert from_dict(json.loads(found["stepbench_scenario"])) == TINY
    assert found["stepbench_arm"] == arm
    assert found["stepbench_process"] == 1
    assert found["stepbench_requests_mean"] == 2
    # Each iteration appends a token before it is timed: the two warm-up iterations see 41 and 42,
    # and so do those at the start of the two rounds, which are not timed either.
    first = 42 + SETTLING + 1
    assert found["stepbench_tokens_first"] == first
    assert found["stepbench_tokens_last"] == first + 5 + SETTLING
    assert found["stepbench_tokens_mean"] == first + 2.5 + SETTLING / 2
    assert found["stepbench_load_start"] >= 0
    assert found["python_hash_seed"] == hash_seed(0, 1)
    assert {"hostname", "cpu_model_name", "python_version", "date"} <= found.keys()


def test_the_collector_is_off_unless_asked_for():
    off, on = make_plan(gc=False), make_plan(gc=True)

    assert metadata(off, off.jobs()[0])["python_gc"] == "disabled"
    # pyperf says nothing of a collector that runs.
    assert "python_gc" not in metadata(on, on.jobs()[0])


@pytest.mark.skipif(
    len(allowed_cpus()) < 2 or len(allowed_cpus()) < (os.cpu_count() or 1),
    reason="pinning to the only core, or by whoever started the tests, shows no difference",
)
def test_a_worker_is_pinned_only_if_asked():
    last = allowed_cpus()[-1]
    pinned, free = make_plan(cpu=last), make_plan(cpu=None)

    assert metadata(pinned, pinned.jobs()[0])["cpu_affinity"] == str(last)
    assert "cpu_affinity" not in metadata(free, free.jobs()[0])


def test_the_input_depends_on_the_seed_and_process_alone(tmp_path: Path):
    trace = tmp_path / "trace.csv"
    rows = [f"2023-11-16,{20 + 7 * i % 50},{3 + i % 9}" for i in range(400)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    replay = TraceReplay(path=str(trace), max_batch=3, max_num_tokens=64)
    plan = make_plan(scenarios=[replay], samples=10)
    shape = [f"stepbench_{name}" for name in ("requests_mean", "tokens_first", "tokens_mean")]

    def shape_of(arm: str, process: int) -> list[float]:
        found = metadata(plan, Job(replay, arm, process))
        return [found[name] for name in shape]

    assert shape_of("full-copy", 0) == shape_of("incremental", 0)
    assert shape_of("full-copy", 0) != shape_of("full-copy", 1)


def test_modules_in_the_working_folder_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for name in ("harness", "pyperf", "json"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadowed')\n")
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    assert isinstance(run_job(plan, plan.jobs()[0]), pyperf.Benchmark)


def test_an_unknown_arm_ends_with_its_name():
    plan = make_plan("incremetal")
    with pytest.raises(WorkerError, match=r"unknown arm 'incremetal': did you mean 'incremental'"):
        run_job(plan, plan.jobs()[0])
