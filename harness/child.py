"""Worker processes: how they start, what they may inherit, how they end."""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TextIO

from scenarios.errors import NotRunnableError, WorkerError

# Characters of what a worker said last that go into a message.
_LONGEST = 300
# How a traceback ends of a worker that met what is not here.
_REFUSED = re.compile(rf"^(?:.*\b)?{NotRunnableError.__name__}: (.*)$", re.MULTILINE)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True)
class Child:
    """A worker to be run.

    Attributes:
        what: the words that name its job in a message.
        command: its command line.
        hash_seed: its PYTHONHASHSEED.
        text: its standard input.
    """

    what: str
    command: Sequence[str]
    hash_seed: int
    text: str


def run_child(what: str, command: Sequence[str], hash_seed: int, text: str, timeout: float) -> str:
    """Run one worker; see ``run_children``."""
    return run_children([Child(what, command, hash_seed, text)], timeout)[0]


def run_children(children: Sequence[Child], timeout: float) -> list[str]:
    """Run workers at once, each in a fresh process, and return what each printed.

    Args:
        children: the workers.
        timeout: seconds after which they count as hanging.

    Raises:
        NotRunnableError: a worker met what is not here.
        WorkerError: a worker died or hung. The others are killed, as they are on an interruption.
    """
    end = time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        running = []
        for child in children:
            own = stack.enter_context(contextlib.ExitStack())
            running.append((child, own, *own.enter_context(_start(child))))
        found = []
        for child, own, process, errors in running:
            try:
                stdout, _ = process.communicate(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                # Another one that has died meanwhile may be the reason, and is no secret.
                for other, _, ended, said in running:
                    _check(other, ended.poll(), said)
                words = f"{child.what}: the worker hung: no result after {timeout:g} s"
                raise WorkerError(words) from None
            _check(child, process.returncode, errors)
            found.append(stdout)
            own.close()
        return found


def _check(child: Child, returncode: int | None, errors: IO[bytes]) -> None:
    """Raise WorkerError if a worker ended with another code than 0."""
    if returncode:
        errors.seek(0)
        said = errors.read().decode(errors="replace")
        refused = _REFUSED.findall(said)
        if refused:
            raise NotRunnableError(refused[-1])
        raise WorkerError(f"{child.what}: the worker {_death(returncode, said)}")


@contextlib.contextmanager
def _start(child: Child) -> Iterator[tuple[subprocess.Popen[str], IO[bytes]]]:
    """Start a worker; yield it and what it says on stderr. At the end it is killed.

    Its input and its errors are files in memory, and it waits for nobody to fill or to empty them.
    """
    with (
        os.fdopen(os.memfd_create("input"), "w+b") as text,
        os.fdopen(os.memfd_create("errors"), "w+b") as errors,
    ):
        text.write(child.text.encode())
        text.seek(0)
        # A session of its own: Ctrl-C reaches this process alone, which then stops the worker.
        with subprocess.Popen(
            child.command,
            env=child_environment(child.hash_seed),
            stdin=text,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                yield process, errors
            finally:
                # With all that it started, which the session holds together.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


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
