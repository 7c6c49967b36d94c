"""From which context or batch on the host's time is exposed, and how far the model holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.stats.estimates import crossover
from scenarios.families import Size, families
from scenarios.scenario import SteadyDecode

from .figures import CellFigures, OrderFigures
from .run import OverlapPlan

State = Literal["exposed", "hidden"]


@dataclass(frozen=True)
class Exposure:
    """Where an arm is exposed under overlap, among cells that differ in one size alone.

    Attributes:
        arm: the arm.
        size: the size that they differ in, a field of their scenarios.
        cells: their scenarios, in ascending order of it.
        states: whether the arm is exposed or hidden in each; None where that is not clear, because
            the interval of the host's time holds the forward's.
        point: the size at which the host's time passes the forward's; None unless it does so once,
            between two neighbours that are clear.
    """

    arm: str
    size: Size
    cells: tuple[SteadyDecode, ...]
    states: tuple[State | None, ...]
    point: float | None


def exposures(plan: OverlapPlan, cells: Sequence[CellFigures]) -> list[Exposure]:
    """Return where each arm is exposed, for the realistic cells, in rows of one size.

    None on a real GPU: there the host's time holds what the stand-ins do, which is no engine's.
    """
    if plan.device == "cuda":
        return []
    realistic = [
        cell
        for cell in cells
        if cell.arms
        and isinstance(cell.scenario, SteadyDecode)
        and plan.forward.unrealistic(cell.scenario) is None
    ]
    found: list[Exposure] = []
    sizes: tuple[Size, ...] = ("tokens", "requests")
    for size in sizes:
        for row in families(realistic, lambda cell: cell.scenario, size).values():
            if len(row) > 1:
                found += _exposures(plan, size, row)
    return found


def state_of(order: OrderFigures) -> State | None:
    """Return whether the host's time is clearly longer than the forward's, or clearly not."""
    if order.host.low > order.forward.value:
        return "exposed"
    return "hidden" if order.host.high < order.forward.value else None


def exposed_from(sizes: Sequence[float], orders: Sequence[OrderFigures]) -> float | None:
    """Return the size at which the host's time passes the forward's.

    By a straight line between two neighbouring sizes on log-log axes. None if it does not pass it,
    or more than once, or if that is not clear at a size between the two.

    Args:
        sizes: ascending.
        orders: with overlap, at each size.
    """
    states = list(map(state_of, orders))
    clear = [state for state in states if state is not None]
    changes = [index for index in range(1, len(clear)) if clear[index] != clear[index - 1]]
    if len(changes) != 1:
        return None
    after = states.index(clear[changes[0]])
    if states[after - 1] is None:
        return None
    pair = slice(after - 1, after + 1)
    ratios = [order.host.value / order.forward.value for order in orders[pair]]
    # A host that takes no time has no logarithm.
    return crossover(sizes[pair], ratios) if all(ratio > 0 for ratio in ratios) else None


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
    scenarios = tuple(scenario for scenario, _ in row)
    sizes = [getattr(scenario, size) for scenario in scenarios]
    for index, source in enumerate(plan.arms):
        orders = [cell.arms[index].with_overlap for _, cell in row]
        states = tuple(map(state_of, orders))
        yield Exposure(source.spec, size, scenarios, states, exposed_from(sizes, orders))
