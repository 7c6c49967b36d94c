"""From which context or batch on the host's time is exposed, and how far the model holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scenarios.scenario import SteadyDecode

from .overlap_figures import CellFigures, OrderFigures
from .overlap_run import OverlapPlan
from .statistics import crossover

Size = Literal["tokens", "requests"]


@dataclass(frozen=True)
class Exposure:
    """Where an arm is exposed under overlap, among cells that differ in one size alone.

    Attributes:
        arm: the arm.
        size: the size that they differ in, a field of their scenarios.
        cells: their scenarios, in ascending order of it.
        point: the size at which the host's time passes the forward's, from below or from above;
            None if it does not among them.
        is_exposed: whether the arm is exposed at the largest size.
    """

    arm: str
    size: Size
    cells: tuple[SteadyDecode, ...]
    point: float | None
    is_exposed: bool


def exposures(plan: OverlapPlan, cells: Sequence[CellFigures]) -> list[Exposure]:
    """Return where each arm is exposed, for the realistic cells, in rows of one size."""
    steady = [
        (cell.scenario, cell)
        for cell in cells
        if isinstance(cell.scenario, SteadyDecode)
        and cell.arms
        and plan.forward.unrealistic(cell.scenario) is None
    ]
    found: list[Exposure] = []
    sizes: tuple[Size, ...] = ("tokens", "requests")
    for size in sizes:
        rows: dict[SteadyDecode, list[tuple[SteadyDecode, CellFigures]]] = {}
        for scenario, cell in steady:
            rows.setdefault(_without(scenario, size), []).append((scenario, cell))
        for row in rows.values():
            if len(row) > 1:
                found += _exposures(plan, size, row)
    return found


def exposed_from(sizes: Sequence[float], orders: Sequence[OrderFigures]) -> float | None:
    """Return the size at which the host's time passes the forward's, or None if it does not.

    By straight lines between neighbouring sizes on log-log axes. Where either takes no time, a size
    tells nothing.

    Args:
        sizes: ascending.
        orders: with overlap, at each size.
    """
    known = [
        (size, order.host.value / order.forward.value)
        for size, order in zip(sizes, orders, strict=True)
        if order.host.value > 0 and order.forward.value > 0
    ]
    return crossover(*zip(*known, strict=True)) if len(known) > 1 else None


def largest_departure(cells: Sequence[CellFigures]) -> tuple[float, str, str, bool] | None:
    """Return by what share a measured step departs most from the model's.

    Returns:
        The share, the cell, the arm, and whether with overlap; None where nothing was measured.
    """
    return max(
        (
            (order.departure, cell.scenario.name, arm.arm, overlap)
            for cell in cells
            for arm in cell.arms
            for order, overlap in ((arm.without_overlap, False), (arm.with_overlap, True))
        ),
        default=None,
    )


def _exposures(
    plan: OverlapPlan, size: Size, row: Sequence[tuple[SteadyDecode, CellFigures]]
) -> Iterator[Exposure]:
    ordered = sorted(row, key=lambda each: _size(each[0], size))
    scenarios = tuple(scenario for scenario, _ in ordered)
    sizes = [_size(scenario, size) for scenario in scenarios]
    for index, source in enumerate(plan.arms):
        orders = [cell.arms[index].with_overlap for _, cell in ordered]
        is_exposed = orders[-1].host.value > orders[-1].forward.value
        yield Exposure(source.spec, size, scenarios, exposed_from(sizes, orders), is_exposed)


def _size(scenario: SteadyDecode, size: Size) -> int:
    return scenario.tokens if size == "tokens" else scenario.requests


def _without(scenario: SteadyDecode, size: Size) -> SteadyDecode:
    return replace(scenario, tokens=1) if size == "tokens" else replace(scenario, requests=1)
