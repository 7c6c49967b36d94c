"""A process that makes the calls that it is sent, one after the other, and answers each.

``harness.system.pool`` starts it as ``python -m harness.system.pool_worker`` with a socket as its
standard input. What the code that runs here prints goes nowhere.
"""

import contextlib
import os
import pickle
import sys
from multiprocessing.connection import Connection

from stepbench_core.errors import WorkerError, described


def main() -> None:
    """Make calls until nobody sends any more."""
    channel = Connection(os.dup(sys.stdin.fileno()))
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    with contextlib.suppress(EOFError, OSError):
        # Modules are found here where they are found there.
        sys.path[:] = channel.recv()
        while True:
            channel.send_bytes(_answer(channel.recv_bytes()))
    # Whatever threads are left, nobody waits for them.
    os._exit(0)


def _answer(message: bytes) -> bytes:
    """Return whether a call succeeded, and what it returned or raised; pickled.

    What it raises beyond exceptions is its own and nobody's signal.
    """
    name = "a call"
    try:
        task, arguments = pickle.loads(message)  # noqa: S301 - from the process that started this
        name = task.__name__
        return pickle.dumps((True, task(*arguments)))
    except Exception as error:
        with contextlib.suppress(Exception):
            failure = pickle.dumps((False, error))
            pickle.loads(failure)  # noqa: S301 - not all that can be pickled can be read again
            return failure
        words = f"{name}: {described(error)}"
    except BaseException as error:
        words = f"{name}: {described(error)}"
    return pickle.dumps((False, WorkerError(words.removesuffix(": "))))


if __name__ == "__main__":
    main()
