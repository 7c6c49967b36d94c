"""The executor's loop around the measured path, in the order of either scheduler.

Without overlap: update the requests, build the output, launch the forward, wait for it. With the
overlap scheduler: build the output of *n*, launch *n*, then wait for *n - 1* and update the
requests with its tokens, so that the output of *n* does not know them yet (TensorRT-LLM's
``PyExecutor``, ``_executor_loop`` and ``_executor_loop_overlap``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.arms.registry import SchedulerOutputManager
from harness.forward.devices import Device, HostClock
from harness.system.background import Background
from harness.system.kernel_files import read_text
from scenarios.workload import Workload
from stubs.batch import ScheduledRequests

_CACHES = Path("/sys/devices/system/cpu")
# Bytes that a sweep passes over where the caches are not known.
_SWEPT = 64 * 2**20
_UNITS = {"K": 2**10, "M": 2**20}
# Iterations after which is looked whether somebody is there to whom the path leaves work.
_WATCHED = 3


@dataclass(frozen=True)
class Iteration:
    """One iteration; all times in seconds.

    Attributes:
        between: from the moment at which the host knew that the forward before was done to the
            path: what the stand-ins do and the sweep. 0 where the clock stands still meanwhile.
        path: the measured path.
        background: CPU time that the path left to other threads and child processes. It competes
            for the interpreter lock, and is taken as if the host did it itself.
        other: other host work before the launch.
        launch: handing the forward over.
        forward: how long the forward ran.
        exposed: how long the device had nothing to do before it.
        step: from the moment at which the host knew that the forward before was done to the moment
            at which it knew that of this one.
    """

    between: float
    path: float
    background: float
    other: float
    launch: float
    forward: float
    exposed: float
    step: float

    @property
    def host(self) -> float:
        """All host time before the launch, and the launch."""
        return self.between + self.path + self.background + self.other + self.launch


class Sweep:
    """Passes over so much memory that caches of half of its size hold little of what was before.

    Args:
        size: bytes of the memory.
    """

    def __init__(self, size: int) -> None:
        half = size // 2
        self._one, self._other = bytearray(half), bytearray(half)

    def __call__(self) -> None:
        """Read and write all of it once."""
        self._other[:] = self._one
        self._one[:] = self._other


def sweep_size(cpu: int | None, folder: Path = _CACHES) -> int:
    """Return how many bytes to sweep: twice the largest cache of a core, 64 MiB if not known.

    Args:
        cpu: the core; None for the first one.
        folder: where the kernel describes the cores.
    """
    texts = map(read_text, folder.glob(f"cpu{cpu or 0}/cache/index*/size"))
    found = [re.fullmatch(r"(\d+)([KM])", text or "") for text in texts]
    sizes = [int(each[1]) * _UNITS[each[2]] for each in found if each is not None]
    return 2 * max(sizes) if sizes else _SWEPT


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
    background: Background | None = None,
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
        background: watches what the path leaves to others, made before the arm.
    """
    watch = background or Background()
    clock = device.clock
    build = arm.build_scheduler_output
    host: list[tuple[float, float, float, float, float]] = []
    output: object = None
    device.begin()
    moment = clock.stop()
    known = [moment]
    for number in range(iterations):
        # The stand-ins' part, and what the figures need: no work of the engine's. Where that is
        # possible the clock stands still from what the host came to know until here.
        output = None
        workload.advance()
        batch, manager = workload.batch, workload.manager
        async_requests = workload.async_requests
        seconds = forward(batch)
        if sweep is not None:
            sweep()
        if number == _WATCHED:
            watch.look()
        elif number > _WATCHED:
            watch.watch()
        watch.begin()
        start = clock.resume()
        output = build(batch, async_requests, manager)
        built = done = clock.now()
        if watch.is_there:
            done = _with_background(clock, watch, start, built)
        if other_host:
            clock.spin_until(done + other_host)
        ready = clock.now()
        device.launch(seconds)
        launched = clock.stop()
        times = start - moment, built - start, done - built, ready - done, launched - ready
        moment = launched
        if number or not overlap:
            moment = device.wait(number - overlap)
            known.append(moment)
        host.append(times)
    del output
    if overlap and iterations:
        known.append(device.wait(iterations - 1))
    return [
        Iteration(
            between=between,
            path=path,
            background=beside,
            other=other,
            launch=launch,
            forward=each.busy,
            exposed=each.idle,
            step=after - earlier,
        )
        for (between, path, beside, other, launch), each, earlier, after in zip(
            host, device.forwards(), known, known[1:], strict=False
        )
    ]


def _with_background(clock: HostClock, background: Background, start: float, built: float) -> float:
    """Wait for what a call left to others, and let the host's time go on by as much as it took.

    Returns the moment at which that is over.
    """
    clock.stop()
    left = background.end(built - start)
    clock.resume()
    # Where the clock cannot be stopped, it has gone on by more than that.
    return clock.spin_until(built + left) if left else built
