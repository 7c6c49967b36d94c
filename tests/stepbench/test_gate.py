"""``stepbench gate`` through its entry point: made-up steps, and a tiny gate that is real."""

import gc
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.arms import sources
from harness.compare import processes as duet_processes
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.verdict import Verdict
from harness.count.budget import load_budget, update, write_budget
from harness.count.work import Work, count_work
from harness.gate import steps as gate_steps
from harness.gate.config import GateConfig, Outcome, Step
from harness.system import git
from harness.system.cores import lock_cpu
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench import gate, messages
from stepbench_core.errors import InputError

from .conftest import Run, assert_refused

QUIET = ("--cpu", "none", "--jobs", "1", "-q")
CONFIG = '[gate]\narms = ["batched"]\ncells = ["v2-2x64"]\nruns = 2\n'
EQUAL = Step("equivalence", Outcome.PASSED, "same outputs in 300 random runs")
WORK = Step("exact work", Outcome.FOUND, "1 figures over budget", "- over budget: a|b")
TIME = Step(
    "time of batched, v2-2x64", Outcome.INCONCLUSIVE, "inconclusive; busy core", cell={"took": 7.5}
)
WHERE = {"where": "On a box.", "command": "stepbench gate"}
GROWTH = Step("growth", Outcome.NOTHING_TO_COMPARE, "no budget")

MARKDOWN = (
    "## Gate against `HEAD~1`: failed\n"
    "\n"
    "| Step | Outcome | What was found |\n"
    "| :--- | :--- | :--- |\n"
    "| equivalence | passed | same outputs in 300 random runs |\n"
    "| exact work | failed | 1 figures over budget |\n"
    "| time of batched, v2-2x64 | inconclusive | inconclusive; busy core |\n"
    "\n"
    "### exact work\n"
    "\n"
    "- over budget: a|b\n"
    "\n"
    "On a box. Repeat with `stepbench gate`.\n"
)


class Gate:
    """Stands in for the steps."""

    def __init__(self) -> None:
        self.steps: list[Step | BaseException] = [EQUAL, WORK, TIME]
        self.config: GateConfig | None = None
        self.options: dict[str, Any] = {}

    def __call__(self, config: GateConfig, **options: Any) -> Iterator[Step]:  # noqa: ANN401
        self.config, self.options = config, options
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            yield step


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch):
    """A small configuration, whatever the place that the tests run in sets."""
    Path("stepbench.toml").write_text(CONFIG)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made_up = Gate()
    monkeypatch.setattr(gate, "run_gate", made_up)
    monkeypatch.setattr(gate, "described_run", lambda *_: WHERE)
    return made_up


@pytest.mark.parametrize(
    ("found", "code", "word"),
    [
        ([EQUAL], 0, "passed"),
        ([EQUAL, TIME], 3, "inconclusive"),
        ([EQUAL, GROWTH, TIME], 4, "nothing to compare with"),
        ([WORK, GROWTH, TIME], 1, "failed"),
    ],
)
def test_the_exit_code_is_the_outcome(
    run_here: Run, steps: Gate, found: list[Step | BaseException], code: int, word: str
):
    steps.steps = found
    ran = run_here("gate", *QUIET)
    assert (ran.code, ran.err) == (code, "")
    assert ran.out.splitlines()[0] == f"## Gate against `HEAD~1`: {word}"
    document = json.loads(run_here("gate", *QUIET, "--json").out)
    assert (document["exit_code"], document["outcome"]) == (code, word)


@pytest.mark.usefixtures("steps")
def test_the_summary_is_markdown(run_here: Run):
    ran = run_here("gate", *QUIET)
    assert ran.out == MARKDOWN


@pytest.mark.usefixtures("steps")
def test_json_is_one_document_and_nothing_else(run_here: Run):
    ran = run_here("gate", *QUIET, "--json", "--base", "v1.0")

    assert (ran.code, ran.err) == (1, "")
    assert json.loads(ran.out) == {
        "stepbench_gate_format": 1,
        "base": "v1.0",
        "outcome": "failed",
        "exit_code": 1,
        "metadata": WHERE,
        "steps": [
            {
                "step": "equivalence",
                "outcome": "passed",
                "summary": "same outputs in 300 random runs",
                "details": "",
                "cell": None,
            },
            {
                "step": "exact work",
                "outcome": "failed",
                "summary": "1 figures over budget",
                "details": "- over budget: a|b",
                "cell": None,
            },
            {
                "step": "time of batched, v2-2x64",
                "outcome": "inconclusive",
                "summary": "inconclusive; busy core",
                "details": "",
                "cell": {"took": 7.5},
            },
        ],
    }


@pytest.mark.usefixtures("steps")
def test_the_json_goes_to_a_file_as_well(run_here: Run):
    Path("gate.json").write_text("a longer text than what comes" * 100)
    text = run_here("gate", *QUIET, "-o", "gate.json")
    assert text.out == MARKDOWN
    assert Path("gate.json").read_text() == run_here("gate", *QUIET, "--json").out


@pytest.mark.usefixtures("steps")
def test_github_gets_the_summary_after_what_is_there(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    Path("summary.md").write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")

    assert run_here("gate", *QUIET, "--json").code == 1
    assert Path("summary.md").read_text() == f"# Before\n{MARKDOWN}"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "")
    assert run_here("gate", *QUIET).code == 1


@pytest.mark.usefixtures("steps")
def test_what_was_found_counts_for_more_than_where_it_should_be_noted(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "gone/x")
    ran = run_here("gate", *QUIET)
    assert ran.code == 1
    assert ran.out == MARKDOWN
    assert ran.err == "stepbench: gone/x: cannot be written: No such file or directory\n"


def test_an_output_that_cannot_be_written_is_found_before_anything_runs(run_here: Run, steps: Gate):
    Path("folder").mkdir()
    ran = run_here("gate", *QUIET, "--output", "folder")
    assert (ran.code, ran.err) == (2, "stepbench: error: folder: a folder, not a file\n")
    assert steps.config is None


def test_options_are_handed_on(run_here: Run, steps: Gate):
    Path("other.toml").write_text(CONFIG.replace("runs = 2", 'runs = 3\nbase = "v1"'))
    core = min(os.sched_getaffinity(0))

    run_here("gate", "--config", "other.toml", "--cpu", f"{core}", "--jobs", "3", "-q")
    assert steps.config is not None
    assert (steps.config.runs, steps.config.base, steps.config.arms) == (3, "v1", ("batched",))
    assert (steps.options["cpus"], steps.options["jobs"]) == ((core,), 3)

    run_here("gate", "--config", "other.toml", "--base", "origin/main", *QUIET)
    assert steps.config.base == "origin/main"
    assert steps.options["cpus"] == ()


def test_progress_goes_to_stderr_unless_quiet(run_here: Run, steps: Gate):
    steps.steps = [EQUAL]
    ran = run_here("gate", *QUIET[:-1])
    assert ran.err == "stepbench: equivalence: same outputs in 300 random runs\n"
    assert ran.out.startswith("## Gate against `HEAD~1`: passed\n")


@pytest.mark.parametrize("output", [(), ("--output", "gate.json")])
def test_an_interrupt_ends_in_130_and_no_pass(run_here: Run, steps: Gate, output: tuple[str, ...]):
    steps.steps = [EQUAL, KeyboardInterrupt()]
    ran = run_here("gate", *QUIET, *output)
    assert ran.code == 130
    assert ran.err.startswith("stepbench: interrupted after 1 steps")
    assert "Gate against `HEAD~1`: passed" not in ran.out
    if output:
        assert json.loads(Path("gate.json").read_text())["exit_code"] == 130


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gate", "stepbench.toml: not a TOML file: "),
        ("[gat]", "stepbench.toml: no table [gate]"),
        (f"{CONFIG}speed = 1", "stepbench.toml: unknown setting 'speed'"),
        (f"{CONFIG}threshold = '1%'", "stepbench.toml: expected float, got str at threshold"),
        (f"{CONFIG}seconds = 0", "stepbench.toml: "),
        ("[gate]\ncells = ['v2-2x64']", "stepbench.toml: object missing required field arms"),
        (CONFIG.replace("batched", "batchd"), "did you mean 'batched'?"),
        (f"{CONFIG}scenario = 'smal'", "did you mean 'small'?"),
        (f"{CONFIG}growth = {{ page-range = 0.1 }}", "'page-range' matches nothing"),
        (f"{CONFIG}thresholds = {{ 'v3-*' = 0.1 }}", "'v3-*' matches nothing"),
    ],
)
def test_a_bad_configuration_is_refused(run_here: Run, text: str, message: str):
    Path("stepbench.toml").write_text(text.replace("v2-2x64", "v2-64x2048"))
    assert_refused(run_here("gate", *QUIET), message)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--config", "none.toml"), "none.toml: No such file or directory"),
        (("--cpu", "x"), "--cpu takes core numbers"),
        (("--jobs", "0"), "--jobs takes"),
        (("--format", "csv"), "--format"),
        (("batched",), "batched"),
    ],
)
def test_bad_input_is_refused(run_here: Run, steps: Gate, arguments: tuple[str, ...], text: str):
    assert_refused(run_here("gate", *arguments), text)
    assert steps.config is None


@pytest.mark.usefixtures("steps")
def test_a_core_that_is_measured_on_is_refused(run_here: Run):
    core = min(os.sched_getaffinity(0))
    with lock_cpu(core):
        assert_refused(run_here("gate", "--cpu", f"{core}"), "is being measured on by another run")


def test_cells_that_do_not_fit_on_all_cores_at_once_are_refused(
    run_here: Run, steps: Gate, monkeypatch: pytest.MonkeyPatch
):
    Path("stepbench.toml").write_text(CONFIG.replace("v2-2x64", "v2-64x2048"))
    # What counting their work needs is looked at by itself.
    monkeypatch.setattr(duet_processes, "available_memory", lambda: 1_000_000)

    assert_refused(run_here("gate", "-q"), "would not fit the memory")
    assert steps.config is None


# A gate that really plays and counts, in one tiny cell; only the timing is made up.

CELL = SteadyDecode(requests=2, tokens=64)


class Timing:
    """What the project was at the base, and what the duets say."""

    def __init__(self) -> None:
        self.base: dict[str, str | None] = {}
        self.kind = Kind.NO_DIFFERENCE
        self.timed: list[str] = []

    def find_commit(self, revision: str, _folder: Path) -> str | None:
        return None if revision.startswith("gone") else "0" * 40

    def read_at(self, _commit: str, path: str, _folder: Path) -> str | None:
        path = path.removeprefix("./")
        return self.base[path] if path in self.base else (sources.ROOT / path).read_text()

    def read_bytes_at(self, commit: str, path: str, folder: Path) -> bytes | None:
        text = self.read_at(commit, path, folder)
        return None if text is None else text.encode()

    def compare(self, duet: Duet, scenario: SteadyDecode | TraceReplay, *_: object) -> CellResult:
        self.timed.append(f"{duet.b.name} in {scenario.name}")
        return CellResult(scenario, Verdict(self.kind))


@pytest.fixture(scope="module", autouse=True)
def quick_collections():
    """Counting collects garbage often; what other tests have left behind need not be looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def counted() -> list[Work]:
    return count_work(CELL, ("batched", "floor"))


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch, counted: list[Work]) -> Timing:
    """The tiny cell is all there is, and its budget what is counted."""
    timing = Timing()
    # In this process, where the arms can be changed.
    monkeypatch.setattr(gate, "_LIMIT", None)
    monkeypatch.setattr(gate_steps, "find_scenarios", lambda _name: (CELL,))
    monkeypatch.setattr(git, "find_commit", timing.find_commit)
    monkeypatch.setattr(git, "merge_base", lambda _one, other, _folder: other)
    monkeypatch.setattr(git, "git", lambda *_arguments, **_folder: "")
    monkeypatch.setattr(git, "read_at", timing.read_at)
    monkeypatch.setattr(git, "read_bytes_at", timing.read_bytes_at)
    monkeypatch.setattr(gate_steps, "compare_cell", timing.compare)
    write_budget(Path("budgets.toml"), update(None, counted, 0, whole=True))
    return timing


@pytest.fixture
def changed(timing: Timing) -> None:
    """The source of the arm is not that of the base."""
    timing.base["connector/batched.py"] = (
        sources.ROOT / "connector/batched.py"
    ).read_text() + "\n_before = True\n"


def edit_budget(change: Callable[[float], float]) -> None:
    budget = load_budget(Path("budgets.toml"))
    tokens = budget.cells["v2-2x64"]["batched"]["tokens"]
    assert isinstance(tokens, int | float)
    budget.cells["v2-2x64"]["batched"]["tokens"] = change(tokens)
    write_budget(Path("budgets.toml"), budget)


def test_what_has_not_changed_passes(run_here: Run, timing: Timing):
    ran = run_here("gate", *QUIET)

    assert (ran.code, ran.err) == (0, "")
    rows = [line for line in ran.out.splitlines() if line.startswith("|")]
    assert "| equivalence | passed | same outputs in 2 random runs |" in rows
    assert ran.out.count("| passed |") == len(rows) - 2
    assert timing.timed == []


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize(
    ("kind", "code"),
    [(Kind.NO_DIFFERENCE, 0), (Kind.FASTER, 0), (Kind.SLOWER, 1), (Kind.INCONCLUSIVE, 3)],
)
def test_what_has_changed_is_timed(run_here: Run, timing: Timing, kind: Kind, code: int):
    words = {Kind.NO_DIFFERENCE: "no difference beyond 0.50%"}
    timing.kind = kind
    ran = run_here("gate", *QUIET)
    assert (ran.code, ran.err) == (code, "")
    assert timing.timed == ["batched in v2-2x64"]
    assert f" | {words.get(kind, kind)} |" in ran.out


@pytest.mark.usefixtures("changed", "timing")
def test_json_says_what_a_verdict_rests_on_and_where(run_here: Run):
    document = json.loads(run_here("gate", *QUIET, "--json").out)

    assert [step["cell"] for step in document["steps"][:-1]] == [None] * 3
    cell = document["steps"][-1]["cell"]
    assert (cell["verdict"]["kind"], cell["first_run"]) == ("no difference", [])
    assert cell["threshold"] == 0.005
    assert cell["samples"] is None
    where = document["metadata"]["where"]
    base = "base HEAD~1: commit 000000000000"
    assert f"not pinned; stand-ins: provider python; {base}." in where
    assert document["metadata"]["command"].startswith("stepbench ")


@pytest.mark.usefixtures("timing")
def test_more_work_than_the_budget_is_a_regression(run_here: Run):
    edit_budget(lambda tokens: tokens - 1)
    ran = run_here("gate", *QUIET)
    assert ran.code == 1
    assert "| exact work | failed | " in ran.out
    assert "over budget: v2-2x64, batched: tokens 2 per iteration, budget 1" in ran.out


@pytest.mark.usefixtures("timing")
def test_a_missing_budget_or_base_is_nothing_to_compare_with(run_here: Run):
    gone = run_here("gate", *QUIET, "--base", "gone")
    Path("budgets.toml").unlink()
    ran = run_here("gate", *QUIET)

    assert (gone.code, ran.code) == (4, 4)
    assert "budgets.toml: no such budget file" in ran.out
    assert "'gone'" in gone.out


@pytest.mark.usefixtures("changed")
def test_a_wrong_arm_is_a_regression_that_is_not_timed(
    run_here: Run, timing: Timing, monkeypatch: pytest.MonkeyPatch
):
    Path("stepbench.toml").write_text(CONFIG.replace("batched", "incremental"))
    monkeypatch.setattr("connector.incremental.get_draft_token_length", lambda _req: 0)

    ran = run_here("gate", *QUIET)

    assert (ran.code, ran.err) == (1, "")
    assert "| equivalence | failed | incremental departs from full-copy |" in ran.out
    # The shortest list of operations, and how to see it again.
    assert "### equivalence\n\n```\nDifferent: `incremental` departs from `full-copy`" in ran.out
    assert "Repeat with `stepbench verify incremental " in ran.out
    assert timing.timed == []


@pytest.mark.usefixtures("changed")
def test_a_core_that_is_taken_meanwhile_is_not_ours(
    run_here: Run, timing: Timing, monkeypatch: pytest.MonkeyPatch
):
    core = min(os.sched_getaffinity(0))

    def compare(*arguments: Any) -> CellResult:  # noqa: ANN401
        with pytest.raises(InputError, match="is being measured on"), lock_cpu(core):
            pass
        return timing.compare(*arguments)

    monkeypatch.setattr(gate_steps, "compare_cell", compare)
    assert run_here("gate", "--cpu", f"{core}", "--jobs", "1", "-q").code == 0
    assert timing.timed == ["batched in v2-2x64"]


@pytest.mark.usefixtures("steps")
def test_that_nobody_reads_the_table_does_not_make_it_a_pass(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    def gone(*_arguments: object, **_named: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(gate.click, "echo", gone)
    monkeypatch.setattr(messages, "abandon_stdout", lambda: None)

    assert run_here("gate", *QUIET).code == 1


@pytest.mark.usefixtures("steps")
def test_a_file_that_cannot_be_written_in_the_end_does_not_cost_the_table(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    def full(path: Path, _write: object) -> None:
        raise InputError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(gate, "write_atomically", full)

    ran = run_here("gate", *QUIET, "-o", "gate.json")

    assert (ran.code, ran.out) == (1, MARKDOWN)
    assert ran.err == "stepbench: gate.json: cannot be written: No space left on device\n"
