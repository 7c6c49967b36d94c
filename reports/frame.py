"""Samples to tidy frames: samples -> round medians -> figures."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from harness.results import Results


def samples_frame(results: Results) -> pd.DataFrame:
    """Return one row a sample.

    Columns: ``cell`` and ``arm`` (str), ``process``, ``round`` and ``iteration`` (int, each from
    0; iterations count within a process), ``seconds`` (float).
    """
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


def run_means(results: Results, field: str) -> pd.Series:
    """Return the mean over the processes of one of our numbers in their metadata, by cell.

    Raises KeyError for a field that the runs do not have.
    """
    rows = [(job.scenario.name, run.get_metadata()[field]) for job, run in results.runs()]
    frame = pd.DataFrame(rows, columns=["cell", "value"])
    return frame.groupby("cell", sort=False)["value"].mean()


def complete_processes(processes: pd.DataFrame, cell: str, arms: Sequence[str]) -> pd.DataFrame:
    """Return the rows of ``process_figures`` of a cell in which all of ``arms`` were measured."""
    own = processes[processes.index.get_level_values("cell") == cell]
    return own.reindex(columns=list(arms)).dropna()
