"""The executor's loop around the measured path, in the order of either scheduler.

Without overlap: update the requests, build the output, launch the forward, wait for it. With the
overlap scheduler: build the output of *n*, launch *n*, then wait for *n - 1* and update the
requests with its tokens, so that the output of *n* does not know them yet (TensorRT-LLM's
``PyExecutor``, ``_executor_loop`` and ``_executor_loop_overlap``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scenarios.workload import Workload
from stubs.batch import ScheduledRequests

from .arms import SchedulerOutputManager
from .devices import Device

# Bytes that a sweep reads, and writes as many: more than what a core's share of the caches holds.
_SWEPT = 32 * 2**20


@dataclass(frozen=True)
class Iteration:
    """One iteration; all times in seconds.

    Attributes:
        between: from the end of the forward before to the path, as far as the clock ran.
        path: the measured path.
        other: other host work before the launch.
        launch: handing the forward over.
        forward: how long the forward ran.
        exposed: how long the device had nothing to do before it.
        step: from the moment at which the host knew that the forward before was done to the moment
            at which it knew that of this one.
    """

    between: float
    path: float
    other: float
    launch: float
    forward: float
    exposed: float
    step: float

    @property
    def host(self) -> float:
        """All host time before the launch, and the launch."""
        return self.between + self.path + self.other + self.launch


class Sweep:
    """Reads and writes so much memory that the caches hold nothing of what was before."""

    def __init__(self, size: int = _SWEPT) -> None:
        self._from, self._to = bytearray(size), bytearray(size)

    def __call__(self) -> None:
        """Sweep once."""
        self._to[:] = self._from


def run_loop(
    device: Device,
    workload: Workload,
    arm: SchedulerOutputManager,
    forward: Callable[[ScheduledRequests], float],
    *,
    overlap: bool,
    iterations: int,
    other_host: float = 0.0,
    sweep: Callable[[], None] | None = None,
) -> list[Iteration]:
    """Run the loop and return its iterations.

    The first one fills an empty device; under overlap the step of the last one lacks the host time
    of a next one.

    Args:
        device: what runs the forwards.
        workload: what is scheduled, in the order of the same scheduler.
        arm: the implementation under test.
        forward: seconds that the forward of a batch takes, for a device that has to be told.
        overlap: whether in the order of the overlap scheduler.
        iterations: their number.
        other_host: seconds of other host work before each launch.
        sweep: called before each path, to have its caches cold.
    """
    clock = device.clock
    build = arm.build_scheduler_output
    host: list[tuple[float, float, float, float]] = []
    known: list[float] = []
    held: list[object] = []
    device.begin()
    known.append(clock.now())
    for number in range(iterations):
        before = clock.stop()
        # The stand-ins' part, and what the figures need: no work of the engine's.
        held.clear()
        workload.advance()
        batch, manager = workload.batch, workload.manager
        async_requests = workload.async_requests
        seconds = forward(batch)
        if sweep is not None:
            sweep()
        start = clock.resume()
        output = build(batch, async_requests, manager)
        built = clock.now()
        if other_host:
            clock.spin_until(built + other_host)
        ready = clock.now()
        device.launch(seconds)
        launched = clock.now()
        held.append(output)
        host.append((start - before, built - start, ready - built, launched - ready))
        if not overlap:
            device.wait(number)
            known.append(clock.now())
        elif number:
            device.wait(number - 1)
            known.append(clock.now())
    forwards = device.forwards()
    if overlap and iterations:
        known.append(clock.now())
    return [
        Iteration(*times, each.busy, each.idle, after - earlier)
        for times, each, earlier, after in zip(host, forwards, known, known[1:], strict=False)
    ]
