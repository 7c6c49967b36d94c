"""Continuous batching: what each step computes, under a budget of tokens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .pool import BlockPool, OutOfBlocksError
from .request import Request


@dataclass
class Output:
    """What a step computes.

    Attributes:
        tokens: how many tokens of each request, by its name.
        new: the blocks of requests that joined.
        grown: the blocks that others got.
        cached: how many tokens of requests that joined were in the cache.
        preempted: requests whose blocks were taken.
        finished: requests that left since the last step.
    """

    tokens: dict[str, int] = field(default_factory=dict)
    new: dict[str, list[int]] = field(default_factory=dict)
    grown: dict[str, list[int]] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)
    preempted: list[str] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)


class Scheduler:
    """Decides which tokens of which requests a step computes.

    Requests that run come first, in the order in which they joined; what they leave of the budget
    goes to those that wait. Where blocks run out, the request that joined last gives its own.

    Args:
        pool: the blocks.
        budget: tokens that a step computes at most.
        batch: requests that run at once at most.
    """

    def __init__(self, pool: BlockPool, budget: int = 2048, batch: int = 256) -> None:
        self._pool = pool
        self._budget = budget
        self._batch = batch
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._finished: list[str] = []
        self._planned: dict[str, int] = {}

    @property
    def running(self) -> list[str]:
        """The names of the requests that run."""
        return [request.name for request in self._running]

    def add(self, request: Request) -> None:
        """Have a request wait for its turn."""
        self._waiting.append(request)

    def schedule(self) -> Output:
        """Return what the next step computes."""
        output = Output(finished=self._finished)
        self._finished = []
        left = self._budget
        place = 0
        while place < len(self._running) and left:
            request = self._running[place]
            count = min(len(request.tokens) - request.computed, left)
            if count and self._has_room(request, count, output):
                output.tokens[request.name] = count
                left -= count
            # Whoever gave its blocks is no longer in the list.
            place += place < len(self._running) and self._running[place] is request
        if not output.preempted:
            self._admit(output, left)
        self._planned = output.tokens
        return output

    def update(self, sampled: dict[str, int]) -> None:
        """Take in what the step computed.

        Args:
            sampled: the next token of each request whose tokens are all computed.
        """
        staying = []
        for request in self._running:
            count = self._planned.get(request.name, 0)
            before = request.computed
            request.computed += count
            self._pool.publish(request, before)
            if count and request.computed == len(request.tokens):
                request.tokens.append(sampled[request.name])
            if request.is_done:
                self._pool.release(request)
                self._finished.append(request.name)
            else:
                staying.append(request)
        self._running = staying
        self._planned = {}

    def _has_room(self, request: Request, count: int, output: Output) -> bool:
        """Give a running request blocks for more tokens, at the expense of the last ones."""
        while True:
            try:
                new = self._pool.grow(request, request.computed + count)
            except OutOfBlocksError:
                last = self._running[-1]
                self._preempt(last, output)
                if last is request:
                    return False
                continue
            if new:
                output.grown[request.name] = new
            return True

    def _preempt(self, request: Request, output: Output) -> None:
        """Take a request's blocks. It computes all anew when it joins again."""
        self._running.remove(request)
        self._pool.release(request)
        output.tokens.pop(request.name, None)
        output.grown.pop(request.name, None)
        output.preempted.append(request.name)
        self._waiting.appendleft(request)

    def _admit(self, output: Output, left: int) -> None:
        """Let those join that wait, as far as budget and blocks go."""
        while self._waiting and left and len(self._running) < self._batch:
            request = self._waiting[0]
            self._pool.take_over(request)
            cached = request.computed
            count = min(len(request.tokens) - cached, left)
            if self._pool.missing(request, cached + count) > self._pool.available:
                self._pool.release(request)
                return
            self._waiting.popleft()
            self._pool.grow(request, cached + count)
            output.new[request.name] = list(request.blocks)
            output.cached[request.name] = cached
            output.tokens[request.name] = count
            left -= count
            self._running.append(request)
