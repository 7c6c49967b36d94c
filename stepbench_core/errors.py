"""The errors that end a command with one line on stderr."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class InputError(Exception):
    """What the user gave cannot be used: exit code 2. The message names what and where."""


@dataclass(frozen=True)
class Missing:
    """What an arm uses that is not here.

    Attributes:
        arm: the arm.
        uses: the dotted name of what it uses.
        file: the file that uses it.
        line: where in it; 0 where that is not known.
        library: the library that would have to be installed; empty where it is a matter of the
            stand-ins.
    """

    arm: str
    uses: str
    file: str = ""
    line: int = 0
    library: str = ""

    def __str__(self) -> str:
        """Return all of it in one line."""
        line = f" (line {self.line})" if self.line else ""
        why = ", for which there is no stand-in"
        if self.library and self.library == self.uses:
            why = f", which is not installed: pip install {self.library}"
        elif self.library:
            why = f" and needs {self.library}, which is not installed: pip install {self.library}"
        place = f"; see {self.file}:{self.line}" if self.line else ""
        return f"{self.arm}: cannot be run here: uses {self.uses}{line}{why}{place}"


class NotImportableError(InputError):
    """What the user gave raised something when it was imported: exit code 2, with its traceback."""

    def __init__(self, message: str, trace: str) -> None:
        # Both are arguments of the exception, so that it can be sent to another process.
        super().__init__(message, trace)
        self.trace = trace

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class NotRunnableError(InputError):
    """An arm uses what is not here: exit code 2, and nothing is said about its outputs.

    Attributes:
        missing: what it is, where that is known.
    """

    def __init__(self, message: object) -> None:
        super().__init__(message)
        self.missing = message if isinstance(message, Missing) else None


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
