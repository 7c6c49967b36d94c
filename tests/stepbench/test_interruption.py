"""Signals to a command: the first, others after it, and those that it was started deaf to."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepbench import interruption

from .conftest import SCRIPT
from .test_speedup_resume import LONG, _wait_for, _workers

pytestmark = pytest.mark.thorough

# Runs a command line with some signals ignored, and some held back.
START = (
    "import os, signal, sys; ignored, held, *command = sys.argv[1:]; numbers = signal.SIGINT, "
    "signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE\n"
    "for number in numbers: "
    "signal.signal(number, signal.SIG_IGN if number.name in ignored else signal.SIG_DFL)\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [n for n in numbers if n.name in held])\n"
    "os.execv(command[0], command)"
)


def start(*arguments: str, ignored: str = "", held: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START, ignored, held, SCRIPT, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code, and the last line on stderr of a command that says nothing else of itself."""
    out, err = process.communicate(timeout=60)
    assert out == ""
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    return process.returncode, err.splitlines()[-1]


@pytest.mark.parametrize(
    ("ignored", "held", "number"),
    [
        ("SIGINT", "", signal.SIGTERM),  # ``&`` in a script.
        ("SIGINT SIGHUP", "", signal.SIGTERM),  # ``nohup ... &``.
        ("SIGINT SIGHUP SIGTERM SIGCHLD", "", signal.SIGTERM),
        ("", "SIGTERM SIGINT SIGHUP SIGCHLD", signal.SIGTERM),
        ("SIGCHLD SIGPIPE", "SIGINT", signal.SIGINT),
        ("", "SIGHUP", signal.SIGHUP),
    ],
)
def test_a_command_ends_however_it_was_started(ignored: str, held: str, number: signal.Signals):
    with start("speedup", *LONG, ignored=ignored, held=held) as process:
        try:
            _wait_for(lambda: _workers(process))
            workers = _workers(process)
            process.send_signal(number)
            code, said = end(process)
        finally:
            process.kill()

    assert code == 130
    assert said == "stepbench: interrupted; no process had finished, so there is nothing to keep"
    assert [worker for worker in workers if worker.is_running()] == []


@pytest.mark.parametrize(
    ("ignored", "numbers"),
    [("SIGHUP", [signal.SIGHUP]), ("SIGINT SIGHUP", [signal.SIGINT, signal.SIGHUP])],
)
def test_what_a_command_was_started_deaf_to_does_not_end_it(
    ignored: str, numbers: list[signal.Signals]
):
    arguments = ("--cells", "2x64", "--quick", "--processes", "2", "-o", "x.json", "-q")
    with start("speedup", *arguments, ignored=ignored) as process:
        _wait_for(lambda: _workers(process))
        for number in numbers:
            process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    assert "full-copy" in out


def test_a_hundred_signals_do_no_more_than_one():
    with start("speedup", *LONG) as process:
        _wait_for(lambda: _workers(process))
        workers = _workers(process)
        for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP] * 33:
            if process.poll() is None:
                process.send_signal(number)
            time.sleep(0.002)
        code, said = end(process)

    assert code == 130
    assert said == "stepbench: interrupted; no process had finished, so there is nothing to keep"
    assert [worker for worker in workers if worker.is_running()] == []


def heeding(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that heeds signals."""
    before = "import os, signal, sys, time; from stepbench.interruption import *; heed_signals()\n"
    command = [sys.executable, "-c", before + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_interruption_in_a_finalizer_is_not_lost():
    done = heeding(
        "class Last:\n"
        "    def __del__(self): os.kill(os.getpid(), signal.SIGTERM); time.sleep(0)\n"
        "try:\n"
        "    last = Last(); del last; time.sleep(30)\n"
        "except KeyboardInterrupt: sys.exit(7)\n"
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_an_interruption_that_comes_out_as_an_error_is_one():
    done = heeding(
        "try:\n"
        "    with nothing_but_interrupted():\n"
        "        try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)\n"
        "        except KeyboardInterrupt: raise ImportError('as a module of C would have it')\n"
        "except KeyboardInterrupt: sys.exit(7)\n"
    )
    assert (done.returncode, done.stderr) == (7, "")


def test_an_error_without_an_interruption_stays_one():
    with pytest.raises(ImportError), interruption.nothing_but_interrupted():
        raise ImportError


def test_signals_that_come_together_are_one_interruption():
    done = heeding(
        "signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)\n"
        "for number in SIGNALS: os.kill(os.getpid(), number)\n"
        "try:\n"
        "    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS); time.sleep(30)\n"
        "except KeyboardInterrupt: time.sleep(0.1); sys.exit(7)\n"
    )
    assert (done.returncode, done.stderr) == (7, "")


def importing(folder: Path, module: str, does: str) -> subprocess.CompletedProcess[str]:
    """Run a command; what it does when it comes to the import of a module is another thing."""
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys, importlib.abc\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # These tests may run under nohup.
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: {does}\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-P", "-m", "stepbench", "list"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("module", ["click", "stepbench_core.errors", "stepbench.cli"])
def test_an_interruption_of_the_first_imports_ends_without_a_traceback(tmp_path: Path, module: str):
    done = importing(tmp_path, module, "os.kill(os.getpid(), signal.SIGINT)")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", interruption.SIGNALS)
@pytest.mark.parametrize("how", ["{}", "exec({!r})"])
def test_an_interruption_of_later_imports_ends_in_one_line(
    tmp_path: Path, number: signal.Signals, how: str
):
    kill = f"os.kill(os.getpid(), {number:d})"
    done = importing(tmp_path, "stepbench.list_", how.format(kill))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stepbench: interrupted\n")
