"""What a duet found, as tables, text and JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.file import finite
from harness.compare.verdict import overall, verdict_words
from harness.stats.estimates import Estimate
from harness.stats.means import TAIL
from reports.render.cells import pair_columns
from reports.render.formats import write_parts
from reports.render.numbers import time_value
from reports.render.table import UNKNOWN, State, Table, Value, figure, figures, words
from reports.render.words import code, counted

from .duet_words import alive, handed_on, how, means, middle, steps

# Logarithm of a ratio beyond which arms are no longer near-equal.
_FAR = 0.05
# Only what is worse is coloured.
_STATES = dict.fromkeys(Kind, State.NEUTRAL) | {Kind.SLOWER: State.BAD}


def write_duet(
    duet: Duet,
    results: Sequence[CellResult],
    metadata: Mapping[str, object],
    style: str,
    file: TextIO,
) -> None:
    """Write the verdicts of a duet to ``file``.

    Args:
        duet: what was compared.
        results: the cells.
        metadata: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(duet, results, metadata))
        return
    parts = [*duet_parts(duet, results), how(duet, results, metadata)]
    write_parts([headline(duet, results), *parts], style, file)


def duet_parts(duet: Duet, results: Sequence[CellResult]) -> list[Table | str]:
    """Return the table of the cells, and the sentences that a reader must not miss."""
    parts: list[Table | str] = [_table(duet, results)]
    missing = len(duet.scenarios) - len(results)
    if missing:
        parts.insert(0, f"Incomplete: {counted(missing, 'cell')} of {len(duet.scenarios)} missing.")
    parts += [_reason(result) for result in results if result.verdict.reason]
    parts += [words for result in results for words in steps(duet, result)]
    parts += handed_on(duet, results)
    busy = [
        f"core {core} in {result.scenario.name}, after "
        f"{counted(result.cores.count(core), 'process')}"
        for result in results
        for core in left_out(result.cores)
    ]
    if busy:
        parts.append(f"Other work had a core, and the cell went on without it: {'; '.join(busy)}.")
    if duet.a.digest == duet.b.digest and duet.a.variables == duet.b.variables:
        parts.append("Both arms are the same code: what they differ by here is noise.")
    is_one_process = not duet.is_apart and duet.subject is None
    if is_one_process and any(_is_far(result) for result in results):
        parts.append(
            "Arms that are far apart leave each other's caches in different states, which biases "
            "their ratio by several per cent: for named arms, take it from `speedup`."
        )
    return parts


def _reason(result: CellResult) -> str:
    """Return why there is no verdict, with the cell; a failure names it already."""
    cell, reason = result.scenario.name, result.verdict.reason
    return f"{cell}: {reason.removeprefix(f'cell {cell}, ')}."


def left_out(cores: Sequence[int | None]) -> list[int | None]:
    """Return the cores of a cell that were busy: each in use has the same number of processes.

    Args:
        cores: the core of each process.
    """
    most = max(map(cores.count, cores), default=0)
    return [core for core in dict.fromkeys(cores) if cores.count(core) < most]


def headline(duet: Duet, results: Sequence[CellResult]) -> str:
    """Return the verdict on all cells in one sentence."""
    kind = overall_of(duet, results)
    a, b = code(duet.a.spec), code(duet.b.spec)
    counts = {each: sum(result.verdict.kind == each for result in results) for each in Kind}
    details = ", ".join(f"{count} {each}" for each, count in counts.items() if count)
    words = {
        Kind.SLOWER: f"{b} is slower than {a}",
        Kind.FASTER: f"{b} is faster than {a}",
        Kind.NO_DIFFERENCE: f"no difference between {a} and {b} beyond {duet.threshold:.2%}",
        Kind.INCONCLUSIVE: f"inconclusive: no verdict on {b} against {a}",
    }
    return (
        f"{words[kind][0].upper()}{words[kind][1:]} ({counted(len(results), 'cell')}: {details})."
    )


def overall_of(duet: Duet, results: Sequence[CellResult]) -> Kind:
    """Return the verdict on the whole; of cells that are missing nothing can be said."""
    kind = overall(result.verdict.kind for result in results)
    is_whole = len(results) == len(duet.scenarios)
    return kind if is_whole or kind is Kind.SLOWER else Kind.INCONCLUSIVE


def _table(duet: Duet, results: Sequence[CellResult]) -> Table:
    scenarios = [result.scenario for result in results]
    head, texts = pair_columns(duet.a.spec, duet.b.spec, scenarios)
    columns = (
        *head,
        *figures("Ratio (95 % interval)", "Mean ratio", "Control", "Detectable", "Processes"),
        *words("Verdict"),
    )
    rows: list[tuple[Value | str, ...]] = []
    for result, cell in zip(results, texts, strict=True):
        verdict = result.verdict
        times = [_time(result, index) for index in (0, 1)]
        count = (
            f"{len(result.first)} + {len(result.second)}"
            if result.second
            else f"{len(result.first)}"
        )
        rows.append(
            (
                *cell,
                *times,
                _ratio(verdict.ratio),
                _ratio(verdict.mean),
                _share(verdict.reach),
                _share(verdict.detectable),
                figure(count, len(result.first) + len(result.second)),
                Value(verdict_words(verdict, duet.threshold), state=_STATES[verdict.kind]),
            )
        )
    return Table.of(columns, rows)


def _is_far(result: CellResult) -> bool:
    ratio = result.verdict.ratio
    return ratio is not None and abs(math.log(ratio.value)) > _FAR


def _time(result: CellResult, arm: int) -> Value:
    processes = result.first + result.second
    if not processes:
        return UNKNOWN
    return time_value(middle([process.seconds[arm] for process in processes]))


def _ratio(ratio: Estimate | None) -> Value:
    if ratio is None:
        return Value("-")
    return Value(f"{ratio.value:.4f} ({ratio.low:.4f} to {ratio.high:.4f})", ratio.value)


def _share(value: float) -> Value:
    return figure("-" if math.isnan(value) else f"{value:.2%}", value)


def _arm(result: CellResult, index: int) -> dict[str, Any]:
    """Return what was seen of one arm of a cell: times are in seconds."""
    processes, found = result.first + result.second, means(result)
    names = ("seconds", "tail", "background")
    mean, tail, background = (
        middle([getattr(each, name)[index] for each in found]) if found else None for name in names
    )
    return {
        "seconds": middle([each.seconds[index] for each in processes]) if processes else None,
        "mean_seconds": mean,
        f"p{TAIL}_seconds": tail,
        "background_cpu_seconds": background,
        "alive": sorted(set(alive(result, index))),
    }


def _json(duet: Duet, results: Sequence[CellResult], metadata: Mapping[str, object]) -> str:
    document: dict[str, Any] = {
        "a": duet.a.spec,
        "b": duet.b.spec,
        "provider": duet.provider,
        "threshold": duet.threshold,
        "comparisons": duet.rule.comparisons,
        "seconds": duet.seconds,
        "apart": duet.is_apart,
        "verdict": overall_of(duet, results),
        "metadata": dict(metadata),
        "cells_missing": len(duet.scenarios) - len(results),
        "cells": [
            {
                "cell": result.scenario.name,
                "scenario": result.scenario.to_dict(),
                **finite(asdict(result.verdict)),
                "arms": [_arm(result, index) for index in (0, 1)],
                "processes": len(result.first),
                "repeated": len(result.second),
                "cores_left_out": left_out(result.cores),
                "took": result.took,
            }
            for result in results
        ],
    }
    return json.dumps(document, indent=2) + "\n"
