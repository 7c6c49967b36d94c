"""Continuous batching of a trace, by lengths alone.

No token exists here, so a trace of twenty thousand requests runs through in a fraction of a second.
The order is that of TensorRT-LLM's capacity and micro-batch schedulers with chunked context,
first come first served: generation requests first, then context chunks from what is left of the
token budget, each but the last of a prompt cut to whole blocks.
"""

import random
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate

from stepbench_core.errors import InputError

from .scenario import TraceReplay
from .traces import TraceRow

# Requests begin at this many different places of one drawn sequence of acceptances.
_PHASES = 1009


@dataclass
class Slot:
    """One request in the batch.

    Attributes:
        row: position of the request in the trace.
        prompt, output: its lengths in tokens.
        computed: prompt tokens whose KV is computed.
        chunk: prompt tokens scheduled in this iteration; 0 if the budget left none.
        began: first iteration of its generation phase.
    """

    row: int
    prompt: int
    output: int
    computed: int = 0
    chunk: int = 0
    began: int = 0


class ContinuousBatching:
    """The batch of one iteration after the other.

    Args:
        scenario: what to replay.
        rows: the requests of its trace.
        rng: draws what is accepted of draft tokens.

    Attributes:
        iteration: number of the current iteration, from 1.
        context: requests in their context phase by row, oldest first.
        generation: requests in their generation phase by row, in the order in which they began it.
        waiting: requests that have not joined yet.
        left: requests that left the batch so far.
    """

    def __init__(self, scenario: TraceReplay, rows: Sequence[TraceRow], rng: random.Random) -> None:
        self.iteration = 0
        self.context: dict[int, Slot] = {}
        self.generation: dict[int, Slot] = {}
        self.waiting = deque(enumerate(rows))
        self.left = 0
        self._scenario = scenario
        self._leaving: list[tuple[int, int]] = []  # A heap of (iteration, row).
        longest = max((row.output for row in rows), default=0)
        draft_tokens = scenario.draft_tokens
        gains = (1 + rng.randint(0, draft_tokens) for _ in range(longest + _PHASES))
        self._gained = [0, *accumulate(gains)]

    def step(self) -> None:
        """Move to the next iteration: account for the one before, admit requests, schedule."""
        self.iteration += 1
        self._finish_context()
        while self._leaving and self._leaving[0][0] == self.iteration:
            del self.generation[heappop(self._leaving)[1]]
            self.left += 1
        while self.waiting and len(self.context) + len(self.generation) < self._scenario.max_batch:
            row, lengths = self.waiting.popleft()
            self.context[row] = Slot(row, lengths.prompt, lengths.output)
        self._schedule_context()

    def known_tokens(self, slot: Slot) -> int:
        """Return how many generated tokens a sequence holds when this iteration's output is built.

        Args:
            slot: a request in its generation phase.
        """
        steps = self.iteration - slot.began - (1 if self._scenario.overlap else 0)
        return 0 if steps < 0 else 1 + self._gain(slot, steps)

    def _gain(self, slot: Slot, steps: int) -> int:
        phase = slot.row % _PHASES
        return self._gained[phase + steps] - self._gained[phase]

    def _finish_context(self) -> None:
        for row, slot in list(self.context.items()):
            slot.computed += slot.chunk
            slot.chunk = 0
            if slot.computed == slot.prompt:
                del self.context[row]
                self._begin_generation(slot)

    def _begin_generation(self, slot: Slot) -> None:
        """The last context chunk gave the first token; later iterations give the others."""
        if slot.output <= 1:
            self.left += 1
            return
        slot.began = self.iteration
        self.generation[slot.row] = slot
        phase = slot.row % _PHASES
        end = bisect_left(self._gained, self._gained[phase] + slot.output - 1)
        heappush(self._leaving, (self.iteration + end - phase, slot.row))

    def _schedule_context(self) -> None:
        generation = len(self.generation) * (1 + self._scenario.draft_tokens)
        budget = self._scenario.max_num_tokens - generation
        for slot in self.context.values():
            remaining = slot.prompt - slot.computed
            chunk = min(remaining, budget)
            if chunk < remaining:
                chunk -= chunk % self._scenario.tokens_per_block
            slot.chunk = chunk
            budget -= chunk


def fast_forward(
    scenario: TraceReplay, rows: Sequence[TraceRow], iterations: int, seed: str
) -> ContinuousBatching:
    """Return the batch right before ``iterations`` drawn from the steady part of the trace.

    The steady part begins once as many requests have left as the batch holds, so that its
    requests are spread over their lives, and ends with the last request that joins.

    Args:
        scenario: what to replay.
        rows: the requests of its trace.
        iterations: length of the stretch wanted.
        seed: draws the stretch, and what is accepted of draft tokens.

    Raises:
        InputError: the steady part is shorter than ``iterations``.
    """
    batching = ContinuousBatching(scenario, rows, random.Random(seed))
    begin = 0
    while batching.waiting:
        batching.step()
        if batching.left < scenario.max_batch:
            begin = batching.iteration
    steady = batching.iteration - begin
    if steady < iterations:
        raise InputError(
            f"{scenario.path}: its {len(rows):,} requests keep a batch of {scenario.max_batch} "
            f"steady for {steady:,} iterations, but {iterations:,} are wanted: "
            "use a smaller --max-batch or a longer trace"
        )
    start = begin + random.Random(f"start {seed}").randint(0, steady - iterations)
    batching = ContinuousBatching(scenario, rows, random.Random(seed))
    while batching.iteration < start:
        batching.step()
    return batching
