"""What the kernel tells of threads and processes in ``/proc``; nothing where it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

# This process, and its threads by their numbers.
SELF = Path("/proc/self")
TASKS = SELF / "task"


def children_of(process: Path) -> list[Path]:
    """Return the processes that a process has started and that are alive."""
    found: list[Path] = []
    for file in (process / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += (Path("/proc", child) for child in file.read_text().split())
    return found


def descendants_of(process: Path) -> Iterator[Path]:
    """Yield the processes that a process has started, and that these have, and so on."""
    for child in children_of(process):
        yield child
        yield from descendants_of(child)


def state_of(task: Path) -> str:
    """Return the state of a thread or process, such as ``R`` (proc_pid_stat(5)).

    Empty where it has ended.
    """
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def name_of(process: Path) -> str:
    """Return the name of a process; empty where it has ended."""
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


def scheduled(task: Path) -> tuple[float, float] | None:
    """Return the seconds that a thread or process had a core, and that it waited for one.

    Linux, Documentation/scheduler/sched-stats.rst. None where that is not known.
    """
    try:
        on_core, waiting = (task / "schedstat").read_text().split()[:2]
        return int(on_core) / 1e9, int(waiting) / 1e9
    except (OSError, ValueError):
        return None
