"""How many times as fast each arm is, cell by cell."""

from __future__ import annotations

from matplotlib.figure import Figure

from harness.stats.estimates import Estimate
from reports.render.numbers import is_open
from reports.speedup.summary import Cell, Summary, proper_arms

from .cells import label
from .style import Plot, Theme, in_words, log_if_wide, look, new_figure

_ROW = 0.32


def plot(summary: Summary, name: str) -> Plot | None:
    """Return the plot of a summary's speedups with their intervals; None if it has none."""
    base, *arms = proper_arms(summary.arms) or ("",)
    arms = [arm for arm in arms if any(arm in cell.speedups for cell in summary.cells)]
    cells = [cell for cell in summary.cells if cell.speedups]
    if not arms or not cells:
        return None

    def draw(theme: Theme) -> Figure:
        rows = len(cells) * max(1, len(arms) * 0.7)
        figure = new_figure(_ROW * rows + 1.4)
        axes = figure.subplots()
        axes.axvline(1.0, color=theme.text, linewidth=1)
        for index, arm in enumerate(arms):
            own = [(place, cell) for place, cell in enumerate(cells) if arm in cell.speedups]
            ratios = [cell.speedups[arm] for _, cell in own]
            values = [ratio.value for ratio in ratios]
            # Of a single process there is no interval: only the point.
            low = [0.0 if is_open(ratio) else ratio.value - ratio.low for ratio in ratios]
            high = [0.0 if is_open(ratio) else ratio.high - ratio.value for ratio in ratios]
            shift = (index - (len(arms) - 1) / 2) * 0.8 / len(arms)
            style = look(theme, summary.arms.index(arm))
            axes.errorbar(
                values,
                [place + shift for place, _ in own],
                xerr=[low, high],
                fmt=style.marker,
                color=style.color,
                capsize=3,
                label=arm,
            )
            dear = [(place, cell.mean_speedups[arm]) for place, cell in own if cell.is_typical_only]
            axes.plot(
                [ratio.value for _, ratio in dear],
                [place + shift for place, _ in dear],
                style.marker,
                color=style.color,
                fillstyle="none",
                markersize=9,
                label=f"{arm}, of the mean step" if dear else None,
            )
        log_if_wide(axes, "x", [1.0, *(r.value for cell in cells for r in _ratios(cell))])
        axes.set_yticks(range(len(cells)), [label(cell.scenario) for cell in cells])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"times as fast as {base} (95 % interval over processes)")
        axes.set_title(f"Speedup over {base}", loc="left")
        axes.legend(loc="best")
        return figure

    return Plot(
        name,
        f"Speedup over {base}",
        f"Speedup of {in_words(arms)} over {base} in {len(cells)} cells, with 95 % intervals; the "
        "table has the figures. Hollow where some steps are dear, or leave work to others: of the "
        "mean step.",
        draw,
    )


def _ratios(cell: Cell) -> list[Estimate]:
    """Return all speedups of a cell that the plot shows."""
    return [*cell.speedups.values(), *(cell.mean_speedups.values() if cell.is_typical_only else ())]
