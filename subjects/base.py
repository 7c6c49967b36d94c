"""What the harness knows of a subject: its cells, and a stage on which copies of arms run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stepbench_core.errors import InputError

# Goes into names of benchmarks and files, and is listed with commas.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]{0,79}")


@dataclass(frozen=True)
class Cell:
    """One point of a grid: how large the world of a subject is.

    Attributes:
        name: tells it from the subject's other cells; letters, digits and ``._=+-``.
        sizes: numbers by name, such as ``{"requests": 64, "tokens": 2048}``.
        labels: texts by name: what else the world depends on.
    """

    name: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError unless the name can be one."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InputError(
                f"cell {self.name!r}: a name has letters, digits and ._=+- and begins with one of "
                "the first two"
            )

    def __hash__(self) -> int:
        """Cells are told apart by their names."""
        return hash(self.name)

    @property
    def values(self) -> dict[str, int | str]:
        """Sizes and labels together, as the subject's own code gets them."""
        return {**self.sizes, **self.labels}

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values; ``cell_from_dict`` takes them back."""
        return {
            "kind": type(self).__name__,
            "name": self.name,
            "sizes": dict(self.sizes),
            "labels": dict(self.labels),
        }


def cell_from_dict(values: Mapping[str, Any]) -> Cell:
    """Return the cell that ``Cell.to_dict`` described. Raises InputError where that is none."""
    try:
        sizes, labels = dict(values["sizes"]), dict(values["labels"])
        cell = Cell(values["name"], sizes, labels)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a cell of this version: {error}") from None
    if not all(type(size) is int for size in sizes.values()):
        raise InputError(f"cell {cell.name}: a size is no whole number")
    if not all(isinstance(label, str) for label in labels.values()):
        raise InputError(f"cell {cell.name}: a label is no text")
    return cell


class Stage(Protocol):
    """Copies of arms in one process, each ready for its calls. Of the standard library alone.

    Copies are loaded one by one, then the worlds are built, then steps follow: ``advance`` once a
    step, and for each copy ``ready`` right before its call is timed.
    """

    def load(self, copy: int) -> None:
        """Import the arm of a copy, apart from all other copies."""

    def build(self) -> None:
        """Bring the cell to life."""

    def advance(self) -> None:
        """Move a world that all copies share on by one step; nothing where each has its own."""

    def ready(self, copy: int) -> Callable[[], object]:
        """Return the call of a copy in this step, all untimed work for it done."""

    def tell(self, copy: int, error: BaseException) -> None:
        """Raise what is told of an error in a copy's call, if that is another one."""
