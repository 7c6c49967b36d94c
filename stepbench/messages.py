"""One line on stderr, which may have no reader any more."""

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator

from stepbench_core.errors import InputError


def say(message: str) -> None:
    """Print a line for the user on stderr. That nobody reads it is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        print(f"stepbench: {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def unread_is_fine() -> Iterator[None]:
    """Go on where the reader of stdout has gone: the exit code says what was found all the same."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()


def keep(write: Callable[[], None]) -> bool:
    """Write a file of samples; return whether that was possible, and say why it was not.

    What was found counts for more than where it should be kept.
    """
    try:
        write()
    except InputError as error:
        say(str(error))
        return False
    return True


def abandon_stdout() -> None:
    """Keep Python from complaining once more when it flushes stdout at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program() -> str:
    """Return how to call this program again: by its name, or by its path where that is not found.

    A session's environment, for one, is on nobody's PATH.
    """
    found = shutil.which("stepbench")
    called = sys.argv[0]
    if not os.path.exists(called) or (found and os.path.samefile(found, called)):  # noqa: PTH110, PTH121
        return "stepbench"
    return shlex.quote(os.path.relpath(called))
