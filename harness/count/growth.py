"""How work grows: the log-log slope of each figure against tokens and against requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.stats.estimates import log_slope
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
    """Return the slope of a figure along one size, among cells that are alike in the other."""
    sets: dict[int, list[tuple[float, float]]] = {}
    for work in works:
        value = work.per_iteration(figure)
        if value is None:
            return None
        sets.setdefault(getattr(work.scenario, alike), []).append((along(work), value))
    return log_slope(list(sets.values()))


def _requests(work: Work) -> float:
    return work.requests / work.iterations


def _tokens(work: Work) -> float:
    return work.sequence_tokens / work.requests
