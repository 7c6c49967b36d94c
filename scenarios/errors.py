"""The errors that end a command with one line on stderr."""

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """What the user gave cannot be used: exit code 2. The message names what and where."""


class NoBaselineError(Exception):
    """No baseline, a missing cell, another machine: nothing to compare with, exit code 4."""


class WorkerError(Exception):
    """The code in a worker process died, hung or returned nonsense: a finding, exit code 1."""


class LostWorkerError(WorkerError):
    """A worker was killed from outside, or could not start: it says nothing, exit code 2."""


class ArmError(WorkerError):
    """The measured code raised something: exit code 1, with its traceback above the message."""

    def __init__(self, message: str, trace: str) -> None:
        # Both are arguments of the exception, so that it can be sent to another process.
        super().__init__(message, trace)
        self.trace = trace

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Return the error for a ``name`` that is none of ``known``, with the nearest one if any."""
    known = list(known)
    nearest = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
    return InputError(f"unknown {kind} {name!r}: {hint}")


def described(error: BaseException) -> str:
    """Return the kind of an exception and what it says, as the last line of a traceback does."""
    return f"{type(error).__name__}: {error}"
