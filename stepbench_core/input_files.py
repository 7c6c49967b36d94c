"""The bytes of a file that a user names, as text: the one reader for all inputs.

Plain or gzipped, as the content says and not the name; UTF-8, or what a byte order mark says; lines
that end in any way.
"""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from .errors import InputError

_GZIP = b"\x1f\x8b"
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# Bytes: more than any trace that is public has, and no memory holds as a document.
_MOST = 2**31
# What is compressed by more than that, once there is much of it, holds nothing.
_MUCH, _MOST_RATIO = 2**24, 200


@contextlib.contextmanager
def open_input(path: Path) -> Iterator[TextIO]:
    """Open a file as text whose lines end in a line feed.

    Raises:
        FileNotFoundError: there is none.
        InputError: it cannot be read, is no text, is damaged, or would never end, as a pipe or a
            device; also while it is read.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: a pipe or a device, not a file")
        opened = path.open("rb")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # A name that no file can have.
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    with opened:
        try:
            yield _as_text(path, opened)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = "truncated" if isinstance(error, EOFError) else "damaged"
            raise InputError(f"{path}: a {what} gzip file") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: it is not text, or not in UTF-8") from None
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None


def read_input(path: Path) -> str:
    """Return the text of a file; raises what ``open_input`` does."""
    with open_input(path) as file:
        return file.read()


def _as_text(path: Path, file: io.BufferedReader) -> TextIO:
    is_zipped = file.peek(2).startswith(_GZIP)
    # Whoever closes the file closes what lies below.
    inner = gzip.GzipFile(fileobj=file) if is_zipped else file
    content = io.BufferedReader(_Bounded(path, inner, file))
    start = content.peek(3)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
    if encoding != "utf-16" and b"\0" in start:
        raise InputError(f"{path}: it is not text, or not in UTF-8")
    return io.TextIOWrapper(content, encoding)


class _Bounded(io.RawIOBase):
    """What a file holds, up to where it would fill the memory.

    Args:
        path: its name, for messages.
        inner: its content.
        file: the file itself, which may be compressed.
    """

    def __init__(self, path: Path, inner: BinaryIO | gzip.GzipFile, file: BinaryIO) -> None:
        self._path = path
        self._inner = inner
        self._file = file
        self._total = 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever can be written into.
        """Read as many bytes as there is room for; return how many, 0 at the end."""
        data = self._inner.read(len(buffer))
        self._total += len(data)
        is_bomb = self._total > max(_MUCH, _MOST_RATIO * self._file.tell())
        if is_bomb or self._total > _MOST:
            words = f"it holds more than {self._total / 2**20:,.0f} MiB"
            raise InputError(f"{self._path}: {words}, which is too much to be read")
        buffer[: len(data)] = data
        return len(data)
