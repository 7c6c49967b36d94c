"""What runs a forward: one interface for a virtual GPU and a real one.

``harness.cuda_device`` is the real one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Forward:
    """One forward as the device saw it.

    Attributes:
        idle: seconds before it in which the device had nothing to do: the host's exposed time.
        busy: seconds that it ran.
    """

    idle: float
    busy: float


class HostClock:
    """The host's time, which stands still while something is done that does not belong to it.

    Args:
        read: seconds since some moment.
    """

    def __init__(self, read: Callable[[], float] = time.perf_counter) -> None:
        self._read = read
        self._skipped = self._stopped = 0.0

    def now(self) -> float:
        """Return the seconds since some moment, without those in which it was stopped."""
        return self._read() - self._skipped

    def spin_until(self, moment: float) -> None:
        """Keep the host busy until a moment of this clock, as CUDA does by default."""
        while self.now() < moment:
            pass

    def stop(self) -> float:
        """Stop the time until ``resume``, and return it."""
        self._stopped = self.now()
        return self._stopped

    def resume(self) -> float:
        """Let the time go on from where it was stopped, and return it."""
        self._skipped = self._read() - self._stopped
        return self._stopped


class RunningClock(HostClock):
    """The host's time beside a device that cannot be stopped: neither can it be."""

    def resume(self) -> float:
        """Return the time, which went on."""
        return self.now()


class Device(Protocol):
    """Runs one forward after the other, in the order in which they were launched.

    Attributes:
        clock: the host's time beside it.
    """

    clock: HostClock

    def begin(self) -> None:
        """Forget what was, and note that the device has nothing to do from now on."""

    def launch(self, seconds: float) -> int:
        """Hand a forward over, and return its number at once.

        Args:
            seconds: how long it takes, where that is not the device's own affair.
        """

    def wait(self, number: int) -> None:
        """Return once a forward is done."""

    def forwards(self) -> list[Forward]:
        """Return all forwards since ``begin``, once they are done."""


class SimulatedDevice:
    """A GPU that is busy until a time, and costs the host nothing.

    The loop around it is real, and really timed. Its time stops with the host's.

    Args:
        clock: the host's time.
    """

    def __init__(self, clock: HostClock | None = None) -> None:
        self.clock = clock or HostClock()
        self._forwards: list[Forward] = []
        self._ends: list[float] = []
        self._free = 0.0

    def begin(self) -> None:
        """Forget what was, and note that the device has nothing to do from now on."""
        self._forwards, self._ends = [], []
        self._free = self.clock.now()

    def launch(self, seconds: float) -> int:
        """Be busy for so many seconds, after what was launched before."""
        start = max(self._free, self.clock.now())
        self._forwards.append(Forward(start - self._free, seconds))
        self._free = start + seconds
        self._ends.append(self._free)
        return len(self._ends) - 1

    def wait(self, number: int) -> None:
        """Return once a forward is done."""
        self.clock.spin_until(self._ends[number])

    def forwards(self) -> list[Forward]:
        """Return all forwards since ``begin``, once they are done."""
        self.clock.spin_until(self._free)
        return list(self._forwards)
