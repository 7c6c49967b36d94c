"""What of the host's time a step pays for, with the overlap scheduler."""

from __future__ import annotations

from matplotlib.figure import Figure

from harness.overlap.file import OverlapFile

from .cells import label
from .style import Plot, Theme, in_words, new_figure

_ROW = 0.3


def plot(file: OverlapFile, name: str) -> Plot | None:
    """Return the plot of exposed and hidden host time, a bar for each cell and arm."""
    bars = [(cell, arm) for cell in file.cells for arm in cell.arms]
    if not bars:
        return None
    arms = [source.spec for source in file.plan.arms]

    def draw(theme: Theme) -> Figure:
        figure = new_figure(_ROW * len(bars) + 1.6)
        axes = figure.subplots()
        places = range(len(bars))
        exposed = [1e3 * arm.with_overlap.exposed.value for _, arm in bars]
        hidden = [1e3 * arm.with_overlap.hidden.value for _, arm in bars]
        axes.barh(
            places,
            hidden,
            color=theme.background,
            edgecolor=theme.series[0],
            hatch="///",
            label="hidden behind the forward before",
        )
        # From where the forward ends.
        axes.barh(
            places, exposed, left=hidden, color=theme.series[1], label="exposed: the device waits"
        )
        axes.plot(
            [1e3 * arm.forward.value for _, arm in bars],
            places,
            "D",
            color=theme.text,
            markersize=4,
            label="forward",
        )
        axes.set_yticks(places, [f"{label(cell.scenario)}, {arm.arm}" for cell, arm in bars])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set(xlabel="ms in each step, with the overlap scheduler")
        axes.set_title("Host time: exposed and hidden", loc="left")
        figure.legend(loc="outside lower center", ncols=3)
        return figure

    return Plot(
        name,
        "Exposed and hidden host time",
        f"Host time of each step with {in_words(arms)} under the overlap scheduler: the part that "
        "the device waits for, and the part that the forward of the step before hides; without "
        f"overlap all of it is exposed. Forward: {file.plan.forward.describe()}.",
        draw,
    )
