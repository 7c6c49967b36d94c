"""The history: a folder of Parquet files, one a run, to which files are only ever added.

The folder is a local one or any address that fsspec knows. A file is named by when the run was
measured and by the digest of its results file: a run that is added twice is one file, and writers
do not get in each other's way. A row is one arm of one cell; what is true of the whole run stands
in each, so that any tool that reads Parquet can take the folder as one table. The samples stand
beside the figures, in a column that is read only by what needs it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from harness.stats.estimates import Estimate
from harness.system.files import write_atomically
from stepbench_core.errors import InputError, NoBaselineError

FORMAT = 1
SUFFIX = ".parquet"

# Names of what is noted about a file as a whole.
_FORMAT = b"stepbench_history_format"
_METADATA = b"stepbench_metadata"

# Requests to a remote store on their way at the same time.
_THREADS = 16


def _always(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


# Of the run, the same in all rows of a file.
_RUN = (
    _always("file", pa.string()),
    _always("date", pa.timestamp("us")),
    pa.field("machine", pa.string()),
    _always("host", pa.string()),
    _always("cpu", pa.string()),
    _always("python", pa.string()),
    _always("provider", pa.string()),
    _always("tool", pa.string()),
    _always("gc", pa.bool_()),
    _always("version", pa.string()),
    _always("revision", pa.string()),
    _always("round_size", pa.int32()),
)
# Of one arm of one cell.
_ARM = (
    _always("cell", pa.string()),
    _always("arm", pa.string()),
    pa.field("source", pa.string()),
    _always("requests", pa.float64()),
    _always("tokens", pa.float64()),
    _always("seconds", pa.float64()),
    pa.field("low", pa.float64()),
    pa.field("high", pa.float64()),
    _always("processes", pa.list_(pa.int32())),
    _always("samples", pa.list_(pa.list_(pa.float64()))),
)
SCHEMA = pa.schema([*_RUN, *_ARM])


@dataclass(frozen=True)
class ArmOfRun:
    """One arm of one cell.

    Attributes:
        cell, arm: their names.
        source: the digest of the arm's source where the name says where that is.
        requests: mean number of requests in the batch.
        tokens: mean tokens per request.
        seconds: time of an iteration with its interval over processes.
        processes: the numbers of the processes that were finished.
        samples: the timed iterations of each of them, in seconds.
    """

    cell: str
    arm: str
    source: str | None
    requests: float
    tokens: float
    seconds: Estimate
    processes: tuple[int, ...]
    samples: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Run:
    """One run: what a results file holds.

    Attributes:
        date: when its first process started, by the clock on the wall where it was measured.
        machine: the machine's fingerprint; None where it was not noted.
        host, cpu: names of the machine and of its processor, for a reader.
        python: implementation and version.
        provider: where the stand-ins' native part came from.
        tool: what measured.
        gc: whether the garbage collector ran.
        version, revision: of stepbench.
        round_size: samples of a round.
        arms: what was measured.
        metadata: all that the results file notes of all its processes.
    """

    date: datetime
    machine: str | None
    host: str
    cpu: str
    python: str
    provider: str
    tool: str
    gc: bool
    version: str
    revision: str
    round_size: int
    arms: tuple[ArmOfRun, ...]
    metadata: Mapping[str, object]


@dataclass(frozen=True)
class Folder:
    """Where a history is.

    Attributes:
        address: as it was named.
        system: the fsspec file system.
        path: the folder in that.
    """

    address: str
    system: Any
    path: str

    def place(self, name: str) -> str:
        """Return how a message names a file."""
        return f"{self.address.rstrip('/')}/{name}"


def find_folder(address: str) -> Folder:
    """Return the folder at a path or an address; it need not be there.

    Raises:
        InputError: no file system is known by that name, or what it needs is not installed.
    """
    try:
        system, path = url_to_fs(address)
    except Exception as error:  # Each file system raises its own.
        raise _failed(address, error) from None
    return Folder(address, system, path.rstrip("/") or path)


def list_names(folder: Folder) -> list[str]:
    """Return the names of the runs' files, oldest first; none where there is no folder.

    Raises:
        InputError: the folder cannot be listed, or is a file.
    """
    try:
        is_file = folder.system.isfile(folder.path)
        found = [] if is_file else folder.system.ls(folder.path, detail=False)
    except FileNotFoundError:
        return []
    except Exception as error:
        raise _failed(folder.address, error) from None
    if is_file:
        raise InputError(f"{folder.address}: a file, not a folder")
    names = (str(path).rstrip("/").rpartition("/")[2] for path in found)
    # What begins with a dot is on its way to become one.
    return sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith("."))


def file_name(run: Run, digest: str) -> str:
    """Return the name of a run's file.

    Args:
        run: the run.
        digest: of the content of its results file.
    """
    return f"{run.date:%Y%m%dT%H%M%S}-{digest[:16]}{SUFFIX}"


def write_run(folder: Folder, name: str, run: Run) -> None:
    """Write a run into a folder, which is made if it is missing.

    The file is there whole or not at all. A store of objects shows one when all of it has arrived;
    a folder of this machine gets a temporary file that is renamed.

    Raises:
        InputError: it cannot be written.
    """
    sink = pa.BufferOutputStream()
    # Of a few rows, neither dictionaries nor statistics are worth their place.
    pq.write_table(
        _table(name, run),
        sink,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
    )
    data = sink.getvalue().to_pybytes()
    try:
        folder.system.makedirs(folder.path, exist_ok=True)
        if isinstance(folder.system, LocalFileSystem):
            write_atomically(Path(folder.path, name), lambda file: file.write(data), "wb")
        else:
            folder.system.pipe_file(f"{folder.path}/{name}", data)
    except InputError:
        raise
    except Exception as error:
        raise _failed(folder.place(name), error) from None


def read_runs(folder: Folder, columns: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Read columns of all runs, oldest run first.

    Args:
        folder: the history.
        columns: which of those of ``SCHEMA``.

    Returns:
        The rows, with their columns in the order of ``SCHEMA``, and a sentence on each file that is
        damaged or foreign and was skipped.

    Raises:
        InputError: the folder cannot be listed.
        NoBaselineError: there is none, or nothing in it.
    """
    names = list_names(folder)
    if not names:
        raise NoBaselineError(f"{folder.address}: no history: no such folder, or no run in it")
    wanted = pa.schema([field for field in SCHEMA if field.name in columns])
    if isinstance(folder.system, LocalFileSystem):
        found = [_read(folder, name, wanted) for name in names]
    else:
        with ThreadPoolExecutor(_THREADS) as pool:
            found = list(pool.map(lambda name: _read(folder, name, wanted), names))
    tables = [rows for rows in found if isinstance(rows, pa.Table)]
    table = pa.concat_tables(tables).combine_chunks() if tables else wanted.empty_table()
    return table, [problem for problem in found if isinstance(problem, str)]


def _read(folder: Folder, name: str, wanted: pa.Schema) -> pa.Table | str:
    """Return the columns of a file that are wanted, or what is wrong with it."""
    try:
        # For a thousand small files, threads and buffers of Arrow's cost more than they save.
        with _opened(folder, name) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
            version = (file.metadata.metadata or {}).get(_FORMAT)
            if version is None:
                return f"{folder.place(name)}: skipped: not a file of `stepbench history`"
            if version != str(FORMAT).encode():
                words = f"format {version.decode(errors='replace')}, this one reads {FORMAT}"
                return f"{folder.place(name)}: skipped: written by another stepbench: {words}"
            rows = file.read(wanted.names, use_threads=False)
    except Exception as error:  # Of a damaged file, anything.
        return f"{folder.place(name)}: skipped: damaged: {_words(error)}"
    if not rows.schema.equals(wanted):
        return f"{folder.place(name)}: skipped: damaged: its columns are others"
    return rows


def _opened(folder: Folder, name: str) -> Any:  # noqa: ANN401
    """Return a file, opened: of this machine by Arrow, which needs no Python to read it."""
    path = f"{folder.path}/{name}"
    if isinstance(folder.system, LocalFileSystem):
        return pa.OSFile(path)
    return folder.system.open(path, "rb")


def _table(name: str, run: Run) -> pa.Table:
    of_run = {"file": name, **{field.name: getattr(run, field.name) for field in _RUN[1:]}}
    rows = [
        {
            **of_run,
            **{field.name: getattr(arm, field.name, None) for field in _ARM},
            **_interval(arm.seconds),
        }
        for arm in run.arms
    ]
    metadata = json.dumps(dict(run.metadata), default=str)
    notes = {_FORMAT: str(FORMAT).encode(), _METADATA: metadata.encode()}
    return pa.Table.from_pylist(rows, SCHEMA.with_metadata(notes))


def _interval(seconds: Estimate) -> dict[str, float | None]:
    low, high = (seconds.low, seconds.high) if math.isfinite(seconds.high) else (None, None)
    return {"seconds": seconds.value, "low": low, "high": high}


def _failed(place: str, error: Exception) -> InputError:
    return InputError(f"{place}: {_words(error)}")


def _words(error: Exception) -> str:
    """Return what an error says, on one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())
