"""``stepbench overlap`` through its entry point: made-up processes, and a few real ones."""

import json
import os
import sys
from pathlib import Path

import pytest

from harness.overlap.file import read_overlap
from harness.overlap.loop import sweep_size
from harness.system.worker_process import WorkerError

from ..harness.fake_torch import FakeHostClock, FakeTorch
from .compare_workers import strictly, subject
from .conftest import Ran, Run, run_script
from .overlap_workers import REAL, Workers

ONE = ("--cells", "2x64", "-o", "x.json", "-q", "--no-verify", "--provider", "python")
# What `incremental` saves under overlap where `full-copy` takes 6 ms and a forward 4.
SAVED = "2.00 ms (2.00 to 2.00)"


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def rows(ran: Ran) -> list[list[str]]:
    lines = [line for line in ran.out.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_markdown_table(run_here: Run, workers: Workers):
    ran = run_here("overlap", *ONE, "--forward-ms", "4", "--other-host-ms", "1", "--processes", "2")

    assert (ran.code, ran.err) == (0, "")
    head, _, *body = rows(ran)
    assert head == [
        *("Requests", "Tokens per request", "Arm", "Path", "Host", "Forward", "Step, no overlap"),
        *("Saved", "Step, overlap", "Exposed", "Hidden", "Saved, overlap"),
    ]
    # Host is 7 and 2 ms: 3 of the first stick out beyond the forward, none of the second.
    assert body == [
        [
            *("2", "64", "full-copy", "6.00 ms", "7.00 ms", "4.00 ms", "11.0 ms", "", "7.00 ms"),
            *("3.00 ms (3.00 to 3.00)", "4.00 ms", ""),
        ],
        [
            *("", "", "incremental", "1.00 ms", "2.00 ms", "4.00 ms", "6.00 ms"),
            *("5.00 ms (5.00 to 5.00)", "4.00 ms", "0", "2.00 ms", "3.00 ms (3.00 to 3.00)"),
        ],
    ]
    assert "1 ms of other host work before the launch" in ran.out
    assert "Forward: 4 ms, as given." in ran.out
    assert [job["cpu"] for job in workers.jobs] == [max(os.sched_getaffinity(0))] * 2


def test_by_default_it_is_a_roofline_that_is_named(run_here: Run, workers: Workers):
    ran = run_here("overlap", *ONE, "--processes", "1")

    assert ran.code == 0
    assert "roofline of meta-llama/Llama-3.1-8B (BF16 weights, BF16 KV cache) on B200 SXM" in (
        ran.out
    )
    assert "0 ms of other host work before the launch" in ran.out
    (job,) = workers.jobs
    assert job["forward"] == {
        "seconds": None,
        "model": "llama-3.1-8b",
        "gpu": "b200",
        "gpus": 1,
    }
    assert (job["device"], job["swept"], job["iterations"]) == ("simulated", 0, 100)


def test_options_reach_the_workers(run_here: Run, workers: Workers):
    ran = run_here(
        *("overlap", *ONE, "--arms", "batched,full-copy,incremental", "--model", "deepseek-v3"),
        *("--gpu", "b200", "--gpus", "8", "--caches", "cold", "--iterations", "7", "--seed", "5"),
        *("--cpu", "none", "--processes", "2"),
    )

    assert ran.code == 0
    job = workers.jobs[1]
    assert [source["name"] for source in job["sources"]] == ["batched", "full-copy", "incremental"]
    assert job["forward"]["gpus"] == 8
    assert (job["swept"], job["iterations"], job["seed"], job["cpu"]) == (
        *(sweep_size(None), 7),
        *("5-1", None),
    )
    assert f"Before each path {job['swept'] / 2**20:,.0f} MiB were read and written" in ran.out
    assert "on 8 x B200 SXM" in ran.out
    assert [row[4] for row in rows(ran)[2:]] == ["0.50 ms", "6.00 ms", "1.00 ms"]


def test_all_arms_are_those_of_the_ladder(run_here: Run, workers: Workers):
    assert run_here("overlap", *ONE, "--arms", "all", "--processes", "1").code == 0

    names = [source["name"] for source in workers.jobs[0]["sources"]]
    ladder = ["full-copy", "incremental", "page-growth", "page-range", "batched"]
    assert names == [*ladder, "native-output"]


@pytest.mark.usefixtures("workers")
def test_the_point_from_which_on_an_arm_is_exposed(run_here: Run):
    ran = run_here(
        *("overlap", "--requests", "2", "--tokens", "64,256", "-o", "x.json", "-q", "--no-verify"),
        *("--forward-ms", "4", "--processes", "2"),
    )

    assert "overlap: `full-copy` is exposed at 64 to 256 tokens per request." in ran.out
    assert "overlap: `incremental` is hidden at 64 to 256 tokens per request." in ran.out


def test_named_cells_of_the_overlap_scheduler_run_in_both_orders(run_here: Run, workers: Workers):
    ran = run_here("overlap", "--scenario", "overlap", *ONE[2:], "--processes", "1")

    assert ran.code == 0
    assert [job["scenario"]["overlap"] for job in workers.jobs] == [False, False]


@pytest.mark.usefixtures("workers")
def test_everything_is_kept(run_here: Run):
    run_here("overlap", *ONE, "--forward-ms", "4", "--processes", "2")

    kept = read_overlap(Path("x.json"))
    assert len(kept.runs[0].processes) == 2
    assert kept.cells[0].arms[0].with_overlap.exposed.value == pytest.approx(0.002)
    assert kept.metadata["command"].startswith("stepbench overlap --cells 2x64")
    assert "outputs not verified" in kept.metadata["where"]


@pytest.mark.usefixtures("workers")
def test_json_is_one_document_and_nothing_else(run_here: Run):
    ran = run_here("overlap", *ONE, "--forward-ms", "4", "--json")

    document = strictly(ran.out)
    assert (ran.code, ran.err) == (0, "")
    (cell,) = document["cells"]
    assert [arm["arm"] for arm in cell["arms"]] == ["full-copy", "incremental"]
    assert cell["arms"][0]["with_overlap"]["exposed_s"]["value"] == pytest.approx(0.002)


def test_a_worker_that_fails_is_named_and_the_other_cells_are_measured(
    run_here: Run, workers: Workers
):
    workers.errors["v2-2x64"] = WorkerError("cell v2-2x64, process 1: the worker hung")

    ran = run_here("overlap", "--cells", "2x64,3x64", *ONE[2:])

    assert ran.code == 1
    assert ran.err == "stepbench: cell v2-2x64, process 1: the worker hung\n"
    assert [row[-1] for row in rows(ran)[2:]] == ["not measured", "not measured", "", SAVED]
    assert len(read_overlap(Path("x.json")).runs) == 2


def test_an_interruption_keeps_what_was_finished(run_here: Run, workers: Workers):
    workers.errors["v2-3x64"] = KeyboardInterrupt()

    ran = run_here("overlap", "--cells", "2x64,3x64", *ONE[2:], "--forward-ms", "4")

    assert ran.code == 130
    assert ran.err == "stepbench: interrupted; 1 of 2 cells are finished and kept in x.json\n"
    assert ran.out.startswith("Incomplete: 1 cell of 2 missing.\n")
    assert len(read_overlap(Path("x.json")).runs) == 1


def test_an_interruption_before_anything_is_finished(run_here: Run, workers: Workers):
    workers.errors["v2-2x64"] = KeyboardInterrupt()

    ran = run_here("overlap", *ONE)

    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "stepbench: interrupted; 0 of 1 cells are finished\n"
    assert not Path("x.json").exists()


def test_a_file_that_can_no_longer_be_written_ends_the_measurement(
    run_here: Run, workers: Workers, tmp_path: Path
):
    folder = tmp_path / "there"

    class Removing(Workers):
        def __call__(self, *arguments: object) -> str:
            folder.rmdir()
            return super().__call__(*arguments)  # type: ignore[arg-type]

    workers.__class__ = Removing
    ran = run_here(
        *("overlap", "--cells", "2x64,3x64", "-o", str(folder / "x.json"), "-q", "--no-verify"),
        *("--processes", "1"),
    )

    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "cannot be written" in ran.err
    assert len(workers.jobs) == 1
    assert len(rows(ran)) == 4


@pytest.mark.usefixtures("workers")
def test_the_file_is_named_by_the_time(run_here: Run):
    ran = run_here("overlap", "--cells", "2x64", "--no-verify", "--processes", "1")

    (file,) = Path("results").glob("overlap-*.json")
    assert ran.err == f"stepbench: samples kept in {file}\n"


@pytest.mark.usefixtures("workers")
def test_outputs_are_verified_first(run_here: Run):
    ran = run_here("overlap", "--cells", "2x64", "-q", "--processes", "1")

    assert ran.code == 0
    assert "outputs verified in a few random runs first" in ran.out


def test_the_real_thing(run_here: Run):
    ran = run_here("overlap", *REAL, "--forward-ms", "1", "-o", "x.json", "-q")

    assert (ran.code, ran.err) == (0, "")
    (cell,) = read_overlap(Path("x.json")).cells
    for arm in cell.arms:
        without, within = arm.without_overlap, arm.with_overlap
        assert without.forward.value == within.forward.value == 0.001
        # Without overlap each step pays for its host's time and its forward.
        assert without.exposed.value >= without.path.value > 0
        assert without.step.value >= 0.001 + without.path.value - 1e-9
        assert without.hidden.value <= without.host.value
        assert within.predicted_step.value >= 0.001


def test_the_installed_script():
    ran = run_script("overlap", *REAL, "--model", "qwen2.5-7b", "--gpu", "h200", "--json")

    assert ran.code == 0
    document = strictly(ran.out)
    assert document["forward"]["model"] == "qwen2.5-7b"
    assert [each["cell"] for each in document["cells"]] == ["v2-1x8"]
    assert "samples kept in results/overlap-" in ran.err


def test_a_trace_is_replayed(run_here: Run):
    Path("t.csv").write_text("ContextTokens,GeneratedTokens\n" + "40,20\n" * 60)

    ran = run_here(
        *("overlap", "--trace", "t.csv", "--max-batch", "4", "--max-num-tokens", "64", "-q"),
        *("--processes", "2", "--iterations", "3", "--gpu", "b200", "-o", "x.json"),
    )

    assert ran.code == 0
    assert "the mean of its iterations" in ran.out
    assert rows(ran)[2][:4] == ["4", "-", "trace=t batch=4 budget=64", "full-copy"]
    assert json.loads(Path("x.json").read_text())["cells"][0]["scenario"]["kind"] == "TraceReplay"


def test_arms_from_elsewhere(run_here: Run):
    arm = subject("equal")

    ran = run_here("overlap", *REAL, "--arms", f"incremental,{arm}", "-o", "x.json", "-q")

    assert ran.code == 0
    assert f"`{arm}`" in ran.out


def test_arms_that_differ_are_not_timed(run_here: Run, workers: Workers):
    arms = f"incremental,{subject('differs')}"

    ran = run_here("overlap", "--cells", "2x64", "--arms", arms)

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{subject('differs')}` departs from `incremental` in ")
    assert ran.err == "stepbench: the arms differ, so they are not measured; --no-verify insists\n"
    assert workers.jobs == []
    assert not Path("results").exists()


def test_an_arm_that_raises_is_a_finding(run_here: Run):
    arm = subject("crash")

    ran = run_here("overlap", *REAL, "--arms", arm, "--no-verify", "-q")

    assert ran.code == 1
    assert ran.err == (
        f"stepbench: cell v2-1x8, process 1: the worker failed: RuntimeError: arm {arm}: "
        "RuntimeError: the subject broke\n"
    )


def test_on_a_gpu_the_forward_is_measured(
    run_here: Run, workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(FakeHostClock()))  # type: ignore[arg-type]

    ran = run_here("overlap", *ONE, "--device", "cuda", "--processes", "1")

    assert ran.code == 0
    (job,) = workers.jobs
    assert job["device"] == "cuda"
    assert (job["forward"]["model"], job["forward"]["gpu"]) == ("llama-3.1-8b", None)
    assert "Forward: measured, a synthetic decode forward of the shape of meta-llama/" in ran.out
    assert "Memory" not in rows(ran)[0]
