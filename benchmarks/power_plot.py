"""The plot of the power study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from harness.compare.figure import Kind

mpl.use("Agg")  # Before pyplot, which would look for a screen.

from matplotlib import pyplot as plt
from power_file import Record, cells_of, of
from power_words import by_cell, slower

# Okabe and Ito's colours, which most people tell apart.
_BLUE, _ORANGE, _GREEN, _PINK, _GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#777777"
_LABELS = ("0.5 %", "1 %", "2 %", "5 %")
# The share from which on text on its colour has to be light.
_DARK = 0.5
_COLOURS = {
    Kind.NO_DIFFERENCE: _GREEN,
    Kind.INCONCLUSIVE: _GREY,
    Kind.SLOWER: _ORANGE,
    Kind.FASTER: _PINK,
}


def draw(trials: Sequence[Record], path: Path) -> None:
    """Draw what was found of each slowdown, and the ratios of the A/A grids, into a file."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    _detections(left, trials)
    _ratios(right, trials)
    # Without a date: the same trials give the same file.
    mpl.rcParams["svg.hashsalt"] = "power study"
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    plt.close(figure)


def _detections(axes: Any, trials: Sequence[Record]) -> None:  # noqa: ANN401
    found = {label: by_cell(of(trials, f"{label} in each cell")) for label in _LABELS}
    names = list(dict.fromkeys(name for cells in found.values() for name in cells))
    shares = [
        [slower(own) / len(own) if (own := found[label].get(name)) else 0.0 for label in _LABELS]
        for name in names
    ]
    if names:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, name in enumerate(names):
        for column, label in enumerate(_LABELS):
            own = found[label].get(name, [])
            dark = shares[row][column] > _DARK
            axes.text(
                column,
                row,
                f"{slower(own)} of {len(own)}" if own else "-",
                ha="center",
                va="center",
                fontsize=8,
                color="white" if dark else "black",
            )
    axes.set_xticks(range(len(_LABELS)), _LABELS)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="injected slowdown")
    axes.set_title("Found slower (threshold 0.5 %)", fontsize=10)


def _ratios(axes: Any, trials: Sequence[Record]) -> None:  # noqa: ANN401
    cells = cells_of(of(trials, "a/a grid"))
    names = list(dict.fromkeys(cell["cell"] for cell in cells))
    for kind, colour in _COLOURS.items():
        own = [cell for cell in cells if cell["kind"] == kind]
        axes.plot(
            [100 * (cell["ratio"]["value"] - 1) for cell in own],
            [names.index(cell["cell"]) for cell in own],
            "o",
            color=colour,
            markersize=4,
            alpha=0.6,
            label=f"{kind}: {len(own)}",
        )
    for edge in (-0.5, 0.5):
        axes.axvline(edge, color="black", linestyle="--", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(xlabel="ratio of the same arm to itself - 1, %")
    axes.set_title("A/A runs by verdict; dashed: the threshold", fontsize=10)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4)
