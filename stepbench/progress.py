"""Progress on stderr: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from harness.speedup.isolated import Event
from harness.speedup.plan import Plan
from harness.speedup.schedule import Schedule
from reports.render.numbers import format_share
from reports.render.words import counted

from .messages import say

_SECONDS_BETWEEN_LINES = 10.0


class _ShownProgress:
    """What the two kinds have in common: a bar on a terminal, elsewhere a line now and then.

    Args:
        description: what stands before the bar.
        total: number of things to be done.
        rest: the column that says how long the rest will take; it may show the field ``left``.
        quiet: show nothing.
    """

    def __init__(self, description: str, total: int, rest: ProgressColumn, *, quiet: bool) -> None:
        self._total = total
        self._started = self._last_line = time.monotonic()
        console = Console(stderr=True)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            rest,
            console=console,
            transient=True,
            # By us: its own thread would be counted where work is counted.
            auto_refresh=False,
            disable=quiet or not console.is_terminal,
        )
        self._lines = not quiet and not console.is_terminal
        self._task = self._bar.add_task(description, total=total, left="")

    def __enter__(self) -> Self:
        # Older versions of rich print something even if the bar is not shown.
        if not self._bar.disable:
            self._bar.start()
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if not self._bar.disable:
            self._bar.stop()

    def _tell_now_and_then(self, line: Callable[[], str]) -> None:
        now = time.monotonic()
        if self._lines and now - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = now
            say(line())


class CountingProgress(_ShownProgress):
    """Counts things of a known number.

    Args:
        total: their number.
        what: what they are, in the plural.
        quiet: show nothing.
    """

    def __init__(self, total: int, what: str, *, quiet: bool) -> None:
        super().__init__(what, total, TimeRemainingColumn(), quiet=quiet)
        self._what = what
        self._done = 0

    def describe(self, what: str) -> None:
        """Show what is being done beside the bar."""
        self._bar.update(self._task, description=what, refresh=True)

    def add(self, count: int) -> None:
        """Note that ``count`` more are done."""
        self._done += count
        self._bar.update(self._task, completed=self._done, refresh=True)
        self._tell_now_and_then(self._line)

    def _line(self) -> str:
        spent = time.monotonic() - self._started
        left = spent * (self._total - self._done) / self._done
        return f"{self._done:,} of {self._total:,} {self._what} done, about {left:.0f} s left"


class MeasuringProgress(_ShownProgress):
    """Shows which cell is measured, how many are done and how long the rest will take.

    Args:
        plan: what is measured.
        schedule: what is left of it.
        quiet: show nothing.
    """

    def __init__(self, plan: Plan, schedule: Schedule, *, quiet: bool) -> None:
        column = TextColumn("{task.fields[left]}")
        super().__init__("starting", len(plan.scenarios), column, quiet=quiet)
        self._plan = plan
        self._schedule = schedule

    def __enter__(self) -> Self:
        super().__enter__()
        if self._lines:
            say(self._first_line())
        return self

    def show(self, event: Event) -> None:
        """Take in an event of ``harness.speedup.isolated.measure``."""
        for error in event.errors.values():
            self._print(str(error))  # Even if quiet: this is no progress.
        first = event.jobs[0]
        what = f"{first.scenario.name}, process {first.process + 1}"
        done, left = self._schedule.done(), self._left()
        self._bar.update(self._task, description=what, completed=done, left=left, refresh=True)
        words = f"{done} of {self._total} cells {self._goal()}"
        self._tell_now_and_then(lambda: ", ".join(filter(None, (words, left))))

    def _first_line(self) -> str:
        count = counted(self._total, "cell")
        processes = counted(self._plan.protocol.processes, "process")
        if self._plan.precision is None:
            return f"{count}, {processes} of each arm"
        return (
            f"{count}, at least {processes} of each arm, until ratios are within "
            f"±{format_share(self._plan.precision)} or {self._plan.seconds:.0f} s are over"
        )

    def _goal(self) -> str:
        precision = self._plan.precision
        return "done" if precision is None else f"within ±{format_share(precision)}"

    def _left(self) -> str:
        seconds = self._schedule.left()
        if not seconds:
            return ""
        most = "about" if self._plan.precision is None else "at most about"
        minutes, rest = divmod(round(seconds), 60)
        return f"{most} {minutes} min {rest:02} s left" if minutes else f"{most} {rest} s left"

    def _print(self, line: str) -> None:
        if self._bar.disable:
            say(line)
        else:
            self._bar.console.print(f"stepbench: {line}", markup=False, highlight=False)
