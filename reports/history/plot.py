"""How the time of each arm of each cell went over the runs of a history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reports.plots.style import WIDTH, Plot, Theme
from reports.render.words import counted
from stepbench_core.errors import InputError

from .tables import change_words, line_words
from .trends import Trend, differing

_HEIGHT = 2.3
# Beyond it nobody finds the line that they look for.
_MOST_LINES = 40
_TICKS = 6
# Inches around a panel. Fixed: a layout that looks for them itself takes a second for a few panels.
_LEFT, _RIGHT, _TOP, _BOTTOM = 0.8, 0.5, 0.35, 0.45


def plot(trends: Sequence[Trend]) -> Plot:
    """Return the plot of trends, a panel each.

    Raises:
        InputError: there are too many of them.
    """
    if len(trends) > _MOST_LINES:
        raise InputError(
            f"--plot: {len(trends)} lines are too many for one plot, which takes {_MOST_LINES}: "
            "choose some with --cell and --arm"
        )
    names = differing(trends)

    def draw(theme: Theme) -> Figure:
        height = len(trends) * (_HEIGHT + _TOP + _BOTTOM)
        figure = Figure(figsize=(WIDTH, height))
        for number, trend in enumerate(trends):
            bottom = height - (number + 1) * (_HEIGHT + _TOP + _BOTTOM) + _BOTTOM
            axes = figure.add_axes(
                (
                    _LEFT / WIDTH,
                    bottom / height,
                    1 - (_LEFT + _RIGHT) / WIDTH,
                    _HEIGHT / height,
                )
            )
            axes.set_title(", ".join(line_words(trend.line, names)), loc="left")
            _draw_line(axes, trend, theme)
        return figure

    changes = sum(len(trend.changes) for trend in trends)
    return Plot(
        "trend",
        "Trends",
        f"The time of each run with its 95 % interval, one run beside the other, "
        f"{counted(len(trends), 'panel')} of one arm of one cell each, with "
        f"{counted(changes, 'change point')} marked; the table has the figures.",
        draw,
    )


def _draw_line(axes: Any, trend: Trend, theme: Theme) -> None:  # noqa: ANN401
    points = trend.points
    largest = max(point.seconds.value for point in points)
    factor, unit = (1e6, "us") if largest < 1e-4 else (1e3, "ms")
    runs = np.arange(1, len(points) + 1)
    blue, vermilion = theme.series[0], theme.series[1]
    # One line with gaps: as a line each, a thousand of them take a tenth of a second.
    bars = np.full((len(points), 3), np.nan)
    for bar, point in zip(bars, points, strict=True):
        if math.isfinite(point.seconds.high):
            bar[:2] = factor * point.seconds.low, factor * point.seconds.high
    axes.plot(runs.repeat(3), bars.ravel(), "-", color=blue, linewidth=0.8, alpha=0.5)
    times = [factor * point.seconds.value for point in points]
    axes.plot(runs, times, "o", color=blue, markersize=2.5 if len(points) > 100 else 4)
    edges = [0, *(change.run for change in trend.changes), len(points)]
    means = [trend.changes[0].before] if trend.changes else []
    means += [change.after for change in trend.changes]
    for mean, start, end in zip(means, edges, edges[1:], strict=False):
        axes.hlines(factor * mean, start + 0.5, end + 0.5, color=theme.text, linewidth=1.2)
    # Room for words above the times.
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top + (0.35 * (top - bottom) if trend.changes else 0))
    for number, change in enumerate(trend.changes):
        # Towards the middle, so that the words stay inside.
        is_left = change.run < 0.7 * len(points)
        axes.axvline(change.run + 0.5, color=vermilion, linestyle="--", linewidth=1.2)
        axes.annotate(
            f"{points[change.run].revision[:12]} {change_words(change)}",
            # Neighbours at different heights, so that they do not lie on each other.
            (change.run + 0.5, 0.98 - 0.11 * (number % 3)),
            xycoords=("data", "axes fraction"),
            xytext=(3 if is_left else -3, 0),
            textcoords="offset points",
            verticalalignment="top",
            horizontalalignment="left" if is_left else "right",
            fontsize=8,
        )
    ticks = sorted({int(tick) for tick in np.linspace(0, len(points) - 1, _TICKS).round()})
    axes.set_xticks(
        [tick + 1 for tick in ticks], [f"{points[tick].date:%Y-%m-%d}" for tick in ticks]
    )
    axes.set_xlim(0.5, len(points) + 0.5)
    axes.set_ylabel(unit)
