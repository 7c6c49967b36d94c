"""Times of a results file beside those of an earlier one of the same machine."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

from harness.arms.conditions import conditions, differences, sentence
from harness.arms.environment import from_metadata
from harness.arms.revision import revision_words
from harness.speedup.file import Results
from harness.speedup.pytest_results import TOOL
from harness.stats.estimates import Estimate, student_t
from harness.system.fingerprint import DIGEST, check_same_fingerprint
from reports.render.cells import cell_columns
from reports.render.formats import Format, write_parts
from reports.render.numbers import is_open, time_value
from reports.render.table import Table, Value, figures, names
from reports.render.words import code
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import NoBaselineError

from . import frame
from .summary import Cell, Summary, summarise

_CAUTION = (
    "Ratio is the time over the baseline's: above 1 it took longer. Times are medians; the ratio "
    "is one of geometric means over processes, so that it can differ from theirs, with Welch's "
    "interval at 95 %, since processes of two runs are no pairs. This is no verdict: between two "
    "runs the machine drifts, which no interval shows. For a verdict run both side by side: "
    "`stepbench compare`."
)


@dataclass(frozen=True)
class Change:
    """One arm of one cell in both files.

    Attributes:
        cell: the cell, as the later file has it.
        arm: the arm.
        before, after: time of an iteration in the baseline and in the file, in seconds.
        ratio: the latter over the former, over processes.
    """

    cell: Cell
    arm: str
    before: Estimate
    after: Estimate
    ratio: Estimate


@dataclass(frozen=True)
class Comparison:
    """What two results files have in common, and what not.

    Attributes:
        file, baseline: their paths.
        machine: the fingerprint of the machine.
        changes: each arm of each cell that both have, in the file's order.
        only_file, only_baseline: ``CELL/ARM`` that one of them alone has.
        notes: sentences that a reader must not miss.
    """

    file: str
    baseline: str
    machine: str
    changes: tuple[Change, ...]
    only_file: tuple[str, ...]
    only_baseline: tuple[str, ...]
    notes: tuple[str, ...]


def compare_files(results: Results, baseline: Results) -> Comparison:
    """Return the times of ``results`` beside those of ``baseline``.

    Raises:
        NoBaselineError: they are of two machines, or that cannot be known, or they have no arm of
            a cell in common.
    """
    file, other = str(results.path), str(baseline.path)
    check_same_fingerprint(file, results.metadata, other, baseline.metadata)
    summary, earlier_summary = summarise(results), summarise(baseline)
    after, before = _measured(summary), _measured(earlier_summary)
    logs, logs_before = _process_logs(summary), _process_logs(earlier_summary)
    changes = []
    for key, cell in after.items():
        if key in before:
            earlier, arm = before[key], key[1]
            own, others = logs[cell.scenario.name, arm], logs_before[earlier.scenario.name, arm]
            ratio = unpaired_ratio(own, others)
            changes.append(Change(cell, arm, earlier.seconds[arm], cell.seconds[arm], ratio))
    if not changes:
        raise NoBaselineError(f"{file} and {other} have no arm of a cell in common")
    only_file, only_baseline = _only(after, before), _only(before, after)
    notes = [
        *_missing(only_file, file),
        *_missing(only_baseline, other),
        *_differences(results, baseline),
        *_environments(results),
    ]
    return Comparison(
        file,
        other,
        str(results.metadata[DIGEST]),
        tuple(changes),
        only_file,
        only_baseline,
        tuple(notes),
    )


def unpaired_ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the ratio of two geometric means with Welch's interval.

    With the degrees of freedom of Welch and Satterthwaite, rounded down (B. L. Welch, "The
    generalization of Student's problem when several different population variances are
    involved", Biometrika 34, 1947).

    Args:
        above: logarithm of the figure for each process; without a second one, no interval.
        below: the same of the other figure.
    """
    middle = float(np.mean(above) - np.mean(below))
    if min(len(above), len(below)) < 2:
        return Estimate(math.exp(middle), 0.0, math.inf)
    parts = [float(np.var(logs, ddof=1)) / len(logs) for logs in (above, below)]
    weights = [part**2 / (len(logs) - 1) for part, logs in zip(parts, (above, below), strict=True)]
    half = 0.0
    if sum(weights) > 0:
        degrees = max(1, int(sum(parts) ** 2 / sum(weights)))
        half = student_t(degrees) * math.sqrt(sum(parts))
    return Estimate(math.exp(middle), math.exp(middle - half), math.exp(middle + half))


def write_comparison(comparison: Comparison, style: Format, file: TextIO) -> None:
    """Write a comparison to ``file`` in the format ``style``; CSV has the common rows alone."""
    if style == "json":
        file.write(_json(comparison))
        return
    if style == "csv":
        file.write(_csv(comparison))
        return
    parts: list[Table | str] = [
        f"Times of {comparison.file} beside the baseline {comparison.baseline}, both measured on "
        f"machine {comparison.machine}:",
        _table(comparison),
        *comparison.notes,
        _CAUTION,
    ]
    write_parts(parts, style, file)


# A cell's scenario, without where a trace lies, and an arm.
_Key = tuple[str, str]


def _measured(summary: Summary) -> dict[_Key, Cell]:
    """Return the cell of each arm that has a time."""
    return {(_identity(cell.scenario), arm): cell for cell in summary.cells for arm in cell.seconds}


def _identity(scenario: SteadyDecode | TraceReplay) -> str:
    values = {name: value for name, value in scenario.to_dict().items() if name != "path"}
    return f"{scenario.name} {json.dumps(values, sort_keys=True)}"


def _process_logs(summary: Summary) -> dict[tuple[str, str], list[float]]:
    """Return the logarithm of each process's time by cell and arm."""
    processes = frame.process_figures(summary.rounds)
    return {
        (cell, arm): np.log(frame.complete_processes(own, [arm])[arm]).tolist()
        for cell, own in frame.by_cell(processes).items()
        for arm in processes.columns
    }


def _only(these: Mapping[_Key, Cell], those: Mapping[_Key, Cell]) -> tuple[str, ...]:
    return tuple(f"{these[key].scenario.name}/{key[1]}" for key in these if key not in those)


def _missing(names: Sequence[str], file: str) -> list[str]:
    return [f"Only in {file}: {', '.join(names)}."] if names else []


def _differences(results: Results, baseline: Results) -> list[str]:
    return sentence(differences(_conditions(baseline), _conditions(results)))


def _environments(results: Results) -> list[str]:
    """Return a sentence on each arm that reads variables of the environment."""
    found = {
        arm: environment.words()
        for _, run in results.runs()
        for arm, environment in from_metadata(run.get_metadata()).items()
    }
    return [f"{code(arm)} {words}." for arm, words in found.items()]


def _conditions(results: Results) -> dict[str, str]:
    """Return by name what makes times differ that are of the same code."""
    plan, protocol = results.plan, results.plan.protocol
    runs = [run.get_metadata() for _, run in results.runs()]
    # More than one where a measurement was carried on with after a change.
    revisions = dict.fromkeys(map(revision_words, runs))
    return {
        "tool": str(results.metadata.get(TOOL, "stepbench")),
        "provider": plan.provider,
        "revision": " and ".join(revisions),
        "garbage collector": "on" if plan.gc else "off",
        "protocol": (
            f"{protocol.processes} x ({protocol.warmups} + {protocol.rounds} x {protocol.samples})"
        ),
        "seed": str(plan.seed),
        "pinned core": "none" if plan.cpu is None else str(plan.cpu),
        **{f"source of {arm}": digest[:12] for arm, digest in plan.sources.items()},
        **conditions(runs),
    }


def _table(comparison: Comparison) -> Table:
    cells = [change.cell for change in comparison.changes]
    head, texts = cell_columns([(cell.scenario, cell.requests, cell.tokens) for cell in cells])
    rows: list[tuple[Value | str, ...]] = [
        (
            *words,
            change.arm,
            time_value(change.before.value),
            time_value(change.after.value),
            Value(_ratio(change.ratio), change.ratio.value),
        )
        for words, change in zip(texts, comparison.changes, strict=True)
    ]
    columns = (*head, *names("Arm"), *figures("Baseline", "Time", "Ratio (95 % interval)"))
    return Table.of(columns, rows)


def _ratio(ratio: Estimate) -> str:
    if is_open(ratio):
        return f"{ratio.value:.3f} (one process: no interval)"
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _json(comparison: Comparison) -> str:
    """Return one JSON document; times in seconds, null for an interval that there is not."""
    document = {
        "file": comparison.file,
        "baseline": comparison.baseline,
        "machine": comparison.machine,
        "cells": [
            {
                "cell": change.cell.scenario.name,
                "scenario": change.cell.scenario.to_dict(),
                "arm": change.arm,
                "baseline_seconds": _interval(change.before),
                "seconds": _interval(change.after),
                "ratio": _interval(change.ratio),
            }
            for change in comparison.changes
        ],
        "only_file": comparison.only_file,
        "only_baseline": comparison.only_baseline,
        "notes": comparison.notes,
        "caution": _CAUTION,
    }
    return json.dumps(document, indent=2) + "\n"


def _csv(comparison: Comparison) -> str:
    # A quarter of a second, for this format alone.
    import pandas as pd

    rows = []
    for change in comparison.changes:
        row: dict[str, Any] = {"cell": change.cell.scenario.name, "arm": change.arm}
        figures = (change.before, change.after, change.ratio)
        for name, figure in zip(("baseline_seconds", "seconds", "ratio"), figures, strict=True):
            value, low, high = _interval(figure).values()
            row |= {name: value, f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows).to_csv(index=False)


def _interval(figure: Estimate) -> dict[str, float | None]:
    low, high = (None, None) if is_open(figure) else (figure.low, figure.high)
    return {"value": figure.value, "low": low, "high": high}
