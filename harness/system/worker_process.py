"""Worker processes and other programs: how they start, what they may inherit, how they end."""

import atexit
import contextlib
import errno
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TextIO, TypeVar

from stepbench_core.errors import LostWorkerError, NotRunnableError, WorkerError

from .tracebacks import reaches_arm

R = TypeVar("R")

# Nobody sends these to a process for what it does itself, but the kernel where memory is short, a
# batch system, or a user.
OUTSIDE = {
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGXCPU,
}

# Characters of what a worker said last that go into a message.
_LONGEST = 300
# How a traceback ends of a worker that met what is not here.
_REFUSED = re.compile(rf"^(?:.*\b)?{NotRunnableError.__name__}: (.*)$", re.MULTILINE)
# Starts quickly, since nothing but the standard library is looked for.
_KEEPER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("keeper.py")))
# How long the kernel may take to end what was killed.
_SECONDS_TO_END = 5.0

# Those of all processes that have not been seen to end.
_lifelines: set[socket.socket] = set()


@dataclass(frozen=True)
class Child:
    """A worker to be run.

    Attributes:
        what: the words that name its job in a message.
        command: its command line.
        hash_seed: its PYTHONHASHSEED.
        text: its standard input.
        variables: what its environment holds beside ours.
    """

    what: str
    command: Sequence[str]
    hash_seed: int
    text: str
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kept:
    """A program that was started.

    Attributes:
        process: its streams and its return code; the id is that of its keeper.
        lifeline: becomes readable when it has ended, and all that it started.
    """

    process: subprocess.Popen[Any]
    lifeline: socket.socket


@dataclass(frozen=True, eq=False)
class Worker:
    """A worker that was started, with what it printed so far."""

    child: Child
    kept: Kept
    output: IO[bytes]
    errors: IO[bytes]

    def result(self) -> str:
        """Return what it printed, once it has ended.

        Raises:
            NotRunnableError: it met what is not here.
            WorkerError: it ended with another code than 0.
            LostWorkerError: it did, and that is not the doing of the code that it runs.
        """
        returncode = self.kept.process.wait()
        if returncode:
            said = _read(self.errors)
            refused = _REFUSED.findall(said)
            if refused:
                raise NotRunnableError(refused[-1])
            is_own = -returncode not in OUTSIDE if returncode < 0 else reaches_arm(said)
            kind = WorkerError if is_own else LostWorkerError
            raise kind(f"{self.child.what}: the worker {_death(returncode, said)}")
        return _read(self.output)

    def hung(self, seconds: float | None) -> WorkerError:
        """Return the error of a worker that took too long."""
        words = f"{self.child.what}: the worker hung: no result after {seconds:g} s"
        return WorkerError(words)


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[Kept]:  # noqa: ANN401
    """Start a program, which ends at the latest with the block and with this process.

    So does all that it starts in turn, whatever ends this process and at whatever moment: a keeper
    stands between the two. An exception may come at any moment as well, also while the program
    starts, since a signal raises it: nothing is left then either.

    Args:
        command: its command line.
        options: as of ``subprocess.Popen``.

    Raises:
        OSError: it is not there, or nothing can be started.
    """
    path = (options.get("env") or os.environ).get("PATH")
    if shutil.which(command[0], path=path) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    process = None
    lifeline, other_end = socket.socketpair()
    _lifelines.add(lifeline)
    try:
        with _memory_file("command", b"\0".join(map(os.fsencode, command))) as listed:
            passed = other_end.fileno(), listed.fileno()
            process = subprocess.Popen(
                [*_KEEPER, *map(str, passed)], pass_fds=passed, start_new_session=True, **options
            )
        other_end.close()
        yield Kept(process, lifeline)
    finally:
        other_end.close()
        if process is not None:
            process.send_signal(signal.SIGCONT)  # A stopped keeper would not notice.
        _cut(lifeline)
        if process is not None:
            _end(process)
            for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
                with contextlib.suppress(OSError):  # Of what was not written any more.
                    stream.close()


def run(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    check: bool = False,
    text_in: bytes | None = None,
    **options: Any,  # noqa: ANN401
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, as ``subprocess.run``, but with ``started``.

    Args:
        command: its command line.
        timeout: seconds that it may take.
        check: raise CalledProcessError if it fails.
        text_in: its standard input; None for this process's.
        options: as of ``subprocess.Popen``, and ``capture_output``.

    Raises:
        OSError: it is not there.
        subprocess.SubprocessError: it failed or took too long.
    """
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with contextlib.ExitStack() as stack:
        if text_in is not None:
            options["stdin"] = stack.enter_context(_memory_file("input", text_in))
        kept = stack.enter_context(started(command, **options))
        try:
            output, errors = kept.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise subprocess.TimeoutExpired(command, timeout or 0.0) from None
        done = subprocess.CompletedProcess(command, kept.process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def _end(keeper: subprocess.Popen[Any]) -> None:
    """Collect a keeper whose lifeline was cut; kill it if it waits for what it cannot kill."""
    try:
        keeper.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()


def _cut(lifeline: socket.socket) -> None:
    """End what is at the other end, and return when it is gone."""
    with contextlib.suppress(OSError):
        lifeline.shutdown(socket.SHUT_WR)
        lifeline.settimeout(_SECONDS_TO_END)
        lifeline.recv(1)  # Nothing comes, but the end when nobody holds the other end any more.
    lifeline.close()
    _lifelines.discard(lifeline)


@atexit.register
def _cut_all() -> None:
    """End what an interruption of the ending itself has left."""
    for lifeline in list(_lifelines):
        _cut(lifeline)


@contextlib.contextmanager
def _memory_file(name: str, content: bytes = b"") -> Iterator[IO[bytes]]:
    """Yield a file in memory at its beginning: nobody waits for somebody to fill or to empty it.

    Where there are none such, as on macOS, one without a name.
    """
    if hasattr(os, "memfd_create"):
        made: IO[bytes] = os.fdopen(os.memfd_create(name), "w+b")
    else:
        made = tempfile.TemporaryFile()  # noqa: SIM115 - the next line is its block
    with made as file:
        file.write(content)
        file.seek(0)
        yield file


def run_child(
    what: str,
    command: Sequence[str],
    hash_seed: int,
    text: str,
    timeout: float,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Run one worker; see ``run_children``."""
    return run_children([Child(what, command, hash_seed, text, variables)], timeout)[0]


def run_children(children: Sequence[Child], timeout: float | None) -> list[str]:
    """Run workers at once, each in a fresh process, and return what each printed.

    Args:
        children: the workers.
        timeout: seconds after which they count as hanging; None for no limit.

    Raises:
        NotRunnableError: a worker met what is not here.
        WorkerError: a worker died or hung. The others are killed, as they are on an interruption.
    """
    end = None if timeout is None else time.monotonic() + timeout
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        workers = [stack.enter_context(started_worker(child)) for child in children]
        results: dict[Worker, str] = {}
        for worker in workers:
            selector.register(worker.kept.lifeline, selectors.EVENT_READ, worker)
        while waiting := [key.data for key in selector.get_map().values()]:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = {key.fileobj for key, _ in selector.select(left)}
            if not ready:
                raise waiting[0].hung(timeout)
            for worker in waiting:
                if worker.kept.lifeline in ready:
                    selector.unregister(worker.kept.lifeline)
                    results[worker] = worker.result()
        return [results[worker] for worker in workers]


def module_command(module: str, *flags: str) -> list[str]:
    """Return the command line of a worker that is one of our modules.

    Args:
        module: its dotted name.
        flags: further ones of Python's.
    """
    # The working folder must not shadow our packages, or be shadowed by them.
    return [sys.executable, "-P", *flags, "-m", module]


def read_answer(what: str, text: str, read: Callable[[Any], R]) -> R:
    """Return what a worker printed, as ``read`` takes it from JSON.

    Args:
        what: the words that name its job in a message.
        text: what it printed.
        read: raises a ValueError, KeyError, TypeError or the like for what is no result.

    Raises:
        WorkerError: that is no result.
    """
    if not text:
        raise WorkerError(f"{what}: the worker returned no result: it printed nothing")
    try:
        return read(json.loads(text))
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        raise WorkerError(f"{what}: the worker returned no result: {error}") from None


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@contextlib.contextmanager
def started_worker(child: Child, stdin: socket.socket | None = None) -> Iterator[Worker]:
    """Start a worker. At the end it is killed.

    Args:
        child: the worker.
        stdin: its standard input, instead of its text.
    """
    with (
        _memory_file("input", child.text.encode()) as text,
        _memory_file("output") as output,
        _memory_file("errors") as errors,
        started(
            child.command,
            env=child_environment(child.hash_seed) | dict(child.variables),
            stdin=stdin or text,
            stdout=output,
            stderr=errors,
        ) as kept,
    ):
        yield Worker(child, kept, output, errors)


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
