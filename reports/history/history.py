"""Runs of the history: from a results file to what is kept of it, and the list of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from harness.arms.revision import revision_words
from harness.history.history import ArmOfRun, Run
from harness.speedup.file import Results
from harness.speedup.pytest_results import TOOL
from harness.system.fingerprint import DIGEST
from reports.render.formats import write_parts
from reports.render.table import Table, words
from reports.speedup.summary import summarise
from stepbench_core.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

# What `show` reads of the history.
COLUMNS = ("file", "date", "machine", "python", "provider", "revision", "cell", "arm")

UNKNOWN = "unknown"


def run_of(results: Results) -> Run:
    """Return what the history keeps of a results file: its figures and every sample.

    Raises:
        InputError: it does not say when it was measured.
    """
    dates = results.suite.get_dates()
    if not dates:
        raise InputError(f"{results.path}: does not say when it was measured")
    field, plan = results.metadata.get, results.plan
    samples: dict[tuple[str, str], dict[int, tuple[float, ...]]] = {}
    for job, run in results.runs():
        of_arm = samples.setdefault((job.scenario.name, job.arm), {})
        of_arm[job.process] = tuple(map(float, run.values))
    arms = [
        ArmOfRun(
            cell=cell.scenario.name,
            arm=arm,
            source=plan.sources.get(arm),
            requests=cell.requests,
            tokens=cell.tokens,
            seconds=seconds,
            processes=tuple(samples[cell.scenario.name, arm]),
            samples=tuple(samples[cell.scenario.name, arm].values()),
        )
        for cell in summarise(results).cells
        for arm, seconds in cell.seconds.items()
    ]
    machine = field(DIGEST)
    return Run(
        # By the clock on the wall there: the runs of one machine are put in order by it.
        date=dates[0].replace(tzinfo=None),
        machine=None if machine is None else str(machine),
        host=str(field("hostname", UNKNOWN)),
        cpu=str(field("cpu_model_name", UNKNOWN)),
        python=f"{field('python_implementation', 'Python')} {field('python_version', UNKNOWN)}",
        provider=plan.provider,
        # Without its version: a later one of the tool goes on with the same trends.
        tool=str(field(TOOL, "stepbench")).partition(" ")[0],
        gc=plan.gc,
        version=str(field("stepbench_version", UNKNOWN)),
        revision=_revision(results),
        round_size=plan.protocol.samples,
        arms=tuple(arms),
        metadata={**results.metadata, "stepbench_plan": plan.to_json()},
    )


def write_runs(table: pa.Table, skipped: Sequence[str], style: str, file: TextIO) -> None:
    """Write what runs there are, oldest first.

    Args:
        table: the ``COLUMNS`` of the history.
        skipped: a sentence on each file that could not be read.
        style: ``terminal``, ``markdown``, ``csv`` or ``json``.
        file: where to.
    """
    runs = _runs(table)
    if style == "json":
        file.write(json.dumps({"runs": runs, "skipped": list(skipped)}, indent=2) + "\n")
    elif style == "csv":
        file.write(_csv(runs))
    else:
        columns = words("Date", "Machine", "Revision", "Cells", "Arms", "File")
        write_parts([Table.of(columns, map(_row, runs))], style, file)


def _runs(table: pa.Table) -> list[dict[str, Any]]:
    """Return what ``show`` tells of each run."""
    runs: dict[str, dict[str, Any]] = {}
    for row in table.to_pylist():
        run = runs.setdefault(
            row["file"],
            {
                "file": row["file"],
                "date": row["date"].isoformat(timespec="seconds"),
                **{name: row[name] for name in ("machine", "python", "provider", "revision")},
                "cells": {},
                "arms": {},
            },
        )
        run["cells"][row["cell"]] = run["arms"][row["arm"]] = None
    return [{**run, "cells": [*run["cells"]], "arms": [*run["arms"]]} for run in runs.values()]


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        run["date"].replace("T", " ")[:16],
        run["machine"] or UNKNOWN,
        run["revision"],
        f"{len(run['cells']):,}",
        ", ".join(run["arms"]),
        run["file"],
    )


def _csv(runs: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("file", "date", "machine", "python", "provider", "revision", "cells", "arms"))
    writer.writerows(
        (
            *(run[name] for name in ("file", "date", "machine", "python", "provider", "revision")),
            " ".join(run["cells"]),
            " ".join(run["arms"]),
        )
        for run in runs
    )
    return file.getvalue()


def _revision(results: Results) -> str:
    """Return the revision of stepbench, as tables have it."""
    # More than one where a measurement was carried on with after a change.
    words = dict.fromkeys(
        revision_words(run.get_metadata(), why=False) for _, run in results.runs()
    )
    return " and ".join(words)
