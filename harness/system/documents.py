"""The JSON documents that commands write, besides the results file: how they are told and checked.

Each kind has its reader beside what writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepbench_core.errors import InputError

from .files import damage

# The version of the formats that have not changed yet.
FORMAT = 1

# Beyond it no figure is of this world.
_MOST = 1e15

# What reading a document of another shape can raise.
DAMAGED = (InputError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError)

_WORDS = ("where", "command")


def check_format(path: Path, document: Mapping[str, Any], key: str, known: int) -> None:
    """Raise InputError unless a document has the version of its format that is known here."""
    version = document[key]
    if type(version) is not int or version != known:
        words = f"format {version!r}, this one reads {known}"
        raise InputError(f"{path}: written by another stepbench: {words}")


def damaged(path: Path, error: Exception) -> InputError:
    """Return what to raise where a document is not what its command writes."""
    return InputError(f"{path}: damaged: {damage(error)}")


def about(document: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Any]]:
    """Return where arms are from, and what names the machine, the code and the command."""
    origins, metadata = document.get("origins", {}), document.get("metadata", {})
    for value in (*origins.values(), *(metadata[name] for name in metadata if name in _WORDS)):
        text(value)
    return origins, metadata


def text(value: object) -> str:
    """Return a text; raises ValueError for anything else."""
    check(isinstance(value, str), f"{value!r} instead of a text")
    return str(value)


def whole(value: Any) -> int:  # noqa: ANN401
    """Return a whole number, not negative; raises ValueError for anything else."""
    check(type(value) is int and 0 <= value < _MOST, f"{str(value)[:20]!r} instead of a number")
    return int(value)


def number(value: Any) -> float:  # noqa: ANN401
    """Return a number within reason; raises ValueError for anything else."""
    is_sane = type(value) in (int, float) and -_MOST < value < _MOST
    check(is_sane, f"{str(value)[:20]!r} instead of a number")
    return float(value)


def check(is_right: bool, problem: str) -> None:
    """Raise ValueError with this problem unless all is right."""
    if not is_right:
        raise ValueError(problem)
