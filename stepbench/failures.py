"""What to say of an error that no command expects: of the machine, of a package, or our own.

Imports next to nothing of ours, so that it can speak where that cannot be imported, and little else
before it is needed, which it seldom is.
"""

import contextlib
import errno
import os
import re
import shlex
import sys
from collections.abc import Iterator

from . import __version__
from .module_path import OURS

# Environment variable with which a traceback goes to stderr instead of a file.
DEBUG = "STEPBENCH_DEBUG"

_MEMORY = "out of memory: take smaller cells, or raise the limit (ulimit -v, or the container's)"
_PROCESSES = (
    "no more processes or threads can be started here: raise the limit (ulimit -u, or the "
    "container's)"
)
_LIMITS = {
    errno.ENOMEM: _MEMORY,
    errno.EAGAIN: _PROCESSES,
    errno.EMFILE: "no more files can be opened here: raise the limit (ulimit -n)",
    errno.ENFILE: "no more files can be opened on this machine",
}
# What writing can fail with; nothing else that is done here without the name of a file can.
_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_LONGEST = 300


def explain(error: BaseException) -> str:
    """Return one line that says what stands in the way, and what to do about it."""
    known = _of_machine(error)
    if known is not None:
        return known
    try:
        return _of_packages(error) or _of_ours(error)
    except (OSError, ImportError, MemoryError) as another:  # There is not even room for that.
        return _of_machine(another) or _last(error)


def no_result(cell: str, error: Exception) -> str:
    """Return one line that says why a cell was not measured."""
    what = f"cell {cell}"
    if isinstance(error, OSError):
        return f"{what}: no worker can be started: {explain(error)}"
    said = str(error)
    return said if said.startswith(what) else f"{what}: {said}"


def _of_machine(error: BaseException) -> str | None:
    """Return what the system refuses, or None if an error is not of that kind."""
    if isinstance(error, MemoryError):
        return _MEMORY
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return _PROCESSES
    if not isinstance(error, OSError) or error.errno is None:
        return None
    if "usable temporary directory" in str(error):
        return "no folder for temporary files can be written: TMPDIR can name one"
    if error.errno in _LIMITS:
        return _LIMITS[error.errno]
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if error.errno in _OF_WRITING:
        return f"output: {error.strerror}"
    try:
        os.getcwd()  # noqa: PTH109
    except OSError as gone:
        return f"the working folder is gone ({gone.strerror}): change into one that is there"
    return None


def _of_packages(error: BaseException) -> str | None:
    """Return which package is missing, too old or broken, or None if it is none of that."""
    for name, least, found in _requirements():
        if isinstance(error, ModuleNotFoundError) and found is None:
            return f"the package {name} is missing: pip install '{name}>={least}'"
        if found is not None and _numbers(found) < _numbers(least):
            return f"{name} {found} is too old: stepbench needs {least} or newer ({_last(error)})"
    if not isinstance(error, ImportError):
        return None
    # As of NumPy, whose own message is an essay and no cause.
    cause = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    if "allocate memory" in str(cause) or "failed to map" in str(cause):
        return _MEMORY
    top = (error.name or "").partition(".")[0]
    if top in OURS:
        return None
    place = getattr(sys.modules.get(top), "__file__", None) or error.path or ""
    where = f" ({place})" if place else ""
    return f"{top or 'a package'}{where} cannot be used: {_last(cause)}"


def _requirements() -> Iterator[tuple[str, str, str | None]]:
    """Yield the packages that are needed: name, least version, and that which is there."""
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError):  # Run without being installed.
        for line in metadata.requires("stepbench") or ():
            needed = re.fullmatch(r"([\w-]+)>=([\d.]+)", line)  # Not those of extras.
            if needed is None:
                continue
            try:
                found = metadata.version(needed[1])
            except metadata.PackageNotFoundError:
                found = None
            yield needed[1], needed[2], found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _of_ours(error: BaseException) -> str:
    """Return what to report, after the traceback was kept where it can be found."""
    import traceback

    trace = "".join(traceback.format_exception(error))
    return (
        f"internal error: {_last(error)}; this is a bug in stepbench: please report it with "
        f"{_kept(trace)}"
    )


def _kept(trace: str) -> str:
    """Keep a traceback, and return in words where."""
    if os.environ.get(DEBUG):
        print(trace, file=sys.stderr, end="")
        return "the traceback above"
    import platform
    import tempfile

    head = (
        f"{shlex.join(sys.argv)}\nstepbench {__version__}, Python {platform.python_version()}, "
        f"{platform.platform()}\n\n"
    )
    try:
        number, name = tempfile.mkstemp(prefix="stepbench-error-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(head + trace)
    except OSError:
        return f"what it prints with {DEBUG}=1 in the environment"
    return name


def _last(error: BaseException) -> str:
    """Return the last line of a traceback: the kind of an error, and what it says."""
    said = " ".join(str(error).split())[:_LONGEST]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
