"""Reading what a user names, and writing files that are never half there."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from scenarios.errors import InputError

# One of the two escapes that stand for one character beyond the first 65,536; in a JSON text inside
# of another behind more than one backslash.
_HALF = re.compile(r"\\+u([dD][89a-fA-F])[0-9a-fA-F]{2}")


def write_atomically(path: Path, write: Callable[[IO[Any]], object], mode: str = "w") -> None:
    """Write a file so that ``path`` holds the old or the new one, whatever happens.

    Args:
        path: the file.
        write: writes what the file shall hold to an open one.
        mode: how that is opened: ``w`` for text, ``wb`` for bytes.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            mode,
            dir=path.parent,
            prefix=f".{path.name}.",
            delete=False,
            encoding=None if "b" in mode else "utf-8",
            # A name of a file need not be text.
            errors=None if "b" in mode else "backslashreplace",
        ) as file:
            temporary = Path(file.name)
            write(file)
            file.flush()
            os.fsync(file.fileno())
        # A temporary file is the owner's alone; a result is as readable as any other file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def read_input(path: Path) -> str:
    """Return the text of a file that a user names.

    Raises:
        FileNotFoundError: there is none.
        InputError: it cannot be read, is no text, or would never end, as a pipe or a device.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: a pipe or a device, not a file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"{path}: it is not text") from None
    except (OSError, ValueError) as error:  # A name that no file can have.
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def read_document(path: Path) -> tuple[str, Any]:
    """Return the text of a JSON file, and what it holds.

    Raises:
        InputError: there is no such file, it cannot be read, or it is no JSON.
    """
    try:
        text = read_input(path)
    except FileNotFoundError:
        raise InputError(f"{path}: No such file or directory") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: truncated, or not a results file: {error}") from None
    if _has_half_a_character(text):
        raise InputError(f"{path}: damaged: half of a character")
    return text, document


def _has_half_a_character(text: str) -> bool:
    """Return whether one of the two stands without the other, so that no file can hold it."""
    ends: int | None = None
    for found in _HALF.finditer(text):
        is_second = found.group(1)[1].lower() in "cdef"
        if is_second != (ends == found.start()):
            return True
        ends = None if is_second else found.end()
    return ends is not None
