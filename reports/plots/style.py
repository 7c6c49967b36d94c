"""How all plots look, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

# Inches, for 800 points at the width of a comment on a pull request.
WIDTH = 8.0
_DPI = 150

# Panels beyond which a plot would be longer than anybody looks at.
MOST_PANELS = 12

_MARKERS = "osD^vPX"
_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


@dataclass(frozen=True)
class Theme:
    """The colours of a page.

    Attributes:
        name: ``light`` or ``dark``.
        background, text, grid: colours of these.
        series: for one arm after the other: after Okabe and Ito's, which most people tell apart;
            where one of those does not stand out from the background, another.
    """

    name: str
    background: str
    text: str
    grid: str
    series: tuple[str, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """What matplotlib is told."""
        inks = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
        return {
            "figure.facecolor": self.background,
            "axes.facecolor": self.background,
            "savefig.facecolor": self.background,
            **dict.fromkeys(inks, self.text),
            "grid.color": self.grid,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 11,
            "font.size": 10,
            "legend.fontsize": 9,
            "legend.framealpha": 0.8,
            "legend.edgecolor": self.grid,
            "legend.facecolor": self.background,
            # An arm, a host or a file may have a name with dollars in it: no formulas.
            "text.parse_math": False,
            # Without a seed every file would differ from the last.
            "svg.hashsalt": "stepbench",
        }


LIGHT = Theme(
    "light",
    "#ffffff",
    "#1f2328",
    "#d1d9e0",
    ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6100", "#6A51A3", "#000000"),
)
DARK = Theme(
    "dark",
    "#0d1117",
    "#e6edf3",
    "#3d444d",
    ("#56B4E9", "#E69F00", "#2FC39A", "#E59BC3", "#F0E442", "#D98B54", "#FFFFFF"),
)
THEMES = (LIGHT, DARK)


@dataclass(frozen=True)
class Plot:
    """One plot.

    Attributes:
        name: the stem of its files.
        title: its heading.
        description: what it shows, for those who do not see it.
        draw: draws it in the colours of a theme, whose settings are in force.
    """

    name: str
    title: str
    description: str
    draw: Callable[[Theme], Figure]


@dataclass(frozen=True)
class Look:
    """What tells one series from the others: colour, marker and line."""

    color: str
    marker: str
    line: Any


def look(theme: Theme, index: int) -> Look:
    """Return the look of the series with this index: equal in all plots of a report."""
    return Look(
        theme.series[index % len(theme.series)],
        _MARKERS[index % len(_MARKERS)],
        _LINES[index % len(_LINES)],
    )


def render(plot: Plot, theme: Theme, kind: str) -> bytes:
    """Return a plot as the bytes of an ``svg`` or a ``png`` file.

    The same figures give the same bytes.
    """
    settings: Any = theme.settings
    with mpl.rc_context(settings):
        figure = plot.draw(theme)
        file = io.BytesIO()
        metadata = {"Date": None, "Title": plot.title} if kind == "svg" else {"Title": plot.title}
        figure.savefig(file, format=kind, dpi=_DPI, metadata=metadata)
    return file.getvalue()


def new_figure(height: float) -> Figure:
    """Return an empty figure of the common width; height in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def panels(count: int, height: float, columns: int = 2) -> tuple[Figure, list[Any]]:
    """Return a figure with so many axes, in rows of at most ``columns``; height in inches each."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = new_figure(height * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def beyond(count: int) -> str:
    """Return the sentence that says that not all of so many cells have a panel; else nothing."""
    return f" The first {MOST_PANELS} cells." if count > MOST_PANELS else ""


def legend_below(figure: Figure, panels: Sequence[Any], columns: int = 4) -> None:
    """Put one legend for all panels below them: a series may be missing in some."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= {label: found.get(label, one) for one, label in zip(handles, labels, strict=True)}
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside lower center",
        ncols=min(columns, len(found)),
    )


def log_if_wide(axes: Any, which: str, values: Sequence[float]) -> None:  # noqa: ANN401
    """Make the ``x`` or ``y`` axis logarithmic where its values span more than a factor of four."""
    if max(values) > 4 * min(values):
        log_scale(axes, which, max(values) / min(values))


def log_scale(axes: Any, which: str, span: float) -> None:  # noqa: ANN401
    """Make the ``x`` or ``y`` axis logarithmic, labelled with numbers and no powers of ten.

    Args:
        axes: the axes.
        which: the axis.
        span: the largest value over the smallest: the more it is, the fewer numbers there are.
    """
    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    subs = (1.0, 2.0, 5.0) if span < 100 else (1.0, 3.0) if span < 1000 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())


def in_words(names: Sequence[str]) -> str:
    """Return names in a row: ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
