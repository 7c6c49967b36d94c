"""Workers that measure in turns: all alive at once on one core, and one at a time goes.

What the machine does for a second or two, such as to run at half its speed, falls on all of them
alike. A worker waits, outside what it times, until it is let go; then it has the core and its
caches to itself, for as long as its turn takes.

A worker's standard input is a socket. The first line is its job. Then it says with a byte that it
waits, at first when it is set up, and is answered with one that lets it go, or that ends its turns.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait

from stepbench_core.errors import WorkerError

from .worker_process import Child, Worker, started_worker

_WAITS, _GO, _END = b".", b"g", b"e"


class Turns:
    """A worker's end: how it waits for its turn.

    Args:
        channel: the socket to whoever gives the turns.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def wait(self) -> bool:
        """Say that the turn is over, and wait for the next; return whether there is one.

        Ends this process if nobody is there any more who could give one.
        """
        try:
            self._channel.sendall(_WAITS)
            said = self._channel.recv(1)
        except OSError:
            said = b""
        if not said:
            os._exit(1)
        return said == _GO


def take_job() -> tuple[str, Turns]:
    """Return the job of this worker and how it waits for its turns.

    Standard input is empty from here on: what the measured code reads there is not meant for it.
    """
    channel = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    job = bytearray()
    # Only turns follow, and none before it is asked for.
    while not job.endswith(b"\n"):
        part = channel.recv(1 << 16)
        if not part:
            os._exit(1)
        job += part
    return job.decode(), Turns(channel)


def run_in_turns(
    children: Sequence[Child], orders: Iterable[Sequence[int]], limit: float
) -> list[str | WorkerError]:
    """Run workers that take turns; return what each printed, or why it gave no result.

    One that dies or hangs has no turns any more. The others go on.

    Args:
        children: the workers. The text of each, one line, is its job.
        orders: numbers of workers in the order of their turns, one sequence after the other: the
            next is asked for when the turns of the last are over.
        limit: seconds that a worker may take to be set up, and for a turn.

    Raises:
        NotRunnableError: a worker met what is not here.
    """
    with contextlib.ExitStack() as stack:
        players = []
        for child in children:  # One is set up after the other: they share a core.
            players.append(stack.enter_context(_Player.started(child)))
            players[-1].hear(limit)
        for order in orders:
            for index in order:
                players[index].take_turn(limit)
        for player in players:
            player.end(limit)
        return [player.outcome for player in players if player.outcome is not None]


def turn_orders(count: int, seed: str) -> Iterator[list[int]]:
    """Yield orders of so many workers for ever, random and balanced; see ``balanced_orders``."""
    rng = random.Random(seed)
    while True:
        yield from balanced_orders(count, rng)


def balanced_orders(count: int, rng: random.Random) -> list[list[int]]:
    """Return orders of so many arms in random turn: as many as there are, or twice if odd.

    In them each arm has each place as often, and runs right after each other one as often: what a
    place is worth, and what an arm leaves in the caches, falls on all alike (Williams,
    "Experimental designs balanced for the estimation of residual effects of treatments", 1949).
    """
    arms = rng.sample(range(count), count)
    zigzag = [step // 2 + 1 if step % 2 else -(step // 2) for step in range(count)]
    orders = [[arms[(place + turn) % count] for place in zigzag] for turn in range(count)]
    if count % 2:
        orders += [order[::-1] for order in orders]
    rng.shuffle(orders)
    return orders


@dataclass
class _Player:
    """A worker that takes turns, as seen from here.

    Attributes:
        worker: the worker.
        channel: the socket to it.
        stack: ends it.
        outcome: what it printed, or why it gave no result; None while it takes part.
    """

    worker: Worker
    channel: socket.socket
    stack: contextlib.ExitStack
    outcome: str | WorkerError | None = None

    @staticmethod
    @contextlib.contextmanager
    def started(child: Child) -> Iterator[_Player]:
        """Start a worker, and send it its job. At the end it is killed."""
        with contextlib.ExitStack() as stack:
            near, far = socket.socketpair()
            stack.enter_context(near)
            with far:
                worker = stack.enter_context(started_worker(child, far))
            with contextlib.suppress(OSError):  # That it died shows when it should answer.
                near.sendall(child.text.encode() + b"\n")
            yield _Player(worker, near, stack)

    def take_turn(self, limit: float) -> None:
        """Let it go, and return when it waits again."""
        if self.outcome is None:
            with contextlib.suppress(OSError):
                self.channel.sendall(_GO)
            self.hear(limit)

    def hear(self, limit: float) -> None:
        """Return when it waits for its turn, or takes no part any more."""
        ready = wait([self.channel, self.worker.kept.lifeline], limit)
        if not ready:
            self._leave(self.worker.hung(limit))
        elif self.channel not in ready or not self._says_something():
            self._settle(limit)

    def end(self, limit: float) -> None:
        """Tell it that there are no turns any more, and return when it has ended."""
        if self.outcome is None:
            with contextlib.suppress(OSError):
                self.channel.sendall(_END)
            self._settle(limit)

    def _says_something(self) -> bool:
        try:
            return self.channel.recv(1) == _WAITS
        except OSError:
            return False

    def _settle(self, limit: float) -> None:
        """Wait for its end, and note what it printed or why it gave no result."""
        if not wait([self.worker.kept.lifeline], limit):
            self._leave(self.worker.hung(limit))
            return
        try:
            self._leave(self.worker.result())
        except WorkerError as error:
            self._leave(error)

    def _leave(self, outcome: str | WorkerError) -> None:
        self.outcome = outcome
        self.stack.close()
