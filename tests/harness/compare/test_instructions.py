"""Counting instructions, with a program in valgrind's place, and a few times with valgrind."""

import math
import os
import platform
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.arms.sources import ArmSource, find_source
from harness.compare import instructions
from harness.compare.duet import Duet
from harness.compare.instructions import (
    CellCount,
    Valgrind,
    count_cell,
    find_valgrind,
    iterations_of,
)
from harness.system.worker_process import hash_seed
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError

from ..fake_valgrind import BY_HASH, DIFFERING, FakeValgrind

pytestmark = pytest.mark.usefixtures("no_child_left")

CELL = SteadyDecode(requests=2, tokens=64)
SUBJECTS = Path(__file__).parent.parent / "subjects"
WHAT = "cell v2-2x64, counting instructions"
needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or platform.machine() != "x86_64",
    reason="needs valgrind on x86-64",
)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeValgrind:
    return FakeValgrind(tmp_path / "bin", monkeypatch)


def duet(a: str = "incremental", b: str = "batched", seed: int = 0) -> Duet:
    return Duet(find_source(a), find_source(b), (CELL,), seed=seed, provider="python")


def count(subject: Duet | None = None, **options: int) -> CellCount:
    return count_cell(subject or duet(), CELL, find_valgrind(), **options)


@pytest.mark.parametrize(
    ("cell", "iterations"),
    [
        (CELL, 32),
        (SteadyDecode(requests=10, tokens=64), 32),
        (SteadyDecode(requests=16, tokens=64), 20),
        (SteadyDecode(requests=1, tokens=64, tokens_per_block=8), 8),
        (SteadyDecode(requests=8, tokens=8_192), 10),
        (SteadyDecode(requests=64, tokens=2_048), 5),
        (SteadyDecode(requests=256, tokens=1_024), 2),
        (SteadyDecode(requests=8, tokens=131_072), 1),
        (TraceReplay(path="x.csv", max_batch=8), 5),
    ],
)
def test_a_block_of_iterations_is_counted_or_fewer_of_large_batches(
    cell: SteadyDecode | TraceReplay, iterations: int
):
    assert iterations_of(cell) == iterations


def test_what_is_counted_is_what_the_arm_executes_beyond_nothing(fake: FakeValgrind):
    found = count()

    assert found.runs == [(320, 352)] * 3
    assert (found.iterations, found.failure, found.is_identical) == (32, None, True)
    assert (found.per_iteration(0), found.per_iteration(1)) == (10.0, 11.0)
    assert (found.ratio, found.difference) == (1.1, 1.0)
    assert len(fake.runs()) == 5
    assert (found.by_hash(0), found.by_hash(1)) == (None, None)


def test_counts_under_other_hash_seeds_are_kept_apart(fake: FakeValgrind):
    fake.does(BY_HASH)

    found = count()

    assert found.runs == [(320, 352)] * 3
    assert found.is_identical
    assert found.others == [(320, 384), (320, 416)]
    # What Python's own dictionaries do is not the arm's.
    assert (found.by_hash(0), found.by_hash(1)) == (None, (11.0, 13.0))
    assert CellCount(CELL, 1, [(9_999, 5)] * 3, [(10_001, 5)] * 2).by_hash(0) is None


def test_runs_that_differ_are_not_called_identical(fake: FakeValgrind):
    fake.does(DIFFERING)

    found = count()

    assert found.runs == [(320, 352), (352, 352), (384, 352)]
    assert not found.is_identical
    assert found.by_hash(0) is None
    assert (found.per_iteration(0), found.ratio) == (11.0, 1.0)
    assert (found.extent(0), found.extent(1)) == ((10.0, 12.0), (11.0, 11.0))


def test_without_counts_there_are_no_figures():
    found = CellCount(CELL, 32, failure="it died")

    assert not found.is_identical
    assert all(map(math.isnan, (found.per_iteration(0), found.ratio, found.difference)))
    assert math.isnan(CellCount(CELL, 1, [(0, 5)]).ratio)


def test_nothing_but_the_place_of_its_files_differs_from_run_to_run(
    fake: FakeValgrind, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SOMETHING", "of the user's")
    monkeypatch.setenv("VALGRIND_OPTS", "--tool=memcheck")
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")

    count(duet(seed=3))

    *runs, other, another = fake.runs()
    seeds = [run["environment"]["PYTHONHASHSEED"] for run in (other, another)]
    assert seeds == [f"{hash_seed(3, 1)}", f"{hash_seed(3, 2)}"]
    assert [Path(run.pop("folder")).name for run in runs] == ["run-0", "run-1", "run-2"]
    for run in runs:
        (place,) = [word for word in run["argv"] if word.startswith("--callgrind-out-file=")]
        run["argv"].remove(place)
    first = runs[0]
    assert runs == [first] * 3
    assert first["argv"][0] == "--tool=callgrind"
    assert first["argv"][-5:] == [
        sys.executable,
        "-P",
        "-B",
        "-m",
        "harness.compare.instructions_worker",
    ]
    first["environment"].pop("LC_CTYPE", None)  # Python's own doing.
    first["environment"].pop("LD_LIBRARY_PATH", None)
    assert first["environment"] == {
        "PYTHONHASHSEED": f"{hash_seed(3, 0)}",
        "PYTHONPATH": "/somewhere",
        "PYTHONUTF8": "1",
    }
    job = first["job"]
    assert [source["spec"] for source in job["sources"]] == ["incremental", "batched"]
    assert (job["seed"], job["provider"], job["warmups"], job["iterations"]) == (
        *("3-v2-2x64", "python"),
        *(10, 32),
    )
    assert job["scenario"] == CELL.to_dict() | {"layer_groups": job["scenario"]["layer_groups"]}


def test_a_variable_that_an_arm_names_reaches_it(
    fake: FakeValgrind, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    arm = tmp_path / "arm.py"
    arm.write_text(f"import os\nMODE = os.environ.get('KV_MODE')\n{find_source('batched').text}")
    monkeypatch.setenv("KV_MODE", "fast")
    monkeypatch.setenv("KV_OTHER", "fast")

    count(duet(b=f"file:{arm}"))

    for run in fake.runs():
        assert run["environment"]["KV_MODE"] == "fast"
        assert "KV_OTHER" not in run["environment"]


@pytest.mark.parametrize(
    ("does", "failure"),
    [
        ("pass", "the worker returned no counts: not enough values to unpack (expected 2, got 0)"),
        ("print('boo')", "the worker returned no counts: invalid literal for int() with base 10"),
        ("write(70, 1, 2); print(71)", "the worker returned no counts: [Errno 2] No such file"),
        ("write(70, 1, 2); write(71, '', 2)", "the worker returned no counts: no total in 71.1"),
        ("sys.exit('callgrind: broken\\n\\n')", "the worker failed: callgrind: broken"),
        ("sys.exit(9)", "the worker exited with 9"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the worker was killed by SIGSEGV"),
    ],
)
def test_a_worker_without_counts_is_told_of(fake: FakeValgrind, does: str, failure: str):
    fake.does(does)

    found = count()

    assert found.failure is not None
    assert found.failure.startswith(f"{WHAT}: {failure}")
    assert (found.runs, found.is_identical) == ([], False)


def test_a_worker_that_hangs_is_killed(fake: FakeValgrind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(instructions, "_TIMEOUT", 0.5)
    fake.does("time.sleep(60)")

    assert count().failure == f"{WHAT}: the worker hung: no result after 0.5128 s"


@pytest.mark.parametrize("failing", [0, 2])
def test_where_one_run_fails_the_others_are_not_waited_for(fake: FakeValgrind, failing: int):
    fake.does(f"sys.exit(9) if run == {failing} else time.sleep(60)")

    assert count().failure == f"{WHAT}: the worker exited with 9"


def test_an_interrupt_ends_the_runs(fake: FakeValgrind):
    fake.does("time.sleep(60)")

    def interrupt() -> None:
        while len(list(fake.notes.iterdir())) < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        count()
    thread.join()
    assert not Path(fake.runs()[0]["folder"]).parent.exists()


def test_valgrind_is_found_with_its_version(fake: FakeValgrind):
    assert find_valgrind() == Valgrind(str(fake.path), "3.99.1")


def test_without_valgrind_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InputError, match=r"not on the PATH: install it with 'apt install valg"):
        find_valgrind()


def test_a_valgrind_that_does_not_run_is_named(fake: FakeValgrind):
    fake.path.write_text("#!/bin/sh\nexit 3\n")

    with pytest.raises(InputError, match=rf"^{fake.path}: does not run: .* exit status 3"):
        find_valgrind()


@pytest.mark.usefixtures("fake")
def test_on_another_kind_of_machine_it_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "sparc")

    with pytest.raises(InputError, match=r"^--instructions works on x86_64, not on sparc$"):
        find_valgrind()


@pytest.mark.thorough
@needs_valgrind
def test_three_real_runs_are_identical_and_extra_work_counts(tmp_path: Path):
    """The second arm prints as well, by Python and past it, which must not mix with the result."""
    text = (SUBJECTS / "loud.py").read_text()
    call = "        return super().build"
    assert text.count(call) == 1
    arm = tmp_path / "more.py"
    arm.write_text(text.replace(call, f"        sum(range(1_000))\n{call}"))

    loud = count(duet("incremental", f"file:{SUBJECTS / 'loud.py'}"), runs=1)
    found = count(duet("incremental", f"file:{arm}"))

    assert (found.failure, loud.failure) == (None, None)
    assert (len(found.runs), found.is_identical) == (3, True)
    assert found.per_iteration(0) > 1_000
    # At least an instruction for each number; 152 of them on CPython 3.11.
    extra = found.per_iteration(1) - loud.per_iteration(1)
    assert 1_000 < extra < 500_000


@needs_valgrind
@pytest.mark.thorough
def test_two_copies_of_the_same_code_give_the_same_count():
    source = find_source("incremental")
    copy = ArmSource("git:HEAD~1:incremental", "incremental", "0123456789ab:x.py", source.text)

    found = count(Duet(source, copy, (CELL,), provider="python"), runs=1)

    assert found.failure is None
    assert (found.ratio, found.difference) == (1.0, 0.0)


@needs_valgrind
@pytest.mark.thorough
def test_a_real_arm_that_breaks_is_named():
    spec = f"file:{SUBJECTS / 'crash.py'}"

    found = count(duet("incremental", spec), runs=1)

    assert found.failure == (f"{WHAT}: the worker failed: {spec}: RuntimeError: the subject broke")
