"""What is to be told of counted work: figures that are not the same each time, or not all."""

from __future__ import annotations

from collections.abc import Sequence

from .work import Variation, Work

# Of many names, those shown.
_NAMES = 3


def unsteady_figures(works: Sequence[Work]) -> set[tuple[str, str]]:
    """Return the arms and figures that differ between two runs under one hash seed.

    Nobody can be held to such a figure, in whatever cell it was seen.
    """
    return {(work.arm, one.figure) for work in works for one in work.variations if not one.by_hash}


def notes(works: Sequence[Work]) -> list[str]:
    """Return a line for each arm and cell whose figures are not the same each time, or not all."""
    return [line for work in works for line in (*_variations(work), *_delegated(work))]


def _variations(work: Work) -> list[str]:
    where = f"{work.arm} in {work.scenario.name}"
    by_hash = [one for one in work.variations if one.by_hash]
    others = [one for one in work.variations if not one.by_hash]
    lines = []
    if by_hash:
        lines.append(f"work depends on the hash seed: {where}: {_extents(by_hash)}")
    if others:
        lines.append(
            f"work differs between two runs under one hash seed: {where}: {_extents(others)}; this "
            "is not held against a budget"
        )
    return lines


def _extents(variations: Sequence[Variation]) -> str:
    return ", ".join(
        f"{one.figure.replace('_', ' ')} {_number(one.low)} to {_number(one.high)}"
        for one in variations
    )


def _delegated(work: Work) -> list[str]:
    own, lines = work.delegated, []
    where = f"{work.arm} in {work.scenario.name}"
    alive = f"alive after a call: {_named(own.threads)}" if own.threads else ""
    if own.bytecodes:
        part, whole = own.bytecodes / work.iterations, work.per_iteration("bytecodes")
        words = f"{_number(part)} of {_number(whole or 0)} bytecodes per iteration"
        lines.append("; ".join(filter(None, [f"work on other threads: {where}: {words}", alive])))
    elif alive:
        lines.append(f"threads: {where}: {alive}")
    if own.is_restless:
        lines.append(f"threads that never rest: {where}: not all that they do is counted")
    if own.processes:
        lines.append(
            f"work in child processes, which is not counted: {where}: {_named(own.processes)}"
        )
    return lines


def _named(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ", ".join(names[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
