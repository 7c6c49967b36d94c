"""A host and a device whose time passes only when a test says so, and what runs on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from connector.data import SchedulerOutput
from harness.forward.devices import HostClock, SimulatedDevice
from stubs.batch import AsyncRequests, ScheduledRequests

# Sums and differences of multiples of it are exact.
TICK = 2.0**-10


class FakeClock(HostClock):
    """A clock that moves only where something is waited for or done."""

    def __init__(self) -> None:
        super().__init__(lambda: self.time)
        self.time = 0.0

    def spin_until(self, moment: float) -> float:
        self.time = max(self.time, moment + self._skipped)
        return self.now()

    def work(self, seconds: float) -> None:
        self.time += seconds


class CostlyClock(HostClock):
    """A clock of which each reading takes a time, half of it before the moment that it gives."""

    def __init__(self, cost: float) -> None:
        super().__init__(self._take)
        self.time = 0.0
        self._cost = cost

    def work(self, seconds: float) -> None:
        self.time += seconds

    def _take(self) -> float:
        moment = self.time + self._cost / 2
        self.time += self._cost
        return moment


class CostlyLaunch(SimulatedDevice):
    """A virtual GPU whose launch costs the host something."""

    def __init__(self, clock: FakeClock, cost: float = 0.0) -> None:
        super().__init__(clock)
        self._fake, self._cost = clock, cost

    def launch(self, seconds: float) -> int:
        self._fake.work(self._cost)
        return super().launch(seconds)


class FakeWorkload:
    """Moves on by taking a time that is the stand-ins' own."""

    def __init__(self, clock: FakeClock | CostlyClock, cost: float = 0.0) -> None:
        self.manager: Any = None
        self.batch = ScheduledRequests()
        self.async_requests = AsyncRequests()
        self.advanced = 0
        self._clock, self._cost = clock, cost

    def advance(self) -> None:
        self.advanced += 1
        self._clock.work(self._cost)


class FakeArm:
    """Takes a time for each output: one for all, or one after the other."""

    def __init__(self, clock: FakeClock | CostlyClock, costs: float | Sequence[float]) -> None:
        self._clock = clock
        self._costs = costs
        self.built = 0

    def build_scheduler_output(self, *_: object) -> SchedulerOutput:
        cost = self._costs if isinstance(self._costs, float) else self._costs[self.built]
        self._clock.work(cost)
        self.built += 1
        return SchedulerOutput()

    def record_new_matched_tokens(self, *_: object) -> None:
        raise NotImplementedError

    def reset_request(self, _request_id: int) -> None:
        raise NotImplementedError


def always(seconds: float) -> Callable[[ScheduledRequests], float]:
    return lambda _batch: seconds
