"""The history as one table for other tools: figures, or every sample, as CSV, JSON or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from harness.history.history import SCHEMA

FORMATS = ("csv", "json", "parquet")

# What is true of the whole run.
_OF_RUN = (
    "file",
    "date",
    "machine",
    "host",
    "cpu",
    "python",
    "provider",
    "tool",
    "gc",
    "version",
    "revision",
)
_FIGURES = (*_OF_RUN, "cell", "arm", "source", "requests", "tokens", "seconds", "low", "high")
# Of a sample only what says which it is: the rest stands in the figures of the same file.
_SAMPLES = (
    "file",
    "date",
    "machine",
    "python",
    "provider",
    "tool",
    "gc",
    "revision",
    "cell",
    "arm",
)

_BATCH = 10_000


def export_columns(*, samples: bool) -> tuple[str, ...]:
    """Return the columns of the history that an export needs."""
    return (
        (*_SAMPLES, "round_size", "processes", "samples") if samples else (*_FIGURES, "processes")
    )


def figures_table(table: pa.Table) -> pa.Table:
    """Return one row for each arm of each cell of each run, with the number of its processes.

    Times are in seconds; ``low`` and ``high`` are null where one process gave no interval.
    """
    counts = pc.cast(pc.list_value_length(table["processes"]), pa.int64())
    return table.select(_FIGURES).append_column("processes", counts)


def samples_table(table: pa.Table) -> pa.Table:
    """Return one row for each sample, in the order in which they were taken.

    Columns: ``file`` to ``arm``, ``process``, ``round`` and ``iteration`` (from 0; iterations count
    within a process), ``seconds``.
    """
    rows = table.combine_chunks()
    # Rows hold processes, which hold samples: two levels of lists, one after the other.
    processes = _whole(rows, "samples")
    values = processes.flatten()
    row_of_process = pc.list_parent_indices(processes).to_numpy()
    process_of_value = pc.list_parent_indices(values).to_numpy()
    row_of_value = row_of_process[process_of_value]
    lengths = np.bincount(process_of_value, minlength=len(values))
    iterations = np.arange(len(row_of_value)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    sizes = _whole(rows, "round_size").to_numpy()
    numbers = _whole(rows, "processes").flatten().to_numpy()
    return (
        rows.select(_SAMPLES)
        .take(pa.array(row_of_value))
        .append_column("process", pa.array(numbers[process_of_value]))
        .append_column("round", pa.array(iterations // sizes[row_of_value]))
        .append_column("iteration", pa.array(iterations))
        .append_column("seconds", values.flatten())
    )


def write_export(
    table: pa.Table,
    style: str,
    file: IO[bytes],
    progress: Callable[[int], None] = lambda _count: None,
) -> None:
    """Write a table to a file.

    Args:
        table: the rows.
        style: one of ``FORMATS``; JSON is one array with an object a row.
        file: where to.
        progress: called with the number of rows after each part that is written.
    """
    if style == "parquet":
        pq.write_table(table, file)
        progress(len(table))
        return
    batches = table.to_batches(_BATCH)
    if style == "csv":
        with csv.CSVWriter(file, table.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                progress(len(batch))
        return
    before = b"["
    for batch in batches:
        for row in batch.to_pylist():
            row["date"] = row["date"].isoformat()
            file.write(before + b"\n" + json.dumps(row).encode())
            before = b","
        progress(len(batch))
    file.write(b"\n]\n" if len(table) else b"[]\n")


def _whole(rows: pa.Table, name: str) -> pa.Array:
    """Return a column of a table as one array, of the type that the history has it."""
    column = rows[name]
    empty = pa.array([], SCHEMA.field(name).type)
    return column.chunk(0) if column.num_chunks else empty
