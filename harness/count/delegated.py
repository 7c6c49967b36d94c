"""What an arm has others do: other threads, and child processes."""

from __future__ import annotations

import _thread
import contextlib
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.system.kernel_tasks import SELF, TASKS, children_of, name_of, state_of

from .bytecodes import Bytecodes

# Seconds without any sign of work after which other threads are taken to wait for more of it, and
# between two looks.
_QUIET, _LOOK = 0.02, 0.002
# Seconds of the processor between two looks that are no work yet: reading two clocks takes some.
_LEAST_WORK = 0.0005
# Seconds that a call's threads may go on after it.
_LONGEST = 5.0
# Seconds after which threads that compute take turns: Python's own default.
_SWITCH = 0.005

# Starts a process, as Python's audit events name it, and where in its arguments the program is.
_STARTS = {"subprocess.Popen": 1, "os.posix_spawn": 0, "os.system": 0, "os.fork": None}
# Begins the names of the events of a thread that is started.
_THREAD = "_thread.start_"


@dataclass
class Delegated:
    """What an arm has others do in the counted iterations of a cell.

    Attributes:
        bytecodes: those of other threads, summed over the iterations; the arm's include them.
        threads: names of the threads that are alive after the last call.
        processes: what is known of child processes, whose work nobody counts; such as their names.
        is_restless: whether threads went on for too long after a call to be waited for.
    """

    bytecodes: int = 0
    threads: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    is_restless: bool = False


class Watch:
    """Tells which thread and which child process belongs to which arm.

    What comes while an arm is made or called is that arm's.
    """

    def __init__(self) -> None:
        # All that there are, named or not; before any arm.
        self._before = _thread._count()
        self._owners: dict[threading.Thread, str] = {}
        self._starts = 0
        self._restless: set[str] = set()

    @contextlib.contextmanager
    def over(self, arm: str, delegated: Delegated) -> Iterator[None]:
        """Note what an arm starts within."""
        before, processes = set(threading.enumerate()), _processes()
        self._starts = _Noted.threads
        with _noting(delegated.processes):
            yield
        for thread in set(threading.enumerate()) - before:
            self._owners[thread] = arm
        if processes is not None and processes != (now := _processes()) and now is not None:
            # Without a word of how: started by native code, or by multiprocessing.
            new = [_named(process) for process in now[0] - processes[0]]
            if not delegated.processes:
                delegated.processes += new or ["one that has ended"]
        alive = [thread.name for thread in self._alive() if self._owners[thread] == arm]
        delegated.threads = sorted(alive)
        delegated.is_restless = arm in self._restless

    def settle(self, arm: str, counts: Bytecodes) -> None:
        """Wait until the threads of an arm wait for work themselves, or have ended.

        Whoever has gone on for too long once is not waited for again.
        """
        # One that was started may not have begun.
        is_alone = _thread._count() <= self._before + len(self.others(arm))
        if arm in self._restless or (is_alone and self._starts == _Noted.threads):
            return
        began = since = time.monotonic()
        before = _signs(counts)
        while (now := time.monotonic()) - since < _QUIET:
            if now - began > _LONGEST:
                self._restless.add(arm)
                sys.setswitchinterval(_SWITCH)
                return
            time.sleep(_LOOK)
            signs = _signs(counts)
            if signs[0] != before[0] or signs[1] - before[1] > _LEAST_WORK or _is_runnable():
                since = time.monotonic()
            before = signs

    def others(self, arm: str) -> set[int | None]:
        """Return the identifiers of the threads of other arms."""
        return {thread.ident for thread in self._alive() if self._owners[thread] != arm}

    def _alive(self) -> list[threading.Thread]:
        self._owners = {own: arm for own, arm in self._owners.items() if own.is_alive()}
        return list(self._owners)


def watch_starts() -> None:
    """Have starts of threads and processes seen from now on, as long as this process lives."""
    if _Noted.is_watching:
        return
    _Noted.is_watching = True
    sys.addaudithook(_note)


class _Noted:
    """Where starts are noted, of which there is one a process."""

    is_watching = False
    threads = 0
    names: list[str] | None = None


@contextlib.contextmanager
def _noting(names: list[str]) -> Iterator[None]:
    _Noted.names = names
    try:
        yield
    finally:
        _Noted.names = None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    _Noted.threads += event.startswith(_THREAD)
    if _Noted.names is None or event not in _STARTS:
        return
    where = _STARTS[event]
    program = None if where is None else arguments[where]
    if isinstance(program, list | tuple):
        program = program[0]
    words = "" if program is None else f" ({os.path.basename(os.fsdecode(program))})"  # noqa: PTH119
    if f"{event}{words}" not in _Noted.names:
        _Noted.names.append(f"{event}{words}")


def _signs(counts: Bytecodes) -> tuple[int, float]:
    """Return what grows while other threads work: bytecodes, and seconds of the processor."""
    executed = sum(sum(list(own.values())) for own in list(counts.threads.values()))
    return executed, time.process_time() - time.thread_time()


def _is_runnable() -> bool:
    """Return whether another thread wants a processor; False where the system does not say."""
    own = f"{threading.get_native_id()}"
    return any(state_of(task) == "R" for task in TASKS.glob("*") if task.name != own)


def _processes() -> tuple[set[str], int] | None:
    """Return this process's children, and a number that moves when one has ended.

    None where nobody watches: what else runs in this process has its own.
    """
    if not _Noted.is_watching:
        return None
    found = {child.name for child in children_of(SELF)}
    return found, resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _named(process: str) -> str:
    return name_of(Path("/proc", process)) or f"process {process}"
