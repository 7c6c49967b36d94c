"""``stepbench compare`` through its entry point: drawn samples, and a few real workers."""

import itertools
import json
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness import duet as duet_module
from harness.child import WorkerError
from stepbench import options

from .conftest import Ran, Run, assert_refused, run_script

SUBJECTS = Path(__file__).parent.parent / "harness/subjects"
ONE = ("incremental", "incremental", "--cells", "2x64", "-o", "x.json", "-q", "--no-verify")
TWO = ("incremental", "batched", "--cells", "2x64,1x8", "-o", "x.json", "-q", "--no-verify")


def subject(name: str) -> str:
    return f"file:{SUBJECTS / name}.py"


class Workers:
    """Stands in for real workers. Each cell has its own effect and share of the core."""

    def __init__(self) -> None:
        self.effects: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.errors: dict[str, BaseException] = {}
        self.jobs: list[dict[str, Any]] = []

    def __call__(self, what: str, _command: object, _seed: int, text: str, _timeout: float) -> str:
        cell = what.split()[1].rstrip(",")
        if cell in self.errors:
            raise self.errors[cell]
        self.jobs.append(json.loads(text))
        second = 2e-3 * math.exp(self.effects.get(cell, 0.0))
        samples = [[2e-3] * 2, [second] * 2, [2e-3] * 2]
        return json.dumps({"seconds": samples, "cpu_share": self.shares.get(cell, 1.0)})

    def cells(self) -> list[str]:
        """The cells in the order in which they were run, each with its number of processes."""
        sizes = [f"{job['scenario']['requests']}x{job['scenario']['tokens']}" for job in self.jobs]
        return [f"{size} {len(list(run))}" for size, run in itertools.groupby(sizes)]


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(duet_module, "run_child", workers)
    return workers


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def run_child(*_: object) -> str:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(duet_module, "run_child", run_child)
    yield
    assert not [path for path in Path().rglob("*.json") if path.name != "there.json"]


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def strictly(text: str) -> dict[str, Any]:
    return json.loads(text, parse_constant=no_constant)


def cells_in(path: str) -> list[str]:
    """The verdicts in the file of samples."""
    return [cell["verdict"]["kind"] for cell in json.loads(Path(path).read_text())["cells"]]


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

    ran = run_here("compare", *TWO, "--cpu", "none", "--seed", "5")

    table = [line for line in ran.out.splitlines() if line.startswith("|")]
    assert table[2:] == [
        "| 2 | 64 | 2.00 ms | 2.00 ms | 1.0000 (1.0000 to 1.0000) | 0.00% | 0.50% | 6 "
        "| no difference |",
        "| 1 | 8 | 2.00 ms | 3.00 ms | 1.5000 (1.5000 to 1.5000) | 0.00% | 0.50% | 6 + 6 "
        "| slower |",
    ]
    assert "not pinned; outputs not verified. Seed 5. Repeat with `stepbench compare " in ran.out
    assert {job["cpu"] for job in workers.jobs} == {None}
    assert {job["seed"].partition("-")[0] for job in workers.jobs} == {"5"}


def test_json_is_one_document_and_nothing_else(run_here: Run, workers: Workers):
    workers.errors["v2-1x8"] = WorkerError("cell v2-1x8, process 1: the worker exited with 3")

    ran = run_here("compare", *TWO, "--json")

    document = strictly(ran.out)
    assert (document["a"], document["b"], document["verdict"]) == (
        *("incremental", "batched"),
        "inconclusive",
    )
    assert [(cell["cell"], cell["kind"], cell["floor"]) for cell in document["cells"]] == [
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
    assert "| 2 | 64 | not measured | not measured | - | - | - | 0 | inconclusive |" in ran.out


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


@pytest.mark.usefixtures("workers")
def test_a_file_that_exists_is_overwritten_only_if_asked(run_here: Run):
    Path("x.json").write_text("precious")

    assert_refused(run_here("compare", *ONE), "x.json: exists; --force overwrites it")
    assert Path("x.json").read_text() == "precious"
    assert run_here("compare", *ONE, "--force").code == 0
    assert cells_in("x.json") == ["no difference"]


@pytest.mark.usefixtures("workers")
def test_without_a_name_the_file_is_a_dated_one(run_here: Run):
    arguments = [word for word in ONE if word not in {"-o", "x.json"}]

    assert [run_here("compare", *arguments).code for _ in range(2)] == [0, 0]

    names = sorted(str(path) for path in Path("results").iterdir())
    assert len(names) == 2
    assert all(name.startswith("results/compare-2") for name in names)


def test_an_unused_file_is_another_one_each_time(monkeypatch: pytest.MonkeyPatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # noqa: ARG003
            return datetime(2026, 3, 4, 5, 6, 7)

    monkeypatch.setattr(options, "datetime", Clock)
    Path("results").mkdir()
    names = []
    for _ in range(3):
        file = options.unused_file("compare")
        file.touch()
        names.append(str(file))
    assert names == [f"results/compare-20260304-050607{end}.json" for end in ("", "-2", "-3")]
    assert str(options.unused_file("gate")) == "results/gate-20260304-050607.json"


@pytest.mark.usefixtures("nothing_is_measured")
def test_arms_that_differ_are_not_timed(run_here: Run):
    arguments = ("compare", "incremental", subject("differs"), "--cells", "2x64")

    ran = run_here(*arguments)

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{subject('differs')}` departs from `incremental` in ")
    assert ".num_scheduled_tokens:" in ran.out
    assert ran.err == "stepbench: the arms differ, so they are not timed; --no-verify insists\n"
    document = strictly(run_here(*arguments, "--json").out)
    assert (document["same"], document["against"]) == (False, "incremental")


@pytest.mark.usefixtures("nothing_is_measured")
def test_what_it_says_to_repeat_can_be_repeated(run_here: Run):
    ran = run_here("compare", "incremental", subject("differs"), "--cells", "2x64")

    words = ran.out.rpartition("Repeat with `stepbench ")[2].partition("`")[0].split()
    again = run_here(*words)
    assert again.code == 1
    assert ".num_scheduled_tokens" in again.out


def test_arms_that_differ_are_timed_on_request(run_here: Run, workers: Workers):
    arguments = ("compare", "incremental", subject("differs"), "--cells", "2x64", "-q")

    ran = run_here(*arguments, "--no-verify")

    assert (ran.code, workers.cells()) == (0, ["2x64 6"])
    assert "outputs not verified." in ran.out


def test_arms_that_agree_are_said_to(run_here: Run, workers: Workers):
    ran = run_here("compare", "page-range", subject("equal"), "--cells", "2x64", "-q")

    assert (ran.code, workers.cells()) == (0, ["2x64 6"])
    assert "; outputs verified in a few random runs first. " in ran.out


REFUSED = [
    (["incremental"], ["Missing argument 'B'"]),
    (["incremental", "incrementl"], ["unknown arm 'incrementl': did you mean 'incremental'?"]),
    (["floor", "incremental"], ["unknown arm 'floor'"]),
    (["incremental", "git:nowhere:incremental"], ["no git revision 'nowhere' here"]),
    (["incremental", "git:--help:incremental"], ["is not git:REVISION:NAME"]),
    (["incremental", "file:none.py"], ["none.py: No such file or directory"]),
    (["incremental", subject("no_arm")], ["no_arm.py: has no class KvCacheConnectorSched"]),
    (["incremental", "file:syntax.py"], ["syntax.py: cannot be imported: SyntaxError: "]),
    (["incremental", "file:exits.py"], ["exits.py: cannot be imported: SystemExit"]),
    (["incremental", "file:empty.py"], ["empty.py: "]),
    (["incremental", "batched", "--cells", "2x64,2x64"], ["v2-2x64", "twice"]),
    (["incremental", "batched", "--cells", "2"], ["REQUESTSxTOKENS"]),
    (["incremental", "batched", "--cells", "100000x1000000"], ["would not fit the memory"]),
    (["incremental", "batched", "--cpu", "999"], ["core 999 is not allowed here"]),
    (["incremental", "batched", "--seconds", "0"], ["--seconds"]),
    (["incremental", "batched", "--seed", "-1"], ["--seed"]),
    (["incremental", "batched", "--json", "--format", "markdown"], ["contradicts"]),
    (["incremental", "batched", "--format", "csv"], ["'csv'"]),
    (["incremental", "batched", "-o", "there.json"], ["there.json: exists; --force overwrites"]),
    *[
        (["incremental", "batched", f"--threshold={text}"], ["--threshold takes a share", text])
        for text in ("0", "0%", "-1%", "100%", "1", "nan", "inf", "x", "%", "0.5%%", "1,5%")
    ],
]


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize(("arguments", "texts"), REFUSED)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], texts: list[str]):
    Path("there.json").touch()
    Path("syntax.py").write_text("def (\n")
    Path("exits.py").write_text("raise SystemExit(0)\n")
    Path("empty.py").write_text("class KvCacheConnectorSchedulerOutputManager: pass\n")
    cells = [] if "--cells" in arguments else ["--cells", "2x64"]

    assert_refused(run_here("compare", *arguments, *cells), *texts)


@pytest.mark.usefixtures("nothing_is_measured")
def test_an_arm_that_a_revision_did_not_have_is_nothing_to_compare_with(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    # A revision without our files, whatever this checkout has.
    monkeypatch.setattr(
        "harness.loading.git", lambda *words, **_: "0123" * 10 if "rev-parse" in words else None
    )

    ran = run_here("compare", "git:v0:batched", "batched", "--cells", "2x64")

    assert_refused(ran, "arm 'batched' does not exist at revision v0", code=4)


@pytest.mark.parametrize(
    ("given", "fraction"), [("2%", 0.02), (" 2 % ", 0.02), ("0.02", 0.02), ("0.5%", 0.005)]
)
def test_a_threshold_is_a_share(run_here: Run, workers: Workers, given: str, fraction: float):
    workers.effects["v2-2x64"] = math.log1p(fraction * 0.9)

    assert run_here("compare", *ONE, "--threshold", given, "--json").code == 0
    assert json.loads(Path("x.json").read_text())["threshold"] == pytest.approx(fraction)
    workers.effects["v2-2x64"] = math.log1p(fraction * 1.1)
    assert run_here("compare", *ONE, "--threshold", given, "--force").code == 1


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("name", ["crash", "no_interface", "leaves"])
@pytest.mark.parametrize("turned", [False, True])
def test_an_arm_that_breaks_while_it_is_verified_is_no_pass(run_here: Run, name: str, turned: bool):
    arms = ("incremental", subject(name))

    ran = run_here("compare", *(arms[::-1] if turned else arms), "--cells", "2x64", "-q")

    # A finding or bad input, and told by its name; never a traceback, never a pass.
    assert ran.code in {1, 2}
    assert name in ran.out + ran.err


@pytest.mark.parametrize(
    ("name", "why"),
    [("crash", "failed: RuntimeError: the subject broke"), ("leaves", "returned no result")],
)
def test_an_arm_that_breaks_while_it_is_measured_is_a_finding(run_here: Run, name: str, why: str):
    ran = run_here("compare", "incremental", subject(name), "--cells", "1x8", "--no-verify", "-q")

    assert ran.code == 1
    assert ran.err.startswith(f"stepbench: cell v2-1x8, process 1: the worker {why}")


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
    assert [[len(arm) for arm in process] for process in stored["samples"]] == [[150] * 3] * 6


def test_with_real_workers_a_much_slower_arm_is_no_pass():
    ran = run_script(
        *("compare", "incremental", subject("slower"), "--cells", "1x8", "--seconds", "0.1"),
        *("--no-verify", "-q", "--json"),
    )

    assert strictly(ran.out)["verdict"] == {1: "slower", 3: "inconclusive"}[ran.code]
