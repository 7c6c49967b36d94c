"""The command line as a user meets it: the installed script, or its entry point in process."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyperf
import pytest

from harness.system import cores as machine
from stepbench import cli

from .checkouts import Checkout

SCRIPT = str(Path(sysconfig.get_path("scripts")) / "stepbench")

# One cell, as little of it as gives an interval: four short processes.
TINY = ("--cells", "2x64", "--quick", "--processes", "2")

# A single process: as little as can be measured.
ONE = ("--cells", "1x8", "--quick", "--processes", "1", "--arms", "incremental")

Runs = dict[tuple[str, int], tuple[float, ...]]


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def own_place(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    """An empty working folder and locks of its own, whatever else this machine measures."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.chdir(tmp_path)
    # As in a shell where the command is installed.
    monkeypatch.setenv("PATH", f"{Path(SCRIPT).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(machine, "_LOCKS", temporary / "stepbench-locks")
    # What would change colours, widths and buffering.
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PYTHONUNBUFFERED", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs the entry point in this process: the same code, without half a second of imports."""

    def run(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["stepbench", *arguments])
        capsys.readouterr()
        code = cli.run(list(arguments))
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkout:
    """A checkout of the engine in the working folder."""
    return Checkout(monkeypatch, tmp_path / "engine")


@pytest.fixture(scope="session")
def stored_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A results file of one complete cell, measured once for all tests that only read one."""
    folder = tmp_path_factory.mktemp("stored")
    subprocess.run(
        [SCRIPT, "speedup", *TINY, "-o", "x.json", "--cpu", "none"],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder)},
        capture_output=True,
        check=True,
    )
    return (folder / "x.json").read_text()


@pytest.fixture
def results(stored_text: str, tmp_path: Path) -> str:
    """The name of a results file in the working folder."""
    (tmp_path / "x.json").write_text(stored_text)
    return "x.json"


def run_script(*arguments: str) -> Ran:
    """Run the installed console script with its output in pipes."""
    done = subprocess.run(
        [SCRIPT, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def stored_runs(path: str | Path) -> Runs:
    """The samples of each process in a results file, as pyperf reads it."""
    found: Runs = {}
    for benchmark in pyperf.BenchmarkSuite.load(str(path)):
        for run in benchmark.get_runs():
            key = (benchmark.get_name(), run.get_metadata()["stepbench_process"])
            assert key not in found, f"{key} is stored twice"
            found[key] = run.values
    return found


def assert_refused(ran: Ran, *texts: str, code: int = 2) -> None:
    """Check that a command ended in one clear line and nothing else."""
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("stepbench: error: ")
    for text in texts:
        assert text in ran.err
    assert ran.code == code
