"""What each process of a duet says: the effect against the control."""

from __future__ import annotations

import math

from matplotlib.figure import Figure

from harness.compare.file import DuetFile
from harness.compare.verdict import verdict_words

from .cells import label
from .style import MOST_PANELS, Plot, Theme, beyond, legend_below, look, panels

_HEIGHT = 2.6


def plot(file: DuetFile, name: str) -> Plot | None:
    """Return the plot of control against effect, a point a process and a panel a cell."""
    results = [result for result in file.results if result.first]
    if not results:
        return None
    a, b = file.duet.a.spec, file.duet.b.spec
    threshold = 100 * file.duet.threshold

    def draw(theme: Theme) -> Figure:
        shown = results[:MOST_PANELS]
        figure, all_axes = panels(len(shown), _HEIGHT)
        for axes, result in zip(all_axes, shown, strict=True):
            for index, (words, processes) in enumerate(
                (("first run", result.first), ("repetition", result.second))
            ):
                style = look(theme, index)
                axes.plot(
                    [_per_cent(process.control) for process in processes],
                    [_per_cent(process.effect) for process in processes],
                    style.marker,
                    color=style.color,
                    label=words,
                    markersize=5,
                )
            means = [each.means for each in result.first + result.second if each.means]
            style = look(theme, 2)
            axes.plot(
                [_per_cent(each.agreed.control) for each in means],
                [_per_cent(each.agreed.effect) for each in means],
                style.marker,
                color=style.color,
                label="mean of all steps",
                markersize=4,
                fillstyle="none",
            )
            # The same scale on both, so that the eye compares the spreads; around the effects where
            # these are far from nothing.
            (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
            spread = max(-left, right, high - low)
            middle = (low + high) / 2 if min(abs(low), abs(high)) > spread else 0.0
            reach = 1.1 * max(-left, right, high - middle, middle - low)
            if middle == 0.0:
                reach = max(reach, 1.3 * threshold)
            axes.set(xlim=(-reach, reach), ylim=(middle - reach, middle + reach))
            axes.axhspan(-threshold, threshold, color=theme.grid, alpha=0.5, linewidth=0)
            axes.axhline(0, color=theme.text, linewidth=0.8)
            axes.set(xlabel="control, %", ylabel="effect, %")
            words = verdict_words(result.verdict, file.duet.threshold)
            axes.set_title(f"{label(result.scenario)}\n{words}", loc="left", fontsize=9)
        figure.suptitle(f"{b} against {a}: above 0 it is slower", fontsize=11)
        legend_below(figure, all_axes)
        return figure

    return Plot(
        name,
        f"Effect of {b} against {a}, and the control",
        f"Each process of the duet: how much slower {b} is than {a}, against how much two copies "
        "of the same code differ, in per cent, a panel a cell; of the typical step and, hollow, of "
        "the mean of all steps. The band is the threshold of "
        f"{threshold:g} %.{beyond(len(results))}",
        draw,
    )


def _per_cent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)
