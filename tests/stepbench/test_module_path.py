"""What lies where the command is started has the names of our modules, or of Python's."""

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ONE, SCRIPT

pytestmark = pytest.mark.thorough

PACKAGES = ("connector", "harness", "reports", "scenarios", "stubs")
FILES = ("click", "json", "numpy", "pickle", "random", "signal", "socket")
NOTE = "stepbench: looked up last, since it would hide modules that are needed: "


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The working folder of somebody who has other things of the same names in it."""
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not this one')\n")
    for name in FILES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')\n")
    return tmp_path


def run(*command: str) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("speedup", *ONE, "-q"),
        ("verify", "incremental", "--runs", "30", "--jobs", "2", "-q"),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.usefixtures("folder")
def test_as_a_module_it_is_the_installed_one(arguments: tuple[str, ...]):
    assert run(sys.executable, "-m", "stepbench", *arguments) == (0, "")


@pytest.mark.parametrize("path", [".", ":", "{}"])
@pytest.mark.parametrize("command", [(SCRIPT,), (sys.executable, "-m", "stepbench")])
def test_a_folder_on_the_path_is_looked_up_last_and_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, path: str, command: tuple[str, ...]
):
    monkeypatch.setenv("PYTHONPATH", path.format(folder))

    code, said = run(*command, "speedup", *ONE, "-q")

    assert code == 0
    (line,) = said.splitlines()
    assert line.startswith(f"{NOTE}{folder} (click.py, connector, ")


def test_processes_find_the_same_modules(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", ".")

    code, said = run(SCRIPT, "verify", "incremental", "--runs", "30", "--jobs", "2", "-q")

    assert code == 0
    assert said.startswith(f"{NOTE}{folder}")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["harness/__init__.py", "scenarios.py", "random.py", "numpy.py"])
def test_each_of_them_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise RuntimeError('not this one')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    code, said = run(SCRIPT, "verify", "incremental", "--runs", "10", "-q")

    assert (code, said) == (0, f"{NOTE}{tmp_path} ({name.partition('/')[0]})\n")


def test_what_hides_nothing_is_left_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Without an __init__.py, that is no package that would be taken for ours.
    (tmp_path / "reports").mkdir()
    (tmp_path / "helper.py").touch()
    (tmp_path / "numpy_notes.py").touch()
    monkeypatch.setenv("PYTHONPATH", ".")

    assert run(SCRIPT, "list") == (0, "")
