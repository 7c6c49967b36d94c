"""The worker as a process: the real loop with real arms, on a tiny cell."""

import json
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.arms.sources import find_source
from harness.overlap import worker as overlap_worker
from harness.overlap.model import predict
from harness.overlap.run import read_segments
from harness.system.cores import allowed_cpus
from harness.system.worker_process import WorkerError, hash_seed, run_child
from scenarios.scenario import SteadyDecode, TraceReplay

pytestmark = pytest.mark.usefixtures("no_child_left")

CELL = SteadyDecode(requests=2, tokens=40)
SUBJECTS = Path(__file__).parent.parent / "subjects"


def job(*specs: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the job of a worker with these arms."""
    return {
        "sources": [asdict(find_source(spec)) for spec in specs],
        "scenario": CELL.to_dict(),
        "seed": "0",
        "cpu": None,
        "provider": "python",
        "forward": {"seconds": 0.002},
        "device": "simulated",
        "other_host": 0.0,
        "swept": 0,
        "warmups": 2,
        "iterations": 5,
        **changed,
    }


def run(*specs: str, **changed: Any) -> dict[str, Any]:  # noqa: ANN401
    """Run a worker with these arms and return its result."""
    text = json.dumps(job(*specs, **changed))
    command = [sys.executable, "-P", "-m", "harness.overlap.worker"]
    return json.loads(run_child("cell x", command, hash_seed(0, 0), text, 60))


def subject(name: str) -> str:
    return f"file:{SUBJECTS / name}.py"


def test_all_arms_run_in_both_orders():
    found = run("full-copy", "incremental", subject("equal"), cpu=allowed_cpus()[0])

    assert found["device"] == {}
    assert 0 < found["cpu_share"] < 1.5
    segments = read_segments(found["segments"])
    assert segments.keys() == {(arm, overlap) for arm in range(3) for overlap in (False, True)}
    for iterations in segments.values():
        # The last warm-up and what was measured.
        assert len(iterations) == 6
        assert all(each.path > 0 and each.forward == 0.002 for each in iterations)


def test_the_order_of_the_segments_depends_on_the_seed_alone():
    def turns(seed: str) -> list[tuple[int, bool]]:
        found = run("full-copy", "incremental", seed=seed, iterations=1)
        return [(segment["arm"], segment["overlap"]) for segment in found["segments"]]

    assert turns("a") == turns("a")
    assert len({tuple(turns(seed)) for seed in "abc"}) > 1


def test_what_is_timed_holds_together():
    found = run("incremental", subject("equal"), other_host=0.001, iterations=20)

    for (_, overlap), iterations in read_segments(found["segments"]).items():
        for each in iterations:
            assert each.other >= 0.001
            assert each.between == 0
            # The device waits for all of the path and the other work, unless that is hidden.
            if not overlap:
                assert each.exposed >= each.path + each.other - 1e-9
                assert each.step >= each.path + each.other + each.forward - 1e-9
        if overlap:
            # At least once a forward of 2 ms hid the work of one.
            assert min(each.exposed for each in iterations) == 0
        # In most of them no more than the model has: a core that others take away for a while
        # makes single ones longer.
        own, model = iterations[1:], predict(iterations, overlap=overlap)
        steps = [each.forward + exposed for each, exposed in zip(own, model, strict=True)]
        beyond = [each.step / step for each, step in zip(own, steps, strict=True)]
        assert 0.98 < statistics.median(beyond) < 1.02
        more = [each.exposed - exposed for each, exposed in zip(own, model, strict=True)]
        assert abs(statistics.median(more)) < 0.02 * statistics.median(steps)


def test_a_forward_of_no_time_exposes_everything():
    found = run("incremental", forward={"seconds": 0.0})

    for iterations in read_segments(found["segments"]).values():
        assert all(each.forward == 0 for each in iterations)
        assert all(each.exposed >= each.path - 1e-9 for each in iterations[1:])


def test_a_roofline_follows_the_batch():
    found = run("incremental", forward={"model": "llama-3.1-8b", "gpu": "b200"}, iterations=3)

    for iterations in read_segments(found["segments"]).values():
        forwards = [each.forward for each in iterations]
        assert 0.0018 < forwards[0] < 0.0019
        assert forwards == sorted(set(forwards)), "each iteration's cache is longer"


def test_a_trace_and_cold_caches(tmp_path: Path):
    path = tmp_path / "trace.csv"
    path.write_text("ContextTokens,GeneratedTokens\n" + "40,20\n" * 60)
    trace = TraceReplay(path=str(path), max_batch=4, max_num_tokens=64)

    found = run(
        "incremental",
        scenario=trace.to_dict(),
        forward={"model": "qwen2.5-7b", "gpu": "b200"},
        swept=2**20,
    )

    for iterations in read_segments(found["segments"]).values():
        assert len(iterations) == 6


NOTING = """
from connector.incremental import KvCacheConnectorSchedulerOutputManager as Base

class KvCacheConnectorSchedulerOutputManager(Base):
    def build_scheduler_output(self, *arguments):
        output = super().build_scheduler_output(*arguments)
        for data in output.cached_requests:
            if len(data.new_tokens) > 1:
                with open({path!r}, "a") as file:
                    file.write(f"{{len(data.new_tokens)}} ")
        return output
"""


def test_under_overlap_the_first_token_is_late(tmp_path: Path):
    arm, notes = tmp_path / "arm.py", tmp_path / "notes"
    arm.write_text(NOTING.format(path=str(notes)))

    run(f"file:{arm}", scenario=SteadyDecode(requests=1, tokens=40).to_dict())

    # The prompt with the token that the context phase gave, and in the other order without it.
    assert sorted(notes.read_text().split()) == ["40", "41"]


@pytest.mark.parametrize("swept", [0, 5_000])
def test_caches_are_swept_before_each_path_if_asked(monkeypatch: pytest.MonkeyPatch, swept: int):
    sweeps: list[int] = []
    monkeypatch.setattr(overlap_worker, "Sweep", lambda size: lambda: sweeps.append(size))

    found = overlap_worker.measure(job("incremental", swept=swept))

    # Two orders of two warm-ups, five iterations and a last one.
    assert sweeps == [swept] * (16 if swept else 0)
    assert len(found["segments"]) == 2


def test_an_arm_that_raises_is_named():
    with pytest.raises(WorkerError) as caught:
        run("incremental", subject("crash"))

    name = subject("crash")
    assert str(caught.value) == (
        f"cell x: the worker failed: RuntimeError: arm {name}: RuntimeError: the subject broke"
    )


def test_what_an_arm_prints_does_not_mix_with_the_result():
    assert len(run(subject("loud"), iterations=1)["segments"]) == 2
