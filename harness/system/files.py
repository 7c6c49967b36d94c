"""Reading documents that a user names, and writing files that are never half there."""

import contextlib
import gzip
import io
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from stepbench_core.errors import InputError
from stepbench_core.input_files import read_input

# One of the two escapes that stand for one character beyond the first 65,536; in a JSON text inside
# of another behind more than one backslash.
_HALF = re.compile(r"\\+u([dD][89a-fA-F])[0-9a-fA-F]{2}")


def write_atomically(path: Path, write: Callable[[IO[Any]], object], mode: str = "w") -> None:
    """Write a file so that ``path`` holds the old or the new one, whatever happens.

    Args:
        path: the file; compressed if its name ends in ``.gz``, as pyperf has it.
        write: writes what the file shall hold to an open one.
        mode: how that is opened: ``w`` for text, ``wb`` for bytes.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(
            "wb", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            with _as_named(path, file, mode) as opened:
                write(opened)
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


@contextlib.contextmanager
def _as_named(path: Path, file: IO[bytes], mode: str) -> Iterator[IO[Any]]:
    """Yield what is written to, so that a file of bytes holds it as the name of ``path`` says."""
    with contextlib.ExitStack() as stack:
        inner: IO[Any] = file
        if path.suffix == ".gz":
            # Without name and time, so that the same content gives the same bytes.
            zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
            stack.callback(zipped.close)
            inner = cast("IO[bytes]", zipped)
        if "b" in mode:
            yield inner
            return
        # A name of a file need not be text.
        text = io.TextIOWrapper(inner, "utf-8", errors="backslashreplace")
        yield text
        text.flush()
        text.detach()


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
        document = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        words = f"expected a results file of stepbench, in JSON: {_in_plain_words(text, error)}"
        raise InputError(f"{path}: {words}") from None
    if _has_half_a_character(text):
        raise InputError(f"{path}: damaged: half of a character")
    return text, document


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return what a TOML text holds. Raises InputError, which begins with ``where``."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # As git has it.
    except (ValueError, RecursionError) as error:
        words = _in_plain_words(text, error)
        raise InputError(f"{where}: not a TOML file: {words}") from None


def described(document: object) -> str:
    """Return in words what a JSON document is."""
    if isinstance(document, dict):
        names = [repr(name)[:40] for name in document]
        more = ", ..." if len(names) > 3 else ""
        return f"an object with {', '.join(names[:3])}{more}" if names else "an empty object"
    if isinstance(document, list):
        return f"a list of {len(document)}" if document else "an empty list"
    kinds = {bool: "a truth value", type(None): "null", str: "a text"}
    return kinds.get(type(document), "a number")


def damage(error: Exception) -> str:
    """Return in plain words what a document lacks or has too much of."""
    if isinstance(error, KeyError):
        return f"no {error}"
    if "argument" in str(error):
        names = re.findall(r"'\w+'", str(error))
        return f"fields that are missing or unknown: {', '.join(names)}"
    # What Python says of these speaks of its own types.
    if isinstance(error, TypeError | AttributeError) or "unpack" in str(error):
        return "a value is not of the kind that stepbench writes there"
    return str(error)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raises ValueError where a name stands twice, which says two things."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:40]!r} stands twice in the same object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _in_plain_words(text: str, error: Exception) -> str:
    """Return what is wrong with a text that cannot be parsed."""
    if not text.strip():
        return "it is empty"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if "integer string conversion" in str(error):
        return "a number of more than 4,300 digits"
    if not isinstance(error, json.JSONDecodeError):
        return str(error)
    rest = text[error.pos :].rstrip()
    is_cut = any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    if is_cut or error.msg.startswith("Unterminated string"):
        return f"it is truncated: it ends within line {text.count(chr(10)) + 1}"
    found = text[error.pos : error.pos + 20].split("\n", maxsplit=1)[0]
    return f"found {found!r} at line {error.lineno}, column {error.colno}"


def _has_half_a_character(text: str) -> bool:
    """Return whether one of the two stands without the other, so that no file can hold it."""
    ends: int | None = None
    for found in _HALF.finditer(text):
        is_second = found.group(1)[1].lower() in "cdef"
        if is_second != (ends == found.start()):
            return True
        ends = None if is_second else found.end()
    return ends is not None
