"""Work spread over processes."""

import concurrent.futures
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from scenarios.errors import WorkerError

from .child import die_with_parent

R = TypeVar("R")


def spread(task: Callable[..., R], arguments: Sequence[tuple[Any, ...]], jobs: int) -> Iterator[R]:
    """Yield what ``task`` returns for each of ``arguments``, in their order.

    Args:
        task: a function of a module.
        arguments: positional arguments of each call.
        jobs: processes to use; with 1, or for a single call, it is this one.

    Raises:
        WorkerError: a process died.
    """
    if jobs == 1 or len(arguments) <= 1:
        for own in arguments:
            yield task(*own)
        return
    # Spawned, not forked: this process may have threads, a progress bar's for one.
    context = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(
        min(jobs, len(arguments)), context, initializer=_begin
    )
    try:
        for future in [pool.submit(task, *own) for own in arguments]:
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError(f"a process of {task.__name__} was killed or died") from None
    except BaseException:
        # Interrupted, or an error: what still runs is of no use, and may take long.
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave an interruption to the process that waits for this one, and die with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
