"""The gate of a project with functions of its own, and what sets it up."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.verdict import Verdict
from harness.gate import own
from harness.stats.estimates import Estimate
from stepbench import init
from subjects.base import Cell
from tests.own_project import BATCHING, commit, make, write

from .conftest import Run
from .test_own_function import TWICE, WRONG

GATE = '[project]\nname = "joiner"\n\n[tool.stepbench.gate]\nsubjects = ["bench_join.py"]\n'
BODY = BATCHING[BATCHING.index("        from .weights") :].rstrip()


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    """The working folder is the project, with a gate."""
    make(tmp_path, **{"pyproject.toml": GATE + 'base = "one"\n'})
    return tmp_path


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[Duet]:
    """What is timed; nothing is: a cell is slower in whose name there is a 16."""
    duets: list[Duet] = []

    def compare(duet: Duet, cell: Cell, *_: object) -> CellResult:
        duets.append(duet)
        kind = Kind.SLOWER if "16" in cell.name else Kind.NO_DIFFERENCE
        return CellResult(cell, Verdict(kind, "", Estimate(1.01, 1.0, 1.02)))

    monkeypatch.setattr(own, "compare_cell", compare)
    return duets


def change(text: str, name: str = "src/joiner/batching.py") -> None:
    write(Path(), {name: text})


def configure(lines: str) -> None:
    change(f'{GATE}base = "one"\n{lines}\n', "pyproject.toml")


def gate(run_here: Run, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Run the gate; return its exit code, and outcome and summary of each step."""
    ran = run_here("gate", "-q", "--json", *options)
    steps = json.loads(ran.out)["steps"]
    return ran.code, {step["step"]: (step["outcome"], step["summary"]) for step in steps}


def test_what_has_not_changed_is_not_run(run_here: Run, timed: list[Duet]):
    code, steps = gate(run_here)

    assert code == 0
    assert list(steps) == ["base", "join"]
    assert steps["join"] == ("passed", "its packages are those of the base: not run")
    assert not timed


def test_all_steps_of_what_has_changed(run_here: Run, timed: list[Duet]):
    configure(
        'threshold = 0.01\nthresholds = { "join/4*" = 0.03 }\nseconds = 2\nwork = 0.5\n'
        'growth = { "join/requests" = 1.2, "*/tokens" = 0.1 }'
    )
    change(TWICE)

    code, steps = gate(run_here)

    assert code == 1
    assert {name: outcome for name, (outcome, _) in steps.items()} == {
        "base": "passed",
        "join: outputs": "passed",
        "join: exact work": "passed",
        "join: growth with requests": "passed",
        "join: growth with tokens": "nothing to compare with",
        "join: time, 4x8": "passed",
        "join: time, 16x8": "failed",
    }
    assert steps["join: outputs"][1] == "the same in 400 steps"
    assert steps["join: exact work"][1].startswith("+")
    assert steps["join: growth with tokens"][1] == "no two of its cells differ in tokens alone"
    assert [duet.threshold for duet in timed] == [0.03, 0.01]
    assert [(duet.seconds, duet.comparisons, duet.is_apart) for duet in timed] == [
        (2, 2, False)
    ] * 2


def test_more_exact_work_than_is_allowed_is_a_finding(run_here: Run, timed: list[Duet]):
    change(TWICE)

    code, steps = gate(run_here)

    assert code == 1
    outcome, words = steps["join: exact work"]
    assert outcome == "failed"
    assert words.endswith("a step, where it grew most; 1.0% is allowed")
    assert len(timed) == 2  # What it costs is told all the same.


@pytest.mark.usefixtures("timed")
def test_less_work_is_told(run_here: Run):
    change(TWICE)
    commit(Path(), tag="two")
    change(BATCHING)

    _, steps = gate(run_here, "--base", "two")

    outcome, words = steps["join: exact work"]
    assert outcome == "passed"
    assert words.startswith("no more anywhere; -")


@pytest.mark.usefixtures("timed")
def test_a_slope_beyond_its_limit_is_a_finding(run_here: Run):
    configure('growth = { "join/requests" = 0.2 }')
    change(BATCHING + "\n")

    code, steps = gate(run_here)

    assert code == 1
    assert steps["join: growth with requests"][0] == "failed"


def test_other_outputs_are_a_finding_and_nothing_is_timed(run_here: Run, timed: list[Duet]):
    change(WRONG)

    code, steps = gate(run_here)

    assert code == 1
    assert steps["join: outputs"] == (
        "failed",
        "not those of the base in cell 4x8, step 5: output.ids[3] is nothing instead of tuple of 2",
    )
    assert not timed


@pytest.mark.parametrize(
    ("file", "text", "step", "outcome", "words"),
    [
        (
            "src/joiner/weights.py",
            "def weight(length):\n    return 1 // 0\n",
            "join: outputs",
            "failed",
            "ZeroDivisionError",
        ),
        ("src/joiner/__init__.py", "import nix\n", "join: outputs", "failed", "No module named"),
        ("bench_join.py", "import nix\n", "bench_join.py", "failed", "No module named 'nix'"),
        ("bench_join.py", "\n", "bench_join.py", "cannot be run here", "declares no function"),
    ],
)
def test_what_breaks(
    run_here: Run, timed: list[Duet], file: str, text: str, step: str, outcome: str, words: str
):
    change(BATCHING + "\n")
    change(text, file)

    code, steps = gate(run_here)

    assert code == (2 if outcome == "cannot be run here" else 1)
    assert steps[step][0] == outcome
    assert words in steps[step][1]
    assert not timed


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("nix = 1", "unknown setting 'nix': known: subjects, cells"),
        ("subjects = []", "duplicate|overwrite"),
        ("threshold = 2", "threshold"),
        ('cells = ["64*"]', "cells: '64*' matches none of what is checked"),
        ('thresholds = { "leave/*" = 0.1 }', "thresholds: 'leave/*' matches none of join/4x8"),
        ('growth = { "join/pages" = 0.1 }', "growth: 'join/pages' matches none of join/requests"),
    ],
)
def test_a_configuration_that_is_wrong(run_here: Run, lines: str, words: str):
    configure(lines)
    change(BATCHING + "\n")

    ran = run_here("gate", "-q")

    assert (ran.code, ran.out) == (2, "")
    assert any(word in ran.err for word in words.split("|")), ran.err


def test_a_base_that_does_not_run_is_nothing_to_compare_with(run_here: Run, timed: list[Duet]):
    change("import nix\n", "src/joiner/__init__.py")
    commit(Path(), tag="two")
    change("from .batching import Joiner\n", "src/joiner/__init__.py")

    code, steps = gate(run_here, "--base", "two")

    assert code == 4
    assert steps["join: outputs"][0] == "nothing to compare with"
    assert "the base does not run: " in steps["join: outputs"][1]
    assert not timed


def test_a_base_that_is_not_there(run_here: Run):
    code, steps = gate(run_here, "--base", "nix")

    assert code == 4
    assert steps["base"][1].startswith("there is no git revision 'nix' in ")


def test_the_summary_goes_to_the_job_as_well(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))

    ran = run_here("gate", "-q", "-o", "gate.json")

    assert ran.code == 0
    assert (tmp_path / "summary").read_text() == ran.out
    assert json.loads(Path("gate.json").read_text())["exit_code"] == 0


def test_a_pattern_about_what_could_not_be_read_costs_no_finding(run_here: Run):
    configure('thresholds = { "join/*" = 0.03 }')
    change("import nix\n", "bench_join.py")

    code, steps = gate(run_here)

    assert (code, steps["bench_join.py"][0]) == (1, "failed")


def test_native_calls_where_there_were_none_are_more_work(run_here: Run, timed: list[Duet]):
    configure("work = 50.0")
    change(BATCHING.replace(BODY, "        return Batch([], 0)"))
    commit(Path(), tag="two")
    change(BATCHING.replace(BODY, "        return Batch([], len(()))"))

    code, steps = gate(run_here, "--base", "two")

    assert code == 1
    assert steps["join: exact work"][0] == "failed"
    assert "native calls" in steps["join: exact work"][1]
    assert len(timed) == 2


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose noise is never looked at."""
    monkeypatch.setattr(init, "_thresholds", lambda *_, **__: {"join/16x8": 0.02})


@pytest.mark.usefixtures("still")
def test_init_writes_a_gate_that_works(run_here: Run, project: Path):
    (project / "pyproject.toml").write_text('[project]\nname = "joiner"\n')
    commit(project)

    ran = run_here("init", "--base", "one", "--yes", "-q")

    assert ran.code == 0
    assert "checks join: 4x8, 16x8" in ran.out
    text = (project / "pyproject.toml").read_text()
    assert text.startswith('[project]\nname = "joiner"\n\n[tool.stepbench.gate]\n')
    assert 'subjects = ["bench_join.py"]\nbase = "one"\n' in text
    assert 'thresholds = { "join/16x8" = 0.02 }' in text
    workflow = (project / ".github/workflows/stepbench.yml").read_text()
    assert "stepbench gate --base" in workflow
    assert "${{ github.base_ref }}" in workflow
    assert gate(run_here)[0] == 0
    again = run_here("init", "--yes")
    assert (again.code, again.out) == (2, "")
    assert "pyproject.toml: it configures a gate already: change it there" in again.err


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("ci", ["gitlab", "none"])
def test_init_leaves_a_workflow_out_or_prints_it(run_here: Run, project: Path, ci: str):
    (project / "pyproject.toml").unlink()

    ran = run_here("init", "bench_join.py", "--ci", ci, "--yes", "-q")

    assert ran.code == 0
    assert (project / "stepbench.toml").read_text().startswith("[gate]\nsubjects = ")
    assert not (project / ".github").exists()
    assert ("exit_codes: 3" in ran.out) == (ci == "gitlab")


@pytest.mark.usefixtures("still")
def test_init_asks_first(run_here: Run, project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "pyproject.toml").write_text("")
    asked: list[Any] = []

    def no(*arguments: Any, **_: Any) -> bool:  # noqa: ANN401
        asked.append(arguments)
        return False

    monkeypatch.setattr(init.click, "confirm", no)
    ran = run_here("init", "-q")

    assert (ran.code, len(asked)) == (0, 1)
    assert ran.err == "stepbench: nothing was written\n"
    assert (project / "pyproject.toml").read_text() == ""


def test_init_without_a_file(run_here: Run, project: Path):
    (project / "pyproject.toml").unlink()
    (project / "bench_join.py").unlink()

    ran = run_here("init")

    assert (ran.code, ran.out) == (2, "")
    assert "no bench_*.py here declares a function with @stepbench.step" in ran.err


@pytest.mark.usefixtures("still")
def test_init_leaves_a_file_alone_that_would_be_no_toml_then(run_here: Run, project: Path):
    text = "tool.stepbench = { x = 1 }\n"
    (project / "pyproject.toml").write_text(text)

    ran = run_here("init", "--yes", "-q")

    assert (ran.code, ran.out) == (2, "")
    assert "pyproject.toml: the table cannot be added, since it would be no TOML then" in ran.err
    assert (project / "pyproject.toml").read_text() == text
    assert not (project / ".github").exists()


@pytest.mark.usefixtures("still")
def test_init_keeps_ends_of_lines_and_a_link(run_here: Run, project: Path):
    (project / "pyproject.toml").unlink()
    (project / "real.toml").write_bytes(b"[project]\r\n")
    (project / "pyproject.toml").symlink_to("real.toml")

    ran = run_here("init", "--yes", "-q", "--ci", "none")

    assert ran.code == 0
    data = (project / "real.toml").read_bytes()
    assert data.startswith(b"[project]\r\n\r\n[tool.stepbench.gate]\r\n")
    assert b"\n" not in data.replace(b"\r\n", b"")
    assert (project / "pyproject.toml").is_symlink()


@pytest.mark.usefixtures("still")
def test_init_looks_first_where_it_would_write(run_here: Run, project: Path):
    (project / "pyproject.toml").write_text("")
    (project / ".github").write_text("")

    ran = run_here("init", "--yes", "-q")

    assert (ran.code, ran.out) == (2, "")
    assert ".github is a file" in ran.err
    assert (project / "pyproject.toml").read_text() == ""
