"""Signals to real commands at random moments: what is left of each command, and how it ended.

Run as ``python -m tests.stepbench.signal_storm [--moments N] [--seed N] [--only NAME]``.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepbench.cli import INCONCLUSIVE, INTERRUPTED

from .gate_copy import ROOT, Copy

# What a process inherits from the command that started it, and those that it starts from it.
MARK = "STEPBENCH_STORM"
# A command that was asked to end and has not by then hangs.
_SECONDS_TO_END = 60.0
# For the kernel, and for keepers where a signal killed the command.
_SECONDS_TO_VANISH = 5.0
# The seconds after the start within which signals are sent: start, work, and often the end.
_LONGEST = 4.0

_CELL = ("--cells", "2x64", "-q")
COMMANDS = {
    "speedup": ("speedup", *_CELL, "--quick", "-o", "x.json", "--force", "--cpu", "none"),
    "compare": ("compare", "full-copy", "incremental", *_CELL, "--cpu", "none"),
    # It starts a process of its own, in a session of its own.
    "compare with a file": ("compare", "file:arm.py", "incremental", *_CELL, "--cpu", "none"),
    "instructions": ("compare", "full-copy", "batched", *_CELL, "--instructions"),
    "verify": ("verify", "--runs", "300", "--jobs", "2", "-q"),
    "verify of a file": ("verify", "file:arm.py", "--runs", "300", "--jobs", "2", "-q"),
    "count": ("count", "--cells", "2x64,64x512", "--jobs", "2", "-q"),
    "overlap": ("overlap", *_CELL, "--processes", "2"),
    "calibrate": ("calibrate", "-q"),
    "doctor": ("doctor", "-q"),
    "gate": ("gate", "--cpu", "none", "--jobs", "2", "-q"),
}
# Of these the tests try some; the gate needs a copy of the repository.
QUICK = tuple(name for name in COMMANDS if name != "gate")
_LEAVES_A_PROCESS = """

import subprocess

subprocess.Popen(["sleep", "300"], start_new_session=True)
"""
_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NUMBERS = (*_CAUGHT, signal.SIGKILL)


@dataclass(frozen=True)
class Moment:
    """What to do to a command.

    Attributes:
        name: of ``COMMANDS``.
        seconds: when, after its start.
        number: the signal.
        again: the seconds after which another one follows; None for no other.
    """

    name: str
    seconds: float
    number: signal.Signals
    again: float | None


def moments(count: int, seed: int, names: Sequence[str], longest: float) -> Iterator[Moment]:
    """Yield so many moments, of each command alike, within so many seconds after its start."""
    rng = random.Random(seed)
    for index in range(count):
        # Half of them in its first quarter: imports, and the first workers.
        yield Moment(
            names[index % len(names)],
            round(rng.uniform(0.0, rng.choice([longest / 4, longest])), 4),
            rng.choice(_NUMBERS),
            round(rng.uniform(0.0, 0.1), 4) if rng.random() < 0.3 else None,
        )


def strike(moment: Moment, folder: Path) -> str | None:
    """Run a command and send it its signals; return what is wrong, None if nothing is."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-P", "-m", "stepbench", *COMMANDS[moment.name]]
    copy = folder / "copy"
    environment = os.environ | {MARK: mark, "TMPDIR": str(folder)}
    if moment.name == "gate":
        environment |= {"PYTHONPATH": str(copy)}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        with _none_ignored():
            process = subprocess.Popen(
                command,
                cwd=copy if moment.name == "gate" else folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        try:
            time.sleep(moment.seconds)
            process.send_signal(moment.number)
            if moment.again is not None:
                time.sleep(moment.again)
                process.send_signal(signal.SIGTERM)
            code = process.wait(_SECONDS_TO_END)
            left = alive(mark, folder)
            # Nobody is left to wait for what the kernel ends in its own time.
            if code < 0:
                left = _wait_until_gone(mark, folder)
        except subprocess.TimeoutExpired:
            return "it does not end"
        finally:
            process.kill()
            process.wait()
            for pid in alive(mark, folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        said.seek(0)
        return _wrong(code, moment, left, said.read())


@contextlib.contextmanager
def _none_ignored() -> Iterator[None]:
    """Have what is started meanwhile ignore no signal, however this process was started."""
    ignored = [one for one in _CAUGHT if signal.getsignal(one) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def _wrong(code: int, moment: Moment, left: dict[int, str], said: str) -> str | None:
    """Return what is wrong with how a command ended."""
    if left:
        return f"exit code {code}, and there is still {'; '.join(left.values())}"
    died = {-moment.number, -signal.SIGTERM} if moment.again else {-moment.number}
    # Python answers Ctrl-C by a traceback until it comes to our code.
    starting = "Failed to import the site module", "in _run_module_as_main"
    is_ours = "/cli.py" in said or not any(words in said for words in starting)
    if moment.number == signal.SIGINT and not is_ours:
        return None
    # It may have been done before.
    as_it_should = code in {INTERRUPTED, *died, 0, INCONCLUSIVE}
    if not as_it_should or "Traceback" in said or "ignored" in said:
        return f"exit code {code}: {said}"
    return None


def _wait_until_gone(mark: str, folder: Path) -> dict[int, str]:
    end = time.monotonic() + _SECONDS_TO_VANISH
    while (left := alive(mark, folder)) and time.monotonic() < end:
        time.sleep(0.01)
    return left


def alive(mark: str, folder: Path) -> dict[int, str]:
    """Return the command lines of all processes that have the mark, wherever they hang by now.

    What valgrind runs has no environment, and names its folder instead.
    """
    wanted, found = f"{MARK}={mark}".encode(), {}
    for process in Path("/proc").glob("[0-9]*"):
        # Gone, another user's, or a zombie, which has no environment any more.
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            marked = wanted in (process / "environ").read_bytes().split(b"\0")
            if marked or f"={folder}/".encode() in words:
                found[int(process.name)] = words.decode(errors="replace").replace("\0", " ")[:200]
    return found


@contextlib.contextmanager
def place(*, with_copy: bool = False) -> Iterator[Path]:
    """Yield a folder with what the commands need."""
    with tempfile.TemporaryDirectory(prefix="stepbench-storm-") as name:
        folder = Path(name)
        arm = ROOT / "connector" / "incremental.py"
        (folder / "arm.py").write_text(arm.read_text() + _LEAVES_A_PROCESS)
        if with_copy:
            Copy.of_this_repository(folder / "copy")
        yield folder


def main() -> int:
    """Strike at as many moments as asked for; return 1 if something was wrong at one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", action="append", choices=list(COMMANDS), default=[])
    options = parser.parse_args()
    names = options.only or list(COMMANDS)
    print(f"seed {options.seed}", flush=True)
    failures = 0
    with place(with_copy="gate" in names) as folder:
        for moment in moments(options.moments, options.seed, names, _LONGEST):
            wrong = strike(moment, folder)
            failures += wrong is not None
            print(f"{moment}: {f'FAILED: {wrong}' if wrong else 'ok'}", flush=True)
    print(f"{failures} of {options.moments} moments failed (--seed {options.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
