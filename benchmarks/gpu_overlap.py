"""Whether steps differ by what the model of overlap says, on the GPU of this machine.

Runs ``stepbench overlap --device cuda`` with three arms, with warm and with cold caches of the
host, and writes into a folder the samples of both, a table of what was measured apart (path,
launch, forward, step) beside the step of the model, and a plot. What is judged, for each cell,
order and state of the caches: whether a step is shorter than that of the first arm by what the
model predicts, within 5 % of that, with its interval over processes. Ends with 0 if that holds
everywhere, with 1 if it does not somewhere, with 3 where noise does not let it say, or 5 % are less
than the clocks resolve, with 4 if something was not measured, and with 2 where there is no GPU.
"""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import matplotlib as mpl

from harness.overlap.figures import LIMIT
from harness.overlap.file import OverlapFile, read_overlap
from harness.system.worker_process import run
from reports.kinds.overlap import format_interval, format_part
from reports.render.markdown import render_table
from reports.render.table import Column, ColumnKind, Table, figures, names

mpl.use("Agg")  # Before pyplot, which would look for a screen.

from matplotlib import pyplot as plt

ARMS = "full-copy,incremental,page-range"
# Forwards of a few ms, beside paths from far below that to beyond it.
CELLS = "16x8192,64x2048,64x8192"
_DEPARTS, _INCONCLUSIVE, _INCOMPLETE = 1, 3, 4
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
        done = run(
            [sys.executable, "-m", "stepbench", *words],
            stdout=subprocess.DEVNULL,
            timeout=max(1.0, left),
            check=False,
        )
    except subprocess.TimeoutExpired:
        click.echo(f"out of time: {caches} caches are not complete", err=True)
        return _INCOMPLETE
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
        *names("Cell", "Arm"),
        *figures("Overlap", "Caches", "Path", "Launch", "Between", "Forward", "Exposed"),
        *figures("Step", "Step of the model", "Departure"),
        *figures("Saved", "Saved in the model", "More than in the model"),
        Column("Verdict", ColumnKind.WORDS),
    )
    rows = []
    for caches, cell, arm, _, overlap, order in orders(files):
        times = ("path", "launch", "between", "forward", "exposed", "step", "predicted_step")
        shown = [format_part(getattr(order, name)) for name in times]
        words = (cell, arm, "yes" if overlap else "no", caches)
        saved = [
            "" if time is None else format_interval(time)
            for time in (order.saved, order.predicted_saved, order.unpredicted)
        ]
        rows.append((*words, *shown, f"{order.departure:.1%}", *saved, order.verdict or ""))
    return Table.of(columns, rows)


def draw(files: Sequence[tuple[str, OverlapFile]], path: Path) -> None:
    """Draw what was saved over what the model predicts, and a band of 5 % around that."""
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    found = [
        (arm, index, overlap, order.predicted_saved, order.saved)
        for _, _, arm, index, overlap, order in orders(files)
        if order.predicted_saved is not None and order.saved is not None
    ]
    most = 1.1e3 * max((each.value for *_, each, _ in found), default=1e-3)
    axes.plot([0, most], [0, most], color="black", linewidth=0.8)
    axes.fill_between(
        *([0, most], [0, most * (1 - LIMIT)], [0, most * (1 + LIMIT)]), color="#777777", alpha=0.2
    )
    labelled = set()
    for arm, index, overlap, predicted, saved in found:
        label = f"{arm}, {'overlap' if overlap else 'no overlap'}"
        half = saved.high - saved.value
        axes.errorbar(
            1e3 * predicted.value,
            1e3 * saved.value,
            # Of one process there is none.
            yerr=1e3 * half if math.isfinite(half) else None,
            fmt="o" if overlap else "s",
            color=_COLOURS[index % len(_COLOURS)],
            markerfacecolor="none",
            label=None if label in labelled else label,
        )
        labelled.add(label)
    axes.set(xlabel="saved in the model, ms", ylabel="saved, ms")
    axes.legend(fontsize=8)
    # Without a date: the same samples give the same file.
    mpl.rcParams["svg.hashsalt"] = "gpu overlap"
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def conclude(files: Sequence[tuple[str, OverlapFile]]) -> tuple[str, int]:
    """Return what the figures say of the claim, in words and as the exit code."""
    verdicts = [order.verdict for *_, order in orders(files) if order.verdict is not None]
    holds, departs = verdicts.count("holds"), verdicts.count("departs")
    unclear = verdicts.count("inconclusive")
    words = (
        f"Of {len(verdicts)} comparisons with the first arm, steps differ by what the model "
        f"predicts, within {LIMIT:.0%} of it, in {holds}; by something else in {departs}; "
        f"inconclusive: {unclear}."
    )
    is_complete = {caches for caches, _ in files} == set(_CACHES) and all(
        len(file.cells) == len(file.plan.scenarios)
        and all(cell.failure is None for cell in file.cells)
        for _, file in files
    )
    if not is_complete:
        return f"{words}\nIncomplete: a worker failed, or there was no time left.", _INCOMPLETE
    if departs:
        return words, _DEPARTS
    return words, 0 if holds and not unclear else _INCONCLUSIVE


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
    files = []
    for caches in _CACHES:
        path = folder / f"gpu-overlap-{caches}.json"
        # One of an earlier run is no result of this one.
        path.unlink(missing_ok=True)
        ended = measure(caches, path, until, options)
        if ended == 2:
            sys.exit(2)  # The command has said why.
        if path.exists():
            files.append((caches, read_overlap(path)))
    words, code = conclude(files)
    text = words
    if files:
        where = [str(file.metadata["where"]) for _, file in files]
        text = "\n\n".join([render_table(table(files)), *where, words])
        (folder / "gpu-overlap.md").write_text(f"{text}\n")
        draw(files, folder / "gpu-overlap.svg")
    click.echo(text)
    sys.exit(code)


if __name__ == "__main__":
    main()
