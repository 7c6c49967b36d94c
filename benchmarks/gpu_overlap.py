"""Whether a step takes what the model of overlap says, on the GPU of this machine.

Runs ``stepbench overlap --device cuda`` with three arms, with warm and with cold caches of the
host, and writes into a folder the samples of both, a table of what was measured apart (path,
launch, forward, step) beside the step of the model, and a plot. Ends with 1 if a step departs from
the model's by more than 5 %, or something is missing, and with 2 where there is no GPU.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl

from harness.overlap_figures import OrderFigures
from harness.overlap_file import OverlapFile, read_overlap
from reports.markdown import render_table
from reports.overlap import format_part
from reports.table import Table

mpl.use("Agg")  # Before pyplot, which would look for a screen.

from matplotlib import pyplot as plt

ARMS = "full-copy,incremental,page-range"
# Forwards of a few ms, beside paths from far below that to beyond it.
CELLS = "16x8192,64x2048,64x8192"
LIMIT = 0.05
_CACHES = ("warm", "cold")
_SECONDS = 450.0
# Okabe and Ito's colours, which most people tell apart.
_COLOURS = ("#0072B2", "#E69F00", "#009E73")


def measure(caches: str, file: Path, until: float, options: Sequence[str]) -> int:
    """Run the command once, with what is left of the time; return its exit code."""
    words = ["overlap", "--arms", ARMS, "--caches", caches, "-o", str(file), "--force", *options]
    left = until - time.monotonic()
    click.echo(f"stepbench {shlex.join(words)}", err=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stepbench", *words],
            stdout=subprocess.DEVNULL,
            timeout=max(1.0, left),
            check=False,
        )
    except subprocess.TimeoutExpired:
        click.echo(f"out of time: {caches} caches are not complete", err=True)
        return 1
    return done.returncode


def orders(files: Sequence[tuple[str, OverlapFile]]) -> Iterator[tuple[Any, ...]]:
    """Yield the caches, the cell, the arm, its index, whether with overlap, and the figures."""
    for caches, file in files:
        for cell in file.cells:
            for index, arm in enumerate(cell.arms):
                for overlap, order in ((False, arm.without_overlap), (True, arm.with_overlap)):
                    yield caches, cell.scenario.name, arm.arm, index, overlap, order


def table(files: Sequence[tuple[str, OverlapFile]]) -> Table:
    """Return what was measured apart, and what the model makes of it."""
    columns = (
        *("Cell", "Arm", "Overlap", "Caches", "Path", "Launch", "Between", "Forward", "Exposed"),
        *("Step", "Step of the model", "Departure"),
    )
    rows = []
    for caches, cell, arm, _, overlap, order in orders(files):
        times = ("path", "launch", "between", "forward", "exposed", "step", "predicted_step")
        shown = [format_part(getattr(order, name)) for name in times]
        words = (cell, arm, "yes" if overlap else "no", caches)
        rows.append((*words, *shown, f"{order.departure:.1%}"))
    return Table(columns, tuple(rows))


def draw(files: Sequence[tuple[str, OverlapFile]], path: Path) -> None:
    """Draw the measured steps over those of the model, and a band of 5 % around them."""
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    found: list[tuple[str, int, bool, OrderFigures]] = [
        (arm, index, overlap, order) for _, _, arm, index, overlap, order in orders(files)
    ]
    most = 1.1e3 * max((order.predicted_step.value for *_, order in found), default=1e-3)
    axes.plot([0, most], [0, most], color="black", linewidth=0.8)
    axes.fill_between(
        *([0, most], [0, most * (1 - LIMIT)], [0, most * (1 + LIMIT)]), color="#777777", alpha=0.2
    )
    labelled = set()
    for arm, index, overlap, order in found:
        label = f"{arm}, {'overlap' if overlap else 'no overlap'}"
        axes.plot(
            1e3 * order.predicted_step.value,
            1e3 * order.step.value,
            "o" if overlap else "s",
            color=_COLOURS[index % len(_COLOURS)],
            markerfacecolor="none",
            label=None if label in labelled else label,
        )
        labelled.add(label)
    axes.set(xlabel="step of the model, ms", ylabel="measured step, ms", xlim=(0, most))
    axes.set_ylim(0, most)
    axes.legend(fontsize=8)
    # Without a date: the same samples give the same file.
    mpl.rcParams["svg.hashsalt"] = "gpu overlap"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


@click.command(help=__doc__)
@click.option("--device", type=click.Choice(["cuda", "simulated"]), default="cuda")
@click.option("--model", default="llama-3.1-8b", show_default=True)
@click.option("--cells", default=CELLS, show_default=True)
@click.option("--processes", type=click.IntRange(1), default=3, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("results"))
def main(device: str, model: str, cells: str, processes: int, folder: Path) -> None:
    """Measure, and write samples, table and plot."""
    until = time.monotonic() + _SECONDS
    options = ["--device", device, "--model", model, "--cells", cells]
    options += ["--processes", str(processes)]
    files, code = [], 0
    for caches in _CACHES:
        path = folder / f"gpu-overlap-{caches}.json"
        ended = measure(caches, path, until, options)
        if ended == 2:
            sys.exit(2)  # The command has said why.
        code = code or ended
        if path.exists():
            files.append((caches, read_overlap(path)))
    rows = table(files)
    text = "\n\n".join([render_table(rows), *(str(file.metadata["where"]) for _, file in files)])
    (folder / "gpu-overlap.md").write_text(f"{text}\n")
    draw(files, folder / "gpu-overlap.svg")
    click.echo(text)
    worst = max((order.departure for *_, order in orders(files)), default=1.0)
    click.echo(f"\nThe measured steps depart from the model's by at most {worst:.1%}.")
    sys.exit(code or int(worst > LIMIT))


if __name__ == "__main__":
    main()
