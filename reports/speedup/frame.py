"""Samples to tidy frames: samples -> round medians -> figures.

pandas is imported by what makes a frame: it takes a quarter of a second, which a report without
samples need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.speedup.file import Results

if TYPE_CHECKING:
    import pandas as pd


def samples_frame(results: Results) -> pd.DataFrame:
    """Return one row a sample.

    Columns: ``cell`` and ``arm`` (str), ``process``, ``round`` and ``iteration`` (int, each from
    0; iterations count within a process), ``seconds`` (float).
    """
    import pandas as pd

    size = results.plan.protocol.samples
    parts = []
    for job, run in results.runs():
        values = np.asarray(run.values)
        iterations = np.arange(len(values))
        parts.append(
            pd.DataFrame(
                {
                    "cell": job.scenario.name,
                    "arm": job.arm,
                    "process": job.process,
                    "round": iterations // size,
                    "iteration": iterations,
                    "seconds": values,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def round_medians(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the median of each round: ``cell``, ``arm``, ``process``, ``round``, ``seconds``."""
    keys = ["cell", "arm", "process", "round"]
    return samples.groupby(keys, sort=False)["seconds"].median().reset_index()


def figures(rounds: pd.DataFrame) -> pd.Series:
    """Return the median of the round medians in seconds, by ``(cell, arm)``."""
    return rounds.groupby(["cell", "arm"], sort=False)["seconds"].median()


def process_figures(rounds: pd.DataFrame) -> pd.DataFrame:
    """Return the median of a process's round medians in seconds.

    One row per ``(cell, process)``, one column per arm; NaN where a process is missing.
    """
    medians = rounds.groupby(["cell", "process", "arm"], sort=False)["seconds"].median()
    return medians.unstack("arm")


def ratios(rounds: pd.DataFrame, above: str, below: str) -> list[float]:
    """Return the log ratio of two arms of each process, of rounds that followed each other.

    Args:
        rounds: the rows of ``round_medians`` of one cell.
        above: the arm whose time stands above the line.
        below: the other.
    """
    own = rounds.pivot(index=["process", "round"], columns="arm", values="seconds")
    pairs = own.reindex(columns=[above, below]).dropna()
    logs = np.log(pairs[above]) - np.log(pairs[below])
    return [float(value) for value in logs.groupby(level="process").median()]


def run_means(results: Results, field: str) -> pd.Series:
    """Return the mean over the processes of one of our numbers in their metadata, by cell.

    Raises KeyError for a field that the runs do not have.
    """
    import pandas as pd

    rows = [(job.scenario.name, run.get_metadata()[field]) for job, run in results.runs()]
    frame = pd.DataFrame(rows, columns=["cell", "value"])
    return frame.groupby("cell", sort=False)["value"].mean()


def by_cell(processes: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of ``process_figures`` of each cell."""
    return {str(cell): own for cell, own in processes.groupby(level="cell", sort=False)}


def complete_processes(own: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the rows of a cell (see ``by_cell``) in which all of ``arms`` were measured."""
    return own.reindex(columns=list(arms)).dropna()
