"""Counted machine instructions of two arms, as tables, text and JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from harness.compare.duet import Duet
from harness.compare.file import finite
from harness.compare.instructions import RUNS, WARMUPS, CellCount, Valgrind, iterations_of
from reports.render.cells import pair_columns
from reports.render.formats import write_parts
from reports.render.table import Table, Value, figure, figures
from reports.render.words import code, counted
from scenarios.scenario import SteadyDecode


def write_instructions(
    duet: Duet,
    valgrind: Valgrind,
    results: Sequence[CellCount],
    metadata: Mapping[str, object],
    style: str,
    file: TextIO,
) -> None:
    """Write counted instructions to ``file``.

    Args:
        duet: the arms and the cells.
        valgrind: what counted.
        results: the cells that are finished.
        metadata: what names the machine, the code and the command.
        style: ``terminal``, ``markdown`` or ``json``.
        file: where to.
    """
    if style == "json":
        file.write(_json(duet, valgrind, results, metadata))
        return
    parts: list[Table | str] = [_headline(results), _table(duet, results)]
    missing = len(duet.scenarios) - len(results)
    if missing:
        parts.insert(0, f"Incomplete: {counted(missing, 'cell')} of {len(duet.scenarios)} missing.")
    parts += [f"{result.scenario.name}: {result.failure}." for result in results if result.failure]
    parts += [
        f"{result.scenario.name}: the runs differ: {code(duet.a.spec)} {_extent(result, 0)}, "
        f"{code(duet.b.spec)} {_extent(result, 1)}; the medians are shown."
        for result in results
        if result.runs and not result.is_identical
    ]
    parts += [
        f"Work depends on the hash seed: {code(spec)} in {result.scenario.name}: instructions "
        f"{_range(*extent)}."
        for result in results
        for arm, spec in enumerate((duet.a.spec, duet.b.spec))
        if (extent := result.by_hash(arm)) is not None
    ]
    parts.append(_how(duet, valgrind, results, metadata))
    write_parts(parts, style, file)


def _headline(results: Sequence[CellCount]) -> str:
    differing = sum(bool(result.runs) and not result.is_identical for result in results)
    identical = sum(result.is_identical for result in results)
    words = [f"identical over {RUNS} runs in {counted(identical, 'cell')}"]
    words += [f"not identical in {counted(differing, 'cell')}"] if differing else []
    without = len(results) - identical - differing
    words += [f"not counted in {counted(without, 'cell')}"] if without else []
    return (
        f"Machine instructions per iteration: {', '.join(words)}. Advisory: instructions are not "
        "time, and no verdict is given."
    )


def _table(duet: Duet, results: Sequence[CellCount]) -> Table:
    scenarios = [result.scenario for result in results]
    head, texts = pair_columns(duet.a.spec, duet.b.spec, scenarios)
    columns = (
        *head,
        *figures("Ratio", "Difference", "Iterations", f"{RUNS} runs"),
    )
    rows: list[tuple[Value | str, ...]] = [
        (*cell, *_figures(result)) for result, cell in zip(results, texts, strict=True)
    ]
    return Table.of(columns, rows)


def _figures(result: CellCount) -> tuple[Value | str, ...]:
    if not result.runs:
        return ("not counted", "not counted", "-", "-", "-", "-")
    return (
        *(figure(_number(one), one) for one in map(result.per_iteration, (0, 1))),
        figure("-" if math.isnan(result.ratio) else f"{result.ratio:.5f}", result.ratio),
        figure(f"{result.difference:+,.1f}" if result.difference else "0", result.difference),
        figure(f"{result.iterations}", result.iterations),
        "identical" if result.is_identical else "differ",
    )


def _number(value: float) -> str:
    return f"{value:,.1f}"


def _extent(result: CellCount, arm: int) -> str:
    return _range(*result.extent(arm))


def _range(low: float, high: float) -> str:
    return _number(low) if low == high else f"{_number(low)} to {_number(high)}"


def _how(
    duet: Duet, valgrind: Valgrind, results: Sequence[CellCount], metadata: Mapping[str, object]
) -> str:
    short = any(
        isinstance(scenario, SteadyDecode) and iterations_of(scenario) < scenario.tokens_per_block
        for scenario in duet.scenarios
    )
    crossings = (
        "Where fewer iterations are counted than a block has tokens, the crossing of block "
        "boundaries can weigh more or less than it does in the long run. "
        if short
        else ""
    )
    took = max((result.took for result in results), default=0.0)
    return (
        f"Valgrind {valgrind.version} (callgrind) counted what a call of each arm executes, "
        "without what a call that does nothing does, as a mean over the given iterations after "
        f"{counted(WARMUPS, 'iteration')} of warm-up, in each of {RUNS} fresh processes with the "
        "same hash seed and input seed and the collector off; two more under other hash seeds tell "
        "whether the work depends on them. Both arms begin with the same "
        f"memory and see the same workload. {crossings}A difference of a few hundredths of a per "
        "cent can come from where things lie in memory. Counts hold for this Python, its C library "
        "and this machine's kind of processor. How long an instruction takes, waits for memory "
        f"above all, is not in them. The longest cell took {took:.1f} s. {metadata['where']} Seed "
        f"{duet.seed}. Repeat with {code(str(metadata['command']))}."
    )


def _json(
    duet: Duet, valgrind: Valgrind, results: Sequence[CellCount], metadata: Mapping[str, object]
) -> str:
    document: dict[str, Any] = {
        "a": duet.a.spec,
        "b": duet.b.spec,
        "provider": duet.provider,
        "measure": "instructions",
        "valgrind": valgrind.version,
        "verdict": None,
        "metadata": dict(metadata),
        "cells_missing": len(duet.scenarios) - len(results),
        "cells": [
            {
                "cell": result.scenario.name,
                "scenario": result.scenario.to_dict(),
                "iterations": result.iterations,
                # Per iteration.
                **finite(
                    {
                        "instructions_a": result.per_iteration(0),
                        "instructions_b": result.per_iteration(1),
                        "ratio": result.ratio,
                        "difference": result.difference,
                    }
                ),
                # Of all iterations together, of both arms: [run][arm].
                "runs": result.runs,
                "identical": result.is_identical,
                "other_hash_seeds": result.others,
                "depends_on_hash_seed": [result.by_hash(arm) is not None for arm in (0, 1)],
                "failure": result.failure,
                "took": result.took,
            }
            for result in results
        ],
    }
    return json.dumps(document, indent=2) + "\n"
