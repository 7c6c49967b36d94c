"""Time against the tokens of a request: what grows with the context, and how fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from harness.arms.registry import FLOOR
from reports.render.words import counted
from reports.speedup.summary import Cell, Summary
from scenarios.families import families
from scenarios.scenario import SteadyDecode

from .style import Plot, Theme, in_words, log_scale, look, panels

_HEIGHT = 3.3


def plot(summary: Summary, name: str) -> Plot | None:
    """Return the plot of time against tokens; None unless cells differ in their tokens alone."""
    groups = _groups(summary.cells)
    if not groups:
        return None

    def draw(theme: Theme) -> Figure:
        figure, all_axes = panels(len(groups), _HEIGHT)
        for axes, (kind, cells) in zip(all_axes, groups.items(), strict=True):
            for arm in summary.arms:
                points = [
                    (tokens, cell.seconds[arm].value)
                    for tokens, cell in cells
                    if arm in cell.seconds
                ]
                if not points:
                    continue
                style = look(theme, summary.arms.index(arm))
                is_floor = arm == FLOOR
                sizes, times = zip(*points, strict=True)
                axes.plot(
                    sizes,
                    [1e3 * value for value in times],
                    color=theme.text if is_floor else style.color,
                    marker="" if is_floor else style.marker,
                    linestyle=":" if is_floor else style.line,
                    label=f"{arm}{_slope_words(sizes, times)}",
                )
            seconds = [cell.seconds[arm].value for _, cell in cells for arm in cell.seconds]
            log_scale(axes, "x", 1.0)
            log_scale(axes, "y", 4 * max(seconds) / min(seconds))
            # Half as much and twice as much again: a flat line should look flat.
            low, high = axes.get_ylim()
            axes.set(ylim=(low / 2, high * 2), xlabel="tokens per request", ylabel="ms")
            ticks = [tokens for tokens, _ in cells]
            axes.set_xticks(ticks, list(map(_short, ticks)))
            axes.set_title(_heading(kind), loc="left")
            # Below, where no line runs.
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=2, fontsize=8)
        return figure

    return Plot(
        name,
        "Time against tokens",
        f"Time of an iteration against tokens per request, on logarithmic axes, of "
        f"{in_words(summary.arms)}, each with the slope of its line: 1 grows as the context does, "
        "0 not at all.",
        draw,
    )


def _groups(cells: Sequence[Cell]) -> dict[SteadyDecode, list[tuple[int, Cell]]]:
    """Return the cells that differ in their tokens alone, in the order of these, two at least."""
    return {
        kind: [(scenario.tokens, cell) for scenario, cell in own]
        for kind, own in families(cells, lambda cell: cell.scenario, "tokens").items()
        if len(own) > 1
    }


def slope(tokens: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of the least-squares line through the logarithms of both."""
    return float(np.polyfit(np.log(tokens), np.log(seconds), 1)[0])


def _slope_words(tokens: Sequence[float], seconds: Sequence[float]) -> str:
    if len(tokens) < 2:
        return ""
    return f", slope {slope(tokens, seconds):.2f}".replace("-0.00", "0.00")


def _heading(kind: SteadyDecode) -> str:
    return ", ".join([counted(kind.requests, "request"), kind.manager.upper(), *kind.settings()])


def _short(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens}"
