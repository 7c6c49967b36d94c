"""What runs a forward: one interface for a virtual GPU and a real one.

``harness.forward.cuda_device`` is the real one.
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
        self._skipped = 0.0
        self._stopped: float | None = None

    def now(self) -> float:
        """Return the seconds since some moment, without those in which it was stopped."""
        return self._read() - self._skipped if self._stopped is None else self._stopped

    def spin_until(self, moment: float) -> float:
        """Keep the host busy until a moment, as CUDA does by default; return when that was seen."""
        while (now := self.now()) < moment:
            pass
        return now

    def stop(self) -> float:
        """Stop the time until ``resume``, unless it is stopped, and return it."""
        self._stopped = self.now()
        return self._stopped

    def resume(self) -> float:
        """Let the time go on from where it was stopped, and return it."""
        stopped = self.now()
        self._skipped, self._stopped = self._read() - stopped, None
        return stopped

    def stop_at(self, moment: float) -> float:
        """Keep the host busy until a moment, if that is still to come; stop the time; return it."""
        stopped = self.stop()
        if stopped < moment:
            self.resume()
            # As it was read: nothing that comes after the reading counts.
            stopped = self._stopped = self.spin_until(moment)
        return stopped


class RunningClock(HostClock):
    """The host's time beside a device that cannot be stopped: neither can it be."""

    def stop(self) -> float:
        """Return the time, which goes on."""
        return self.now()

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

    def wait(self, number: int) -> float:
        """Return once a forward is done, with the moment at which the host knew it.

        Where the clock can be stopped, it stands still from that moment on.
        """

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
        self._launched: list[tuple[float, float]] = []
        self._forwards: list[Forward] = []
        self._ends: list[float] = []
        self._began = 0.0

    def begin(self) -> None:
        """Forget what was, and note that the device has nothing to do from now on."""
        self._launched, self._forwards, self._ends = [], [], []
        self._began = self.clock.now()

    def launch(self, seconds: float) -> int:
        """Be busy for so many seconds, after what was launched before."""
        number, note = len(self._launched), self._launched.append
        # The clock last: what it does not see is no time of the launch's.
        note((seconds, self.clock.now()))
        return number

    def wait(self, number: int) -> float:
        """Return once a forward is done, and stop the time; what is done is not waited for."""
        self.clock.stop()
        self._run()
        return self.clock.stop_at(self._ends[number])

    def forwards(self) -> list[Forward]:
        """Return all forwards since ``begin``, once they are done."""
        self._run()
        if self._ends:
            self.clock.stop_at(self._ends[-1])
        return list(self._forwards)

    def _run(self) -> None:
        """Work out when what was launched since begins and ends."""
        for seconds, moment in self._launched[len(self._ends) :]:
            free = self._ends[-1] if self._ends else self._began
            start = max(free, moment)
            self._forwards.append(Forward(start - free, seconds))
            self._ends.append(start + seconds)
