"""Work that a call leaves to others: CPU time of other threads and of child processes.

What is handed to a thread is not in the time of the call, and still takes the interpreter lock and
a core. Here it is waited for after the call, outside the timing, and its CPU time is added up.
"""

from __future__ import annotations

import math
import os
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time, sleep, thread_time

from .kernel_tasks import SELF, TASKS, children_of, descendants_of, name_of, scheduled, state_of

# CPU seconds beyond which others have done something: the clocks of a process and of its only
# thread are read one after the other. And within an iteration, in which a heartbeat may fall.
_SOMETHING, _MUCH = 5e-6, 5e-5
# How often is looked whether the others are idle, and for how long at most, which a new process may
# take to start: who works for longer never rests, and is not waited for again.
_SECONDS_BETWEEN = 2e-4
_LONGEST = 1.0
# Looks in a row at which they have to be found idle.
_LOOKS = 3


class Background:
    """What other threads and child processes of this process do, but for those that are there now.

    Made before the code that may start them. It costs a call nothing to be watched while nobody
    else is there.

    Attributes:
        is_there: whether somebody else has been seen to work; then every call is waited for. True
            until ``look``, so that nothing of the first calls is missed.
        is_restless: whether somebody went on for so long after a call that nobody waits any more.
            What such a one does cannot be told from a call's.
        waited: wall seconds that were spent waiting.
        waited_cpu: CPU seconds of this process meanwhile.
        waited_for_core: seconds that this thread wanted a core meanwhile and had none.
    """

    def __init__(self) -> None:
        self.is_there, self.is_restless = True, False
        self.waited = self.waited_cpu = self.waited_for_core = 0.0
        self._threads = set(threading.enumerate())
        self._tasks = _tasks()
        self._processes = set(children_of(SELF))
        self._base = _others()
        self._ended = _ended_time()
        self._begin = (0.0, 0.0)
        # Calls that were waited for, and those of them that left work behind.
        self._calls = self._busy = 0
        self._named: set[int] = set()

    def begin(self) -> None:
        """Note what was spent before a call."""
        if self.is_there:
            others = _others() + _children_time(self._children())
            # Last, so that what was read before is not the call's.
            self._begin = (thread_time(), others)

    def end(self, seconds: float) -> float:
        """Wait for what a call has left to others; return its CPU time in seconds.

        Args:
            seconds: how long the call took: what it waited for others is in it already.
        """
        if not self.is_there:
            return 0.0
        own, others = self._begin
        own = thread_time() - own
        began, began_cpu, began_queue = perf_counter(), process_time(), _queued()
        others = self._settle() - others
        self.waited += perf_counter() - began
        self.waited_cpu += process_time() - began_cpu
        self.waited_for_core += _queued() - began_queue
        self._calls += 1
        self._busy += others > _SOMETHING
        beside = own + others - seconds
        return beside if others > _SOMETHING and beside > 0 else 0.0

    def restart(self) -> None:
        """Wait for every call again, of another arm whose first calls come."""
        self.is_there, self._calls, self._busy = not self.is_restless, 0, 0

    def look(self) -> None:
        """Find out, after some calls, whether half of them leave work to somebody else.

        A thread that was started and only waits is none: to wait for it would let caches grow cold.
        Of child processes nobody else tells when they work, so that they are always waited for.
        """
        has_children = _ended_time() > self._ended or bool(self._children())
        is_busy = self._calls > 0 and self._busy >= self._calls / 2
        self.is_there = (has_children or is_busy) and not self.is_restless
        self._base = _others()

    def watch(self) -> None:
        """Notice somebody else who begins later: two clocks, cheap enough for every iteration."""
        before, self._base = self._base, _others()
        if self._base - before > _MUCH and not self.is_restless:
            self.is_there = True

    def alive(self) -> dict[int, str]:
        """Return the threads and child processes that are alive beside this thread, by number."""
        native = {int(task): "a thread of native code" for task in _tasks() - self._tasks}
        threads = {
            thread.native_id: thread.name
            for thread in threading.enumerate()
            if thread.native_id is not None and thread not in self._threads
        }
        children = {
            int(process.name): f"child process {name}"
            for process, name in ((process, name_of(process)) for process in self._children())
            if name
        }
        return native | threads | children

    def newcomers(self) -> set[str]:
        """Return the names of those alive that no earlier call of this has named."""
        found = {key: name for key, name in self.alive().items() if key not in self._named}
        self._named.update(found)
        return set(found.values())

    def _children(self) -> list[Path]:
        """Return the processes that this one has started since, and that are alive, and theirs."""
        own = [child for child in children_of(SELF) if child not in self._processes]
        return own + [below for child in own for below in descendants_of(child)]

    def _settle(self) -> float:
        """Wait until the others are idle; return the CPU seconds that they have spent so far."""
        end = perf_counter() + _LONGEST
        looks, spent = 0, -math.inf
        while True:
            children = self._children()
            others = _tasks() - self._tasks
            before, spent = spent, _others() + _children_time(children)
            is_idle = not any(map(_is_running, (*(TASKS / task for task in others), *children)))
            if not others and not children:
                return spent
            looks = looks + 1 if is_idle and spent - before < _MUCH else 0
            if perf_counter() > end:
                self.is_restless, self.is_there = True, False
            if looks == _LOOKS or self.is_restless:
                return spent
            sleep(_SECONDS_BETWEEN)


def _others() -> float:
    """Return the CPU seconds that other threads of this process have spent."""
    return process_time() - thread_time()


def _tasks() -> set[str]:
    """Return the threads of this process as the kernel numbers them; none where it does not say."""
    try:
        return set(os.listdir(TASKS))  # noqa: PTH208 - a hundred times a second
    except OSError:
        return set()


def _children_time(alive: list[Path]) -> float:
    """Return the CPU seconds of child processes: of those that ended, and of those alive."""
    spent = _ended_time()
    for process in alive:
        spent += (scheduled(process) or (0.0, 0.0))[0]
    return spent


def _ended_time() -> float:
    """Return the CPU seconds of child processes that have ended and been waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _queued() -> float:
    """Return the seconds that this thread has waited for a core; 0 where that is not known."""
    return (scheduled(SELF) or (0.0, 0.0))[1]


def _is_running(task: Path) -> bool:
    """Return whether a thread or process runs, or would if it had a core or its disk."""
    return state_of(task) in ("R", "D")


class CoreShare:
    """How much of its core this process had, from now on.

    Args:
        background: what was waited for meanwhile does not count.
    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._began, self._cpu = perf_counter(), process_time()
        self._scheduled = scheduled(SELF)
        self._away = self._away_cpu = self._away_queued = 0.0

    def sit_out(self, wait: Callable[[], bool]) -> bool:
        """Return what ``wait`` returns. The time that it takes does not count."""
        began, began_cpu, began_queue = perf_counter(), process_time(), _queued()
        found = wait()
        self._away += perf_counter() - began
        self._away_cpu += process_time() - began_cpu
        self._away_queued += _queued() - began_queue
        return found

    def value(self) -> float:
        """Return the share, at most about 1.

        What the calls wait for by themselves, as where they sleep, takes nothing away from it: but
        for where the kernel does not tell that from waiting for the core.
        """
        wall = perf_counter() - self._began - self._background.waited - self._away
        now = scheduled(SELF)
        if self._scheduled is not None and now is not None:
            elsewhere = self._background.waited_for_core + self._away_queued
            return 1 - (now[1] - self._scheduled[1] - elsewhere) / wall
        cpu = process_time() - self._cpu - self._background.waited_cpu - self._away_cpu
        return cpu / wall
