"""How work grows: the log-log slope of each figure against tokens and against requests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenarios.families import families

from .work import FIGURES, Work


@dataclass(frozen=True)
class Growth:
    """How one figure of an arm grows from cell to cell.

    A figure per iteration that goes with ``requests ** a * tokens ** b`` has the slopes *a* and
    *b*: 1 is linear, 0 does not grow.

    Attributes:
        kind: what the cells have in common, such as ``v2`` or ``v2-block=16``.
        arm: the arm.
        figure: name of the figure.
        requests: slope against the number of requests, among cells of equally long sequences. None
            if no two of them differ in it, or where the figure is always 0; infinite where it is 0
            in some cells alone.
        tokens: slope against the tokens of a request, among cells of as many requests; likewise.
    """

    kind: str
    arm: str
    figure: str
    requests: float | None
    tokens: float | None


def growth(works: Sequence[Work]) -> list[Growth]:
    """Return the growth of each figure over the steady cells that differ in their size alone."""
    found = []
    for kind, family in families(works, lambda work: work.scenario, "requests", "tokens").items():
        for arm in dict.fromkeys(work.arm for _, work in family):
            group = [work for _, work in family if work.arm == arm]
            found += [
                Growth(
                    "-".join([kind.manager, *kind.settings()]),
                    arm,
                    figure,
                    requests=_slope(group, figure, along=_requests, alike="tokens"),
                    tokens=_slope(group, figure, along=_tokens, alike="requests"),
                )
                for figure in FIGURES
            ]
    return found


def _slope(
    works: Sequence[Work],
    figure: str,
    *,
    along: Callable[[Work], float],
    alike: str,
) -> float | None:
    """Return the slope of a figure along one size, among cells that are alike in the other.

    Least squares with an intercept for each set of cells that are alike (the within estimator of
    panel data), so that a figure which does not grow has a slope of exactly 0.
    """
    sets: dict[int, list[tuple[float, float]]] = {}
    for work in works:
        value = work.per_iteration(figure)
        if value is None:
            return None
        sets.setdefault(getattr(work.scenario, alike), []).append((along(work), value))
    over = under = 0.0
    for points in sets.values():
        values = [value for _, value in points]
        if len(points) < 2 or not any(values):
            continue
        if not all(values):
            return math.inf
        # From the first point, so that what does not grow is 0 and no rounding error.
        x0, y0 = points[0]
        logs = [(math.log(x / x0), math.log(y / y0)) for x, y in points]
        mean_x = sum(x for x, _ in logs) / len(logs)
        mean_y = sum(y for _, y in logs) / len(logs)
        over += sum((x - mean_x) * (y - mean_y) for x, y in logs)
        under += sum((x - mean_x) ** 2 for x, _ in logs)
    return over / under if under else None


def _requests(work: Work) -> float:
    return work.requests / work.iterations


def _tokens(work: Work) -> float:
    return work.sequence_tokens / work.requests
