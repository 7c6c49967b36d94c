"""``stepbench compare --instructions`` through its entry point, with no valgrind behind it."""

from pathlib import Path

import pytest

from harness.compare.instructions import CellCount
from scenarios.scenario import SteadyDecode
from stepbench import compare as module

from ..harness.fake_valgrind import FakeValgrind
from .compare_workers import strictly, subject
from .conftest import Run, assert_refused

ONE = ("incremental", "batched", "--cells", "2x64", "--instructions", "-q")
TWO = ("incremental", "batched", "--cells", "2x64,1x8", "--instructions", "-q", "--no-verify")
ROW = "| 2 | 64 | 10.0 | 11.0 | 1.10000 | +1.0 | 32 | identical |"


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    return FakeValgrind(tmp_path_factory.mktemp("valgrind") / "bin", monkeypatch)


def test_it_counts_verifies_and_gives_no_verdict(run_here: Run, fake: FakeValgrind):
    ran = run_here("compare", *ONE, "--seed", "5", "--provider", "python")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Machine instructions per iteration: identical over 3 runs in 1 cell")
    assert ROW in ran.out.splitlines()
    assert "provider python; outputs verified in a few random runs first. Seed 5." in ran.out
    assert [run["job"]["seed"] for run in fake.runs()] == ["5-v2-2x64"] * 5
    assert list(Path().rglob("*.json")) == []


@pytest.mark.usefixtures("fake")
def test_json_is_one_document(run_here: Run):
    ran = run_here("compare", *TWO, "--json")

    document = strictly(ran.out)
    assert (ran.code, document["measure"], document["verdict"]) == (0, "instructions", None)
    assert [(cell["cell"], cell["difference"]) for cell in document["cells"]] == [
        ("v2-2x64", 1.0),
        ("v2-1x8", 1.0),
    ]


def test_arms_that_differ_are_not_counted(run_here: Run, fake: FakeValgrind):
    ran = run_here("compare", "incremental", subject("differs"), *ONE[2:])

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{subject('differs')}` departs from `incremental` in ")
    assert fake.runs() == []


def test_a_worker_that_fails_is_named_and_the_exit_code_is_1(run_here: Run, fake: FakeValgrind):
    fake.does(
        "write(70, 128, 448); write(71, 128, 480)\n"
        "if job['scenario']['tokens'] == 64: sys.exit('batched: RuntimeError: no')"
    )

    ran = run_here("compare", *TWO)

    assert ran.code == 1
    assert ran.err == (
        "stepbench: cell v2-2x64, counting instructions: the worker failed: "
        "batched: RuntimeError: no\n"
    )
    assert "| 2 | 64 | not counted | not counted | - | - | - | - |" in ran.out
    assert "| 1 | 8 | 10.0 | 11.0 | 1.10000 | +1.0 | 32 | identical |" in ran.out


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("finished", [0, 1])
def test_an_interrupt_prints_what_is_finished(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, finished: int
):
    cells = iter([CellCount(SteadyDecode(requests=2, tokens=64), 32, [(320, 352)] * 3)][:finished])

    def count_cell(*_: object) -> CellCount:
        try:
            return next(cells)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(module, "count_cell", count_cell)

    ran = run_here("compare", *TWO)

    assert ran.code == 130
    assert ran.err == f"stepbench: interrupted; {finished} of 2 cells are finished\n"
    assert (ROW in ran.out, ran.out == "") == (finished == 1, finished == 0)
    assert ran.out.startswith("Incomplete: 1 cell of 2 missing." if finished else "")


def test_without_valgrind_it_is_refused_with_how_to_get_it(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))

    ran = run_here("compare", *ONE)

    assert_refused(ran, "needs valgrind", "apt install valgrind", "dnf install valgrind")


@pytest.mark.parametrize(
    "option",
    [
        *[("--threshold", "1%"), ("--seconds", "5"), ("--cpu", "0")],
        *[("--gc", "on"), ("--output", "x.json"), ("--force",), ("--apart",)],
    ],
)
def test_options_of_timing_do_not_go_with_it(
    run_here: Run, fake: FakeValgrind, option: tuple[str, ...]
):
    ran = run_here("compare", *ONE, *option)

    assert_refused(ran, f"--instructions times nothing: {option[0]} does not go with it")
    assert fake.runs() == []


def test_the_help_speaks_of_it(run_here: Run):
    ran = run_here("compare", "--help")

    assert "stepbench compare git:HEAD~1:batched batched --cells 64x2048 --instructions" in ran.out
    assert ran.code == 0
