"""Worker processes: how they start, what they may inherit, how they end."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import TextIO

from scenarios.errors import WorkerError

# Characters of what a worker said last that go into a message.
_LONGEST = 300
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def run_child(what: str, command: Sequence[str], hash_seed: int, text: str, timeout: float) -> str:
    """Run a worker in a fresh process and return what it printed.

    Args:
        what: the words that name its job in a message.
        command: its command line.
        hash_seed: its PYTHONHASHSEED.
        text: its standard input.
        timeout: seconds after which it counts as hanging and is killed.

    Raises:
        WorkerError: the worker died or hung.
    """
    # A session of its own: Ctrl-C reaches this process alone, which then stops the worker.
    with subprocess.Popen(
        command,
        env=child_environment(hash_seed),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise WorkerError(f"{what}: the worker hung: no result after {timeout:g} s") from None
        finally:
            # With all that it started, which the session holds together.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise WorkerError(f"{what}: the worker {_death(process.returncode, stderr)}")
    return stdout


def child_environment(hash_seed: int) -> dict[str, str]:
    """Return the environment of a worker: ours, without what would change how Python runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    if "PYTHONPATH" in os.environ:
        kept["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return kept | {"PYTHONHASHSEED": str(hash_seed), "PYTHONUTF8": "1"}


def hash_seed(seed: int, process: int) -> int:
    """Return the PYTHONHASHSEED of a process; never 0, which would turn randomisation off."""
    return 1 + (seed * 1_000_003 + process) % 4_294_967_295


def take_over_stdout() -> TextIO:
    """Return this worker's standard output for its result, and send all else to nowhere.

    What the measured code or anything native prints must not mix with the result.
    """
    result = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return result


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that waits for it is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _death(returncode: int, stderr: str) -> str:
    if returncode < 0:
        known = {number.value: number.name for number in signal.Signals}
        hint = " (out of memory?)" if -returncode == signal.SIGKILL else ""
        return f"was killed by {known.get(-returncode, f'signal {-returncode}')}{hint}"
    lines = [line for line in stderr.splitlines() if line.strip()]
    # After the last line of code in a traceback the exception begins, whose text may have lines.
    code = [index for index, line in enumerate(lines[:-1]) if line.startswith("  ")]
    if not lines:
        return f"exited with {returncode}"
    said = lines[code[-1] + 1] if code and lines[0].startswith("Traceback") else lines[-1]
    return f"failed: {said.strip()[:_LONGEST]}"
