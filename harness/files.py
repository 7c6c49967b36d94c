"""Reading what a user names, and writing files that are never half there."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from scenarios.errors import InputError


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
