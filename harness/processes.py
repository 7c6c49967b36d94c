"""Work spread over processes."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from scenarios.errors import WorkerError

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
    pool = concurrent.futures.ProcessPoolExecutor(min(jobs, len(arguments)), context)
    try:
        for future in [pool.submit(task, *own) for own in arguments]:
            yield future.result()
    except BrokenProcessPool:
        raise WorkerError(f"a process of {task.__name__} was killed or died") from None
    finally:
        pool.shutdown(cancel_futures=True)
