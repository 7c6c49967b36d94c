"""``stepbench compare`` through its entry point: drawn samples, and a few real workers."""

import json
import math
from pathlib import Path

import pytest

from harness.system.cores import allowed_cpus
from harness.system.worker_process import WorkerError

from .compare_workers import ONE, TWO, Workers, cells_in, strictly, subject
from .conftest import Ran, Run, run_script


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


@pytest.mark.parametrize(
    ("effect", "code", "text", "processes"),
    [
        (0.0, 0, "No difference between `incremental` and `incremental` beyond 0.50% (1 cell", 6),
        (0.02, 1, "`incremental` is slower than `incremental` (1 cell: 1 slower).", 12),
        (-0.02, 0, "`incremental` is faster than `incremental` (1 cell: 1 faster).", 12),
    ],
)
def test_the_exit_code_is_the_verdict(
    run_here: Run, workers: Workers, effect: float, code: int, text: str, processes: int
):
    workers.effects["v2-2x64"] = effect

    ran = run_here("compare", *ONE)

    assert (ran.code, ran.err) == (code, "")
    assert ran.out.startswith(text)
    assert workers.cells() == [f"2x64 {processes}"]
    assert len(json.loads(Path("x.json").read_text())["cells"][0]["samples"]) == processes


def test_a_busy_core_is_inconclusive(run_here: Run, workers: Workers):
    workers.effects["v2-2x64"], workers.shares["v2-2x64"] = 0.5, 0.5

    ran = run_here("compare", *ONE, "--seconds", "0.1")

    assert (ran.code, ran.err) == (3, "")
    assert ran.out.startswith("Inconclusive: no verdict on `incremental` against `incremental` (")
    assert "\n\nv2-2x64: busy core: the measuring processes got 50% of it.\n\n" in ran.out


def test_a_slower_cell_counts_more_than_an_inconclusive_one(run_here: Run, workers: Workers):
    workers.effects["v2-1x8"] = 0.02
    workers.shares["v2-2x64"] = 0.5

    ran = run_here("compare", *TWO, "--seconds", "0.1")

    assert ran.code == 1
    assert ran.out.startswith("`batched` is slower than `incremental` (2 cells: 1 slower, 1 inconc")
    assert cells_in("x.json") == ["inconclusive", "slower"]


def test_the_markdown_table(run_here: Run, workers: Workers):
    workers.effects["v2-1x8"] = math.log(1.5)

    ran = run_here("compare", *TWO, "--cpu", "none", "--seed", "5", "--provider", "python")

    table = [line for line in ran.out.splitlines() if line.startswith("|")]
    assert table[2:] == [
        "| 2 | 64 | 2.00 ms | 2.00 ms | 1.0000 (1.0000 to 1.0000) "
        "| 1.0000 (1.0000 to 1.0000) | 0.00% | 0.50% | 6 "
        "| no difference beyond 0.50% |",
        "| 1 | 8 | 2.00 ms | 3.00 ms | 1.5000 (1.5000 to 1.5000) "
        "| 1.5000 (1.5000 to 1.5000) | 0.00% | 0.50% | 6 + 6 "
        "| slower |",
    ]
    assert (
        "not pinned; stand-ins: provider python; outputs not verified. Seed 5. Repeat with "
        "`stepbench compare "
    ) in ran.out
    assert {job["cpu"] for job in workers.jobs} == {None}
    assert {job["seed"].partition("-")[0] for job in workers.jobs} == {"5"}


def test_the_collector_is_off_unless_asked_for(run_here: Run, workers: Workers):
    off, on = run_here("compare", *ONE), run_here("compare", *ONE, "--force", "--gc", "on")

    assert ", the garbage collector off. " in off.out
    assert ", the garbage collector on. " in on.out
    assert [job["gc"] for job in workers.jobs] == [False] * 6 + [True] * 6


def test_processes_of_their_own_for_all_copies(run_here: Run, workers: Workers):
    workers.effects["v2-2x64"] = 0.3
    side_by_side, apart = run_here("compare", *ONE), run_here("compare", *ONE, "--force", "--apart")

    for ran, words, missing in (
        (side_by_side, "side by side on the same workload", "took turns"),
        (
            apart,
            "a process of its own each, on a workload of the same seed; the four, which",
            "side",
        ),
    ):
        assert words in ran.out
        assert missing not in ran.out.partition("Both arms, and a second copy")[2]
    # Nor do such arms leave each other's caches in different states.
    assert ("far apart leave" in side_by_side.out, "far apart leave" in apart.out) == (True, False)
    kept = json.loads(Path("x.json").read_text())
    assert kept["apart"] is True


def test_arms_that_are_far_apart_are_told_to_be(run_here: Run, workers: Workers):
    workers.effects["v2-2x64"], workers.effects["v2-1x8"] = 0.049, -0.049
    near = run_here("compare", *TWO)
    workers.effects["v2-1x8"] = -0.051
    far = run_here("compare", *TWO, "--force")

    note = "\n\nArms that are far apart leave each other's caches in different states, which biases"
    assert (note in near.out, far.out.count(note)) == (False, 1)


def test_json_is_one_document_and_nothing_else(run_here: Run, workers: Workers):
    workers.errors["v2-1x8"] = WorkerError("cell v2-1x8, process 1: the worker exited with 3")

    ran = run_here("compare", *TWO, "--json")

    document = strictly(ran.out)
    assert (document["a"], document["b"], document["verdict"]) == (
        *("incremental", "batched"),
        "inconclusive",
    )
    assert [(cell["cell"], cell["kind"], cell["reach"]) for cell in document["cells"]] == [
        ("v2-2x64", "no difference", 0.0),
        ("v2-1x8", "inconclusive", None),
    ]
    assert ran.code == 1


def test_a_worker_that_fails_is_named_and_the_other_cells_are_measured(
    run_here: Run, workers: Workers
):
    workers.errors["v2-2x64"] = WorkerError("cell v2-2x64, process 1: the worker hung")

    ran = run_here("compare", *TWO)

    assert ran.code == 1
    assert ran.err == "stepbench: cell v2-2x64, process 1: the worker hung\n"
    assert workers.cells() == ["1x8 6"]
    assert cells_in("x.json") == ["inconclusive", "no difference"]
    assert "| 2 | 64 | not measured | not measured | - | - | - | - | 0 | inconclusive |" in ran.out


def test_an_interrupt_keeps_the_cells_that_are_finished(run_here: Run, workers: Workers):
    workers.errors["v2-1x8"] = KeyboardInterrupt()

    ran = run_here("compare", *TWO)

    assert ran.code == 130
    assert ran.err == ("stepbench: interrupted; 1 of 2 cells are finished and kept in x.json\n")
    assert cells_in("x.json") == ["no difference"]
    assert "| 2 | 64 | 2.00 ms | 2.00 ms |" in ran.out


def test_an_interrupt_before_the_first_cell_leaves_nothing(run_here: Run, workers: Workers):
    workers.errors["v2-2x64"] = KeyboardInterrupt()

    ran = run_here("compare", *TWO)

    assert ran == Ran(130, "", "stepbench: interrupted; 0 of 2 cells are finished\n")
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("workers")
def test_without_quiet_it_says_where_the_samples_are(run_here: Run):
    ran = run_here("compare", *[word for word in ONE if word != "-q"])

    assert ran.err == "stepbench: samples kept in x.json\n"


def test_arms_that_differ_are_timed_on_request(run_here: Run, workers: Workers):
    arguments = ("compare", "incremental", subject("differs"), "--cells", "2x64", "-q")

    ran = run_here(*arguments, "--no-verify")

    assert (ran.code, workers.cells()) == (0, ["2x64 6"])
    assert "outputs not verified." in ran.out


def test_arms_that_agree_are_said_to(run_here: Run, workers: Workers):
    ran = run_here("compare", "page-range", subject("equal"), "--cells", "2x64", "-q")

    assert (ran.code, workers.cells()) == (0, ["2x64 6"])
    assert "; outputs verified in a few random runs first. " in ran.out


@pytest.mark.parametrize(
    ("given", "fraction"), [("2%", 0.02), (" 2 % ", 0.02), ("0.02", 0.02), ("0.5%", 0.005)]
)
def test_a_threshold_is_a_share(run_here: Run, workers: Workers, given: str, fraction: float):
    workers.effects["v2-2x64"] = math.log1p(fraction * 0.9)

    assert run_here("compare", *ONE, "--threshold", given, "--json").code == 0
    assert json.loads(Path("x.json").read_text())["threshold"] == pytest.approx(fraction)
    workers.effects["v2-2x64"] = math.log1p(fraction * 1.1)
    assert run_here("compare", *ONE, "--threshold", given, "--force").code == 1


@pytest.mark.thorough
def test_with_real_workers_equal_arms_are_not_slower():
    """Through the installed command. The threshold is far beyond any noise."""
    ran = run_script(
        *("compare", "incremental", subject("equal"), "--cells", "1x8", "--seconds", "0.1"),
        *("--threshold", "50%", "--json", "-q"),
    )

    # Inconclusive where something else has the core.
    assert (ran.code, ran.err) in {(0, ""), (3, "")}
    document = strictly(ran.out)
    assert document["verdict"] == {0: "no difference", 3: "inconclusive"}[ran.code]
    (cell,) = document["cells"]
    assert (cell["cell"], cell["processes"]) == ("v2-1x8", 6)
    (file,) = Path("results").iterdir()
    (stored,) = strictly(file.read_text())["cells"]
    assert stored["verdict"]["ratio"] == cell["ratio"]
    assert [[len(arm) for arm in process] for process in stored["samples"]] == [[152] * 4] * 6


def test_with_real_workers_a_much_slower_arm_is_no_pass():
    ran = run_script(
        *("compare", "incremental", subject("slower"), "--cells", "1x8", "--seconds", "0.1"),
        *("--no-verify", "-q", "--json"),
    )

    assert strictly(ran.out)["verdict"] == {1: "slower", 3: "inconclusive"}[ran.code]


def test_a_worker_runs_on_each_core_that_is_named(run_here: Run, workers: Workers):
    first, last = min(allowed_cpus()), max(allowed_cpus())
    cores = sorted({first, last})

    # In whatever order.
    ran = run_here("compare", *ONE, "--cpu", ",".join(map(str, reversed(cores))))

    assert [job["cpu"] for job in workers.jobs] == (cores * 6)[:6]
    assert f"pinned to core{'s' * (len(cores) > 1)} {' and '.join(map(str, cores))};" in ran.out
    assert json.loads(Path("x.json").read_text())["cpus"] == cores


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="two cores are needed")
def test_a_core_that_others_use_is_left_out_and_that_is_told(run_here: Run, workers: Workers):
    first, last = min(allowed_cpus()), max(allowed_cpus())
    workers.shares_of_cores[first] = 0.5

    ran = run_here("compare", *ONE, "--cpu", f"{first},{last}")

    assert ran.code == 0
    assert [job["cpu"] for job in workers.jobs] == [first, *[last] * 5]
    words = f"the cell went on without it: core {first} in v2-2x64, after 1 process.\n\n"
    assert words in ran.out


def test_what_was_finished_is_told_if_no_worker_can_be_started(run_here: Run, workers: Workers):
    workers.errors["v2-1x8"] = OSError(24, "Too many open files")

    ran = run_here("compare", *TWO)

    assert ran.code == 2
    assert ran.err == (
        "stepbench: cell v2-1x8: no worker can be started: no more files can be opened here: raise "
        "the limit (ulimit -n)\n"
    )
    assert ran.out.startswith("Inconclusive: no verdict on `batched` against `incremental` (1 cell")
    assert "Incomplete: 1 cell of 2 missing." in ran.out
    assert cells_in("x.json") == ["no difference"]
