"""Work spread over processes."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

from stepbench_core.errors import LostWorkerError, WorkerError

from .worker_process import OUTSIDE, child_environment, module_command, started

R = TypeVar("R")

# Seconds without any result after which code from elsewhere counts as hanging.
FOREIGN_LIMIT = 120.0
# How long a process may take to end once its work is done.
_SECONDS_TO_END = 5.0
# The same in all processes: a call gives the same wherever it is made.
_HASH_SEED = 1
_COMMAND = module_command("harness.system.pool_worker")


def spread(
    task: Callable[..., R],
    arguments: Sequence[tuple[Any, ...]],
    jobs: int,
    *,
    limit: float | None = None,
    describe: Callable[..., str] | None = None,
) -> Iterator[R]:
    """Yield what ``task`` returns for each of ``arguments``, in their order.

    Other processes hash alike, so that what they find is found again.

    Args:
        task: a function of a module.
        arguments: positional arguments of each call.
        jobs: processes to use; with 1, or for a single call, it is this one.
        limit: seconds that the next result may take. With it all calls are made in other processes,
            whose death or hanging is no harm to this one; without it a call may take for ever.
        describe: says in a message what a call with these arguments does.

    Raises:
        WorkerError: a process died or hung.
        LostWorkerError: one was killed from outside.
    """
    if limit is None and (jobs == 1 or len(arguments) <= 1):
        for own in arguments:
            with _unheard():
                result = task(*own)
            yield result
        return

    def who(number: int) -> str:
        what = f"{describe(*arguments[number])}: " if describe is not None else ""
        return f"{what}a process of {task.__name__}"

    with contextlib.ExitStack() as stack:
        helpers = [
            stack.enter_context(start_helper(task)) for _ in range(min(jobs, len(arguments)))
        ]
        idle, busy = list(helpers), dict[object, tuple[Helper, int]]()
        answers: dict[int, Callable[[], R]] = {}
        left = iter(range(len(arguments)))

        def hand_out() -> None:
            while idle and (number := next(left, None)) is not None:
                helper = idle.pop()
                helper.ask(arguments[number])
                busy[helper.channel] = helper, number

        hand_out()
        for number in range(len(arguments)):
            # Those before it have ended, so it is running, and not waiting its turn.
            end = None if limit is None else time.monotonic() + limit
            while number not in answers:
                seconds = None if end is None else max(0.0, end - time.monotonic())
                ready = wait([helper.channel for helper, _ in busy.values()], seconds)
                if not ready:
                    raise WorkerError(f"{who(number)} hung: no result in {limit:g} s")
                for channel in ready:
                    helper, answered = busy.pop(channel)
                    answers[answered] = helper.answer(who(answered))
                    idle.append(helper)
                hand_out()
            yield answers.pop(number)()
        for helper in helpers:
            helper.let_go()


@contextlib.contextmanager
def aside(
    task: Callable[..., R], first: tuple[Any, ...]
) -> Iterator[Callable[[Sequence[tuple[Any, ...]]], list[R]]]:
    """Have another process call a task, and yield what hands it the calls that matter.

    What takes long to import is imported there, while this process does something else. At the end
    the process is killed: whatever it still imports is of no use.

    Args:
        task: a function of a module.
        first: positional arguments of a call that is made at once, for what it imports.

    Raises:
        WorkerError: the process died.
    """
    who = f"a process of {task.__name__}"
    with start_helper(task) as helper:
        helper.ask(first)
        outstanding = [helper]

        def call(arguments: Sequence[tuple[Any, ...]]) -> list[R]:
            while outstanding:
                outstanding.pop().answer(who)
            found = []
            for own in arguments:
                helper.ask(own)
                found.append(helper.answer(who)())
            return found

        yield call


@dataclass(frozen=True)
class Helper:
    """A process that calls ``task``, one call after the other.

    Attributes:
        task: what it calls.
        channel: how to talk with it.
        process: its keeper.
    """

    task: Callable[..., Any]
    channel: Connection
    process: subprocess.Popen[Any]

    def ask(self, arguments: tuple[Any, ...]) -> None:
        """Have it make a call. That it is dead shows when it should answer."""
        with contextlib.suppress(OSError):
            self.channel.send((self.task, arguments))

    def answer(self, who: str) -> Callable[[], Any]:
        """Wait for its answer; return what returns or raises what the call did.

        Raises:
            WorkerError: it is dead.
            LostWorkerError: it was killed from outside.
        """
        try:
            succeeded, found = self.channel.recv()
        except (EOFError, OSError):
            kind = LostWorkerError if -self.process.wait() in OUTSIDE else WorkerError
            raise kind(f"{who} was killed or died") from None

        def give() -> Any:  # noqa: ANN401
            if not succeeded:
                raise found
            return found

        return give

    def let_go(self) -> None:
        """Have it end by itself, which it may not be able to."""
        self.channel.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_SECONDS_TO_END)


@contextlib.contextmanager
def start_helper(task: Callable[..., Any]) -> Iterator[Helper]:
    """Start a process that calls a task; at the end it is killed."""
    near, far = socket.socketpair()
    with (
        far,
        Connection(near.detach()) as channel,
        started(
            _COMMAND,
            env=child_environment(_HASH_SEED),
            stdin=far,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as kept,
    ):
        far.close()
        with contextlib.suppress(OSError):
            channel.send(sys.path)
        yield Helper(task, channel, kept.process)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Do here what is done in another process: what the code prints goes nowhere."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield
