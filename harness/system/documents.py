"""The JSON documents that commands write, besides the results file: how they are told and checked.

Each kind is a typed structure beside what writes it, which msgspec decodes strictly: what a file
lacks or has wrong is named with its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from stepbench_core.errors import InputError

from .files import damage

# The version of the formats that have not changed yet.
FORMAT = 1

# Beyond it no figure is of this world.
_MOST = 1e15

# What reading a document of another shape can raise.
DAMAGED = (InputError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError)

# Not negative; and of this world, which neither an infinity nor what is no number is.
Whole = Annotated[int, msgspec.Meta(ge=0, lt=int(_MOST))]
Number = Annotated[float, msgspec.Meta(gt=-_MOST, lt=_MOST)]

T = TypeVar("T")

# Of the metadata, what a report prints.
_WORDS = ("where", "command")


class Metadata(msgspec.Struct, frozen=True):
    """What names the machine, the code and the command: as much of it as every report prints."""

    where: str
    command: str


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a document may say of its arms and of how it came about.

    Attributes:
        origins: where arms are from, of those that are named by where their source is.
        metadata: what names the machine, the code and the command.
    """

    origins: dict[str, str] = {}
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        """Raise ValueError where what a report prints is no text."""
        for name in _WORDS:
            text(self.metadata.get(name, ""))


def decode(path: Path, document: Mapping[str, Any], key: str, known: int, kind: type[T]) -> T:
    """Return a document as a typed structure.

    Args:
        path: where it was read.
        document: the JSON document.
        key: the name of the field that says which document it is, with the version of its format.
        known: the version that is known here.
        kind: the structure.

    Raises:
        InputError: it is of another version, or not what the structure asks for.
    """
    check_format(path, document, key, known)
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise damaged(path, ValueError(expected(error))) from None
    except InputError as error:  # Of a structure that looks up a name.
        raise damaged(path, error) from None


def expected(error: msgspec.ValidationError) -> str:
    """Return what was expected, what was found, and where: ``expected int, got str at runs``."""
    words, _, place = str(error).replace("`", "").partition(" - at $")
    where = f" at {place.removeprefix('.')}" if place else ""
    return f"{words[0].lower()}{words[1:]}{where}"


def check_format(path: Path, document: Mapping[str, Any], key: str, known: int) -> None:
    """Raise InputError unless a document has the version of its format that is known here."""
    version = document[key]
    if type(version) is not int or version != known:
        words = f"format {version!r}, this one reads {known}"
        raise InputError(f"{path}: written by another stepbench: {words}")


def damaged(path: Path, error: Exception) -> InputError:
    """Return what to raise where a document is not what its command writes."""
    return InputError(f"{path}: damaged: {damage(error)}")


def text(value: object) -> str:
    """Return a text; raises ValueError for anything else."""
    check(isinstance(value, str), f"{value!r} instead of a text")
    return str(value)


def check(is_right: bool, problem: str) -> None:
    """Raise ValueError with this problem unless all is right."""
    if not is_right:
        raise ValueError(problem)
