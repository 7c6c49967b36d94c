"""What goes wrong while it is measured: workers that die, and disks that are full."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.speedup import isolated
from harness.system.worker_process import Child
from stepbench_core.errors import WorkerError

from .conftest import Run, stored_runs

pytestmark = pytest.mark.thorough

TWO_CELLS = ("--cells", "2x64,1x8", "--quick", "--processes", "2", "-o", "x.json")

Sabotage = Callable[[Callable[[str], bool], str], None]


@pytest.fixture
def sabotage(monkeypatch: pytest.MonkeyPatch) -> Sabotage:
    """Puts other programs in the place of some workers."""
    real = isolated.run_in_turns

    def sabotaged(is_hit: Callable[[str], bool], program: str) -> None:
        def run(children: Sequence[Child], *rest: Any) -> list[str | WorkerError]:  # noqa: ANN401
            bad = [sys.executable, "-c", program]
            played = [replace(one, command=bad) if is_hit(one.what) else one for one in children]
            return real(played, *rest)

        monkeypatch.setattr(isolated, "run_in_turns", run)

    return sabotaged


def _is_hit(worker: str) -> bool:
    return worker.startswith("cell v2-2x64, arm incremental")


@pytest.mark.parametrize(
    ("program", "why", "code"),
    [
        # As the kernel does it where memory is short: that is no finding about an arm.
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL", 2),
        ("import os; os.abort()", "killed by SIGABRT", 1),
        ("raise RuntimeError('a broken arm')", "failed: RuntimeError: a broken arm", 1),
        ("print('nonsense')", "returned no result", 1),
        ("raise MemoryError", "failed: MemoryError", 2),
    ],
)
def test_a_worker_that_dies_is_named_and_the_rest_is_measured(
    run_here: Run, sabotage: Sabotage, program: str, why: str, code: int
):
    sabotage(_is_hit, program)

    ran = run_here("speedup", *TWO_CELLS, "-q")

    assert ran.code == code
    (line,) = ran.err.splitlines()  # Once: its second process is not even tried.
    assert line.startswith("stepbench: cell v2-2x64, arm incremental, process 1: the worker ")
    assert why in line
    rows = [line for line in ran.out.splitlines() if line.startswith("| ")]
    assert rows[2].startswith("| 2 | 64 | ")
    assert rows[2].endswith(" | not measured | not measured |")
    assert "not measured" not in rows[3]
    assert "Incomplete: v2-2x64 with `incremental` (0 of 2 processes). " in ran.out
    assert stored_runs("x.json").keys() == {
        ("v2-2x64/full-copy", 0),
        ("v2-2x64/full-copy", 1),
        *((f"v2-1x8/{arm}", number) for arm in ("full-copy", "incremental") for number in (0, 1)),
    }


def test_what_was_measured_before_a_failure_counts(run_here: Run, sabotage: Sabotage):
    sabotage(lambda worker: _is_hit(worker) and "process 2" in worker, "raise SystemExit(3)")

    ran = run_here("speedup", *TWO_CELLS, "-q")

    assert ran.code == 1
    assert "process 2: the worker exited with 3" in ran.err
    assert "(one process: no interval) |" in ran.out
    assert "Incomplete: v2-2x64 with `incremental` (1 of 2 processes). " in ran.out


def test_a_failure_can_be_made_good_later(run_here: Run, sabotage: Sabotage):
    sabotage(_is_hit, "raise SystemExit(3)")
    assert run_here("speedup", *TWO_CELLS, "-q").code == 1
    before = stored_runs("x.json")
    sabotage(lambda _: False, "")

    ran = run_here("speedup", "--resume", "x.json", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert "not measured" not in ran.out
    after = stored_runs("x.json")
    assert after.keys() - before.keys() == {("v2-2x64/incremental", 0), ("v2-2x64/incremental", 1)}
    assert {key: after[key] for key in before} == before


def test_a_worker_that_hangs_is_stopped(run_here: Run, sabotage: Sabotage):
    sabotage(lambda _: True, "import time; time.sleep(600)")
    descriptors = psutil.Process().num_fds()

    ran = run_here("speedup", *TWO_CELLS, "-q", "--timeout", "0.2")

    assert (ran.code, ran.out) == (1, "")
    *lines, _nothing_kept = ran.err.splitlines()
    assert [line.partition(": the worker hung: ")[0] for line in lines] == [
        f"stepbench: cell {cell}, arm {arm}, process 1"
        for cell in ("v2-2x64", "v2-1x8")
        for arm in ("full-copy", "incremental")
    ]
    # Its pipes are closed as well: a long grid of hanging cells must not run out of them.
    assert psutil.Process().num_fds() == descriptors


def test_where_no_worker_lives_there_is_no_table(run_here: Run, sabotage: Sabotage):
    sabotage(lambda _: True, "raise SystemExit(3)")

    ran = run_here("speedup", *TWO_CELLS, "-q")

    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 5
    assert ran.err.endswith("stepbench: no process finished, so there is nothing to keep\n")
    assert not Path("x.json").exists()


def test_an_older_file_is_not_taken_for_the_result(run_here: Run, sabotage: Sabotage, results: str):
    sabotage(lambda _: True, "raise SystemExit(3)")

    ran = run_here("speedup", *TWO_CELLS, "-q", "--force")

    # Nothing was measured: the figures of another day, other cells even, must not be printed.
    assert results == "x.json"
    assert (ran.code, ran.out) == (1, "")


@pytest.mark.parametrize("quiet", [("-q",), ()])
def test_a_full_disk_keeps_what_was_written(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, quiet: tuple[str, ...]
):
    synced = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)
        synced.append(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    ran = run_here("speedup", *TWO_CELLS, *quiet)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-1] == (
        "stepbench: error: x.json: cannot be written: No space left on device"
    )
    assert len(ran.err.splitlines()) == (1 if quiet else 2)
    assert stored_runs("x.json").keys() == {
        ("v2-2x64/full-copy", 0),
        ("v2-2x64/incremental", 0),
    }
    assert [str(path) for path in Path().iterdir()] == ["x.json"]


def test_after_a_full_disk_there_is_a_way_on(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    real, calls = os.fsync, []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert run_here("speedup", *TWO_CELLS, "-q").code == 2
    before = stored_runs("x.json")

    ran = run_here("speedup", "--resume", "x.json", "-q")

    assert ran.code == 0
    after = stored_runs("x.json")
    assert len(after) == 8
    assert {key: after[key] for key in before} == before
