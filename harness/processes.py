"""Work spread over processes."""

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

from scenarios.errors import WorkerError, described

from .child import die_with_parent, fixed_hashes

R = TypeVar("R")

# Seconds without any result after which code from elsewhere counts as hanging.
FOREIGN_LIMIT = 120.0
# How long a process may take to end once its work is done.
_SECONDS_TO_END = 5.0


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
    """
    if limit is None and (jobs == 1 or len(arguments) <= 1):
        for own in arguments:
            with _unheard():
                result = task(*own)
            yield result
        return
    if not arguments:
        return
    # Spawned, not forked: this process may have threads, a progress bar's for one.
    context = multiprocessing.get_context("spawn")
    processes = min(jobs, len(arguments))
    pool = concurrent.futures.ProcessPoolExecutor(processes, context, initializer=_begin)
    what = ""
    try:
        with fixed_hashes():
            futures = [(own, pool.submit(_guarded, task, own)) for own in arguments]
        for own, future in futures:
            what = f"{describe(*own)}: " if describe is not None else ""
            # Those before it have ended, so it has been running since, and not waiting its turn.
            yield _result(future, limit, f"{what}a process of {task.__name__}")
    except BrokenProcessPool:
        # Of several processes it may have been another one, at something later.
        where = what if processes == 1 else ""
        raise WorkerError(f"{where}a process of {task.__name__} was killed or died") from None
    except BaseException:
        # Interrupted, or an error: what still runs is of no use, and may take long.
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        _end(pool)


@contextlib.contextmanager
def aside(
    task: Callable[..., R], first: tuple[Any, ...]
) -> Iterator[Callable[[Sequence[tuple[Any, ...]]], list[R]]]:
    """Have another process call a task, and yield what hands it the calls that matter.

    What takes long to import is imported there, while this process does something else.

    Args:
        task: a function of a module.
        first: positional arguments of a call that is made at once, for what it imports.

    Raises:
        WorkerError: the process died.
    """
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, initializer=_begin) as pool:
        pool.submit(task, *first)

        def call(arguments: Sequence[tuple[Any, ...]]) -> list[R]:
            return [future.result() for future in [pool.submit(task, *own) for own in arguments]]

        try:
            yield call
        except BrokenProcessPool:
            raise WorkerError(f"a process of {task.__name__} was killed or died") from None
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()  # Whatever it still imports is of no use.


def _result(future: concurrent.futures.Future[R], limit: float | None, who: str) -> R:
    concurrent.futures.wait([future], timeout=limit)
    if not future.done():
        raise WorkerError(f"{who} hung: no result in {limit:g} s")
    return future.result()


def _end(pool: concurrent.futures.ProcessPoolExecutor) -> None:
    """End the processes of a pool, also those that a thread of the code run there keeps alive."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.join(_SECONDS_TO_END)
        if process.is_alive():
            process.kill()
            process.join()


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Do here what ``_begin`` does in another process: what the code prints goes nowhere."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _guarded(task: Callable[..., R], own: tuple[Any, ...]) -> R:
    """Return what a task does; what it raises beyond exceptions is its own and nobody's signal."""
    try:
        return task(*own)
    except Exception:
        raise
    except BaseException as error:
        words = f"{task.__name__}: {described(error)}"
        raise WorkerError(words.removesuffix(": ")) from None


def _begin() -> None:
    """Leave an interruption to the process that waits for this one, and die with it.

    What the code that runs here prints must not mix with the result of the command.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
