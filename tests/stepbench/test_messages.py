"""How the command names itself, and what becomes of a line that nobody reads."""

import os
import sys
from pathlib import Path

import pytest

from stepbench.messages import program, say

from .conftest import SCRIPT


def test_a_command_on_the_path_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", [SCRIPT])
    assert program() == "stepbench"


def test_a_command_off_the_path_is_called_by_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    script = tmp_path / "my env" / "stepbench"
    script.parent.mkdir()
    script.touch()
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program() == "'my env/stepbench'"


def test_a_line_without_a_reader_is_no_error(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:  # noqa: PTH123
        monkeypatch.setattr(sys, "stderr", pipe)
        say("anything")
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)
