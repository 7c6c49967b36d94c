"""The project in examples/, as its users have it: a repository of its own with a gate."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.verdict import Verdict
from harness.gate import own
from stepbench import cli
from subjects.base import Cell
from tests.own_project import commit

EXAMPLE = Path(__file__).parents[1] / "examples" / "pagedkv"

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is a repository with the project."""
    folder = tmp_path / "pagedkv"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    commit(folder, tag="base")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that would have been timed."""
    cells: list[str] = []

    def compare(_duet: Duet, cell: Cell, *_: object) -> CellResult:
        cells.append(cell.name)
        return CellResult(cell, Verdict(Kind.NO_DIFFERENCE, ""))

    monkeypatch.setattr(own, "compare_cell", compare)
    return cells


def gate(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """Run the gate; return its exit code and the outcome of each step."""
    code = cli.run(["gate", "--base", "base", "--json", "-q"])
    steps = json.loads(capsys.readouterr().out)["steps"]
    return code, {step["step"]: step["outcome"] for step in steps}


def replace(project: Path, old: str, new: str) -> None:
    path = project / "src/pagedkv/scheduler.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_its_own_tests_pass(project: Path):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    subprocess.run(command, cwd=project, check=True, capture_output=True)


def test_nothing_changed(capsys: pytest.CaptureFixture[str], untimed: list[str]):
    assert gate(capsys) == (0, {"base": "passed", "decode": "passed"})
    assert not untimed


def test_a_change_that_does_no_harm(
    project: Path, capsys: pytest.CaptureFixture[str], untimed: list[str]
):
    replace(project, "left = self._budget\n", "left = self._budget + 0\n")

    code, steps = gate(capsys)

    assert code == 0
    assert set(steps.values()) == {"passed"}
    assert untimed == ["16x512", "64x512", "64x4096"]


def test_a_wrong_output(project: Path, capsys: pytest.CaptureFixture[str], untimed: list[str]):
    replace(project, "output.grown[request.name] = new", "output.grown[request.name] = new[:-1]")

    code, steps = gate(capsys)

    assert (code, steps["decode: outputs"]) == (1, "failed")
    assert not untimed


def test_work_that_grows_with_the_context(project: Path, capsys: pytest.CaptureFixture[str]):
    replace(
        project, "count = min(len(request.tokens)", "count = min(sum(1 for _ in request.tokens)"
    )

    code, steps = gate(capsys)

    assert code == 1
    assert steps["decode: outputs"] == "passed"
    assert steps["decode: exact work"] == steps["decode: growth with tokens"] == "failed"
