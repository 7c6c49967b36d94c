"""How the samples of each arm are distributed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.speedup.file import Results

from .cells import label
from .style import (
    MOST_PANELS,
    Plot,
    Theme,
    beyond,
    in_words,
    legend_below,
    log_if_wide,
    look,
    panels,
)

_HEIGHT = 2.1


def plot(results: Results, samples: pd.DataFrame, name: str) -> Plot | None:
    """Return the empirical distribution functions of all samples, a panel a cell.

    Args:
        results: the file.
        samples: its samples, as ``frame.samples_frame`` has them.
        name: the stem of the plot's files.
    """
    measured = set(samples["cell"])
    scenarios = [cell for cell in results.plan.scenarios if cell.name in measured]
    if not scenarios:
        return None
    arms = results.plan.arms

    def draw(theme: Theme) -> Figure:
        shown = scenarios[:MOST_PANELS]
        groups = samples.groupby(["cell", "arm"], sort=False)["seconds"]
        figure, all_axes = panels(len(shown), _HEIGHT)
        for axes, scenario in zip(all_axes, shown, strict=True):
            for index, arm in enumerate(arms):
                if (scenario.name, arm) not in groups.groups:
                    continue
                values = 1e3 * np.sort(groups.get_group((scenario.name, arm)).to_numpy())
                shares = np.arange(1, len(values) + 1) / len(values)
                style = look(theme, index)
                axes.step(
                    values,
                    shares,
                    where="post",
                    color=style.color,
                    linestyle=style.line,
                    label=arm,
                )
            own = 1e3 * samples.loc[samples["cell"] == scenario.name, "seconds"]
            log_if_wide(axes, "x", [own.min(), own.max()])
            axes.set(ylim=(0, 1), xlabel="ms", ylabel="share below")
            axes.set_title(label(scenario), loc="left")
        legend_below(figure, all_axes)
        return figure

    return Plot(
        name,
        "Distribution of samples",
        f"Share of the samples of all processes that lie below a time, of {in_words(arms)}, a "
        f"panel a cell.{beyond(len(scenarios))}",
        draw,
    )
