"""The innermost step: one timed iteration; and what is noted about all of them."""

import time
from collections.abc import Callable, Sequence
from itertools import accumulate

from harness.arms.registry import SchedulerOutputManager
from harness.system.background import Background
from scenarios.workload import Workload, batch_shape

from .plan import SETTLING


class Sampler:
    """The time function that pyperf calls once a value.

    Args:
        workload: what is scheduled.
        arm: the implementation under test.
        clock: seconds since some moment.
        background: watches what calls leave to others, made before the arm.
        warmups: how many of the first values are warm-up.
        rounds: the lengths of the rounds; before each, and after the last, ``wait`` is called. A
            round begins with a few calls that are not timed.
        wait: waits for the next turn.

    Attributes:
        shapes: number of requests and of their tokens in each iteration so far, warm-up included.
        left: CPU seconds that each call left to other threads and child processes, likewise.
    """

    def __init__(
        self,
        workload: Workload,
        arm: SchedulerOutputManager,
        clock: Callable[[], float] = time.perf_counter,
        background: Background | None = None,
        warmups: int = 0,
        rounds: Sequence[int] = (),
        wait: Callable[[], object] = lambda: None,
    ) -> None:
        self.shapes: list[tuple[int, int]] = []
        self.left: list[float] = []
        self._background = background or Background()
        self._warmups = warmups
        self._wait = wait
        # How many values are there when the turns of this process begin, and when the last ends.
        self._pauses = set(accumulate((warmups, *rounds), initial=0)) if rounds else set[int]()
        self._end = warmups + sum(rounds)
        self._workload = workload
        self._build = arm.build_scheduler_output
        self._prepare = getattr(arm, "prepare", None)  # The floor's, which is no arm.
        self._clock = clock

    def __call__(self, loops: int) -> float:
        """Advance the workload, time one call of the measured path, return its seconds."""
        if loops != 1:
            raise ValueError(f"a value is one iteration, not {loops}")
        if len(self.shapes) in self._pauses:
            self._wait()
            if len(self.shapes) >= self._warmups:
                for _ in range(SETTLING):
                    self._call()
        self._watch()
        seconds, left = self._call()
        self.left.append(left)
        self.shapes.append(batch_shape(self._workload.batch))
        if len(self.shapes) == self._end:
            # What comes now is no measuring, and others still do.
            self._wait()
        return seconds

    def _call(self) -> tuple[float, float]:
        """Return the seconds of the next call, and what it left to others in CPU seconds."""
        self._workload.advance()
        build, clock = self._build, self._clock
        batch, manager = self._workload.batch, self._workload.manager
        async_requests = self._workload.async_requests
        if self._prepare is not None:
            self._prepare(batch, async_requests, manager)
        self._background.begin()
        start = clock()
        output = build(batch, async_requests, manager)
        end = clock()
        left = self._background.end(end - start)
        # Freed after the second reading: the engine, too, hands the output on before it dies.
        del output
        return end - start, left

    def _watch(self) -> None:
        """Find out after the warm-up whether calls leave work to others, and later if they do."""
        if len(self.shapes) == self._warmups:
            self._background.look()
        elif len(self.shapes) > self._warmups:
            self._background.watch()


def shape_notes(shapes: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Return what a run notes about its timed iterations: mean requests, tokens per request.

    Args:
        shapes: number of requests and of their tokens in each of them.
    """
    lengths = [tokens / requests for requests, tokens in shapes if requests]
    return {
        "stepbench_requests_mean": sum(requests for requests, _ in shapes) / len(shapes),
        "stepbench_tokens_first": lengths[0],
        "stepbench_tokens_last": lengths[-1],
        "stepbench_tokens_mean": sum(lengths) / len(lengths),
    }
