"""Cells that differ in their sizes alone, of which one can see what grows with a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal, TypeVar

from .scenario import SteadyDecode, TraceReplay

T = TypeVar("T")
Size = Literal["requests", "tokens"]


def families(
    items: Iterable[T], cell_of: Callable[[T], SteadyDecode | TraceReplay], *sizes: Size
) -> dict[SteadyDecode, list[tuple[SteadyDecode, T]]]:
    """Return items by their cells but for some sizes, each with its cell, ascending in these.

    Args:
        items: whatever has a cell. Traces have no sizes and are left out.
        cell_of: returns the cell of one.
        sizes: the sizes in which cells of a family may differ.

    Returns:
        Each family under the cell that has 1 for these sizes, in order of appearance.
    """
    found: dict[SteadyDecode, list[tuple[SteadyDecode, T]]] = {}
    alike: dict[str, Any] = dict.fromkeys(sizes, 1)
    for item in items:
        cell = cell_of(item)
        if isinstance(cell, SteadyDecode):
            found.setdefault(replace(cell, **alike), []).append((cell, item))
    by_size = attrgetter(*sizes)
    return {
        family: sorted(pairs, key=lambda pair: by_size(pair[0])) for family, pairs in found.items()
    }
