"""What a results file says, independent of the format that it is printed in."""

import math
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.results import MACHINE_FIELDS, Results
from harness.statistics import Estimate, crossover, estimate
from scenarios.scenario import SteadyDecode, TraceReplay

from . import frame
from .provenance import provenance
from .words import counted


@dataclass(frozen=True)
class Cell:
    """The figures of one cell.

    Attributes:
        scenario: the cell.
        requests: mean number of requests in the batch.
        tokens: mean tokens per request over the timed iterations.
        seconds: time of an iteration by arm; arms without a finished process are missing.
        speedups: how many times as fast as the first arm each other arm is; where either is
            missing, so is the speedup.
        processes: finished processes by arm.
    """

    scenario: SteadyDecode | TraceReplay
    requests: float
    tokens: float
    seconds: dict[str, Estimate]
    speedups: dict[str, Estimate]
    processes: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """The figures of one results file.

    Attributes:
        file: its path.
        machine: what names the machine and its Python.
        arms: the arms; the first is what the others are compared with.
        cells: the cells that have at least one finished process, in the order of the plan.
        notes: sentences that a reader must not miss.
        provenance: one paragraph with everything that is needed to repeat the measurement.
    """

    file: str
    machine: tuple[str, ...]
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    provenance: str


def summarise(results: Results) -> Summary:
    """Return the figures of ``results``."""
    plan = results.plan
    rounds = frame.round_medians(frame.samples_frame(results))
    figures = frame.figures(rounds)
    processes = frame.process_figures(rounds)
    requests = frame.run_means(results, "stepbench_requests_mean")
    tokens = frame.run_means(results, "stepbench_tokens_mean")
    measured = set(requests.index)
    cells = tuple(
        _cell(
            scenario,
            plan.arms,
            figures,
            processes,
            float(requests[scenario.name]),
            float(tokens[scenario.name]),
        )
        for scenario in plan.scenarios
        if scenario.name in measured
    )
    notes = [
        *_slower(plan.arms, cells),
        *_crossovers(plan.arms, cells),
        *_missing(results, cells),
    ]
    return Summary(
        file=str(results.path),
        machine=results.machine,
        arms=plan.arms,
        cells=cells,
        notes=tuple(notes),
        provenance=provenance(results),
    )


def machines_note(summaries: Iterable[Summary]) -> str | None:
    """Return the warning that several machines are involved, or None if it is one."""
    machines = list(dict.fromkeys(summary.machine for summary in summaries))
    if len(machines) < 2:
        return None
    different = [
        field
        for field, values in zip(MACHINE_FIELDS, zip(*machines, strict=True), strict=True)
        if len(set(values)) > 1
    ]
    return (
        f"These results come from {len(machines)} different machines or Pythons (they differ in "
        f"{', '.join(different)}): compare speedups between the tables, never times."
    )


def _cell(
    scenario: SteadyDecode | TraceReplay,
    arms: tuple[str, ...],
    figures: pd.Series,
    processes: pd.DataFrame,
    requests: float,
    tokens: float,
) -> Cell:
    cell = scenario.name
    counts = {
        arm: len(frame.complete_processes(processes, cell, [arm]))
        for arm in arms
        if arm in processes.columns
    }
    seconds = {}
    for arm in arms:
        if counts.get(arm):
            own = frame.complete_processes(processes, cell, [arm])[arm]
            seconds[arm] = estimate(float(figures[cell, arm]), np.log(own).tolist())
    base, speedups = arms[0], {}
    for arm in arms[1:]:
        if base in seconds and arm in seconds:
            # Processes of the same number ran side by side, on the same input: pair them.
            pairs = frame.complete_processes(processes, cell, [base, arm])
            speedups[arm] = estimate(
                seconds[base].value / seconds[arm].value,
                (np.log(pairs[base]) - np.log(pairs[arm])).tolist(),
            )
    return Cell(
        scenario, requests, tokens, seconds, speedups, {arm: counts.get(arm, 0) for arm in arms}
    )


def _slower(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    notes = []
    for arm in arms[1:]:
        slower = [cell for cell in cells if arm in cell.speedups and cell.speedups[arm].high < 1]
        if slower:
            names = ", ".join(cell.scenario.name for cell in slower)
            notes.append(
                f"`{arm}` is slower than `{arms[0]}` in {counted(len(slower), 'cell')}: {names}."
            )
    return notes


def _crossovers(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    """Say from which length on an arm is faster, for cells that differ in their length alone."""
    rows: dict[SteadyDecode, list[Cell]] = {}
    for cell in cells:
        if isinstance(cell.scenario, SteadyDecode):
            rows.setdefault(replace(cell.scenario, tokens=1), []).append(cell)
    notes = []
    for arm in arms[1:]:
        for kind, row in rows.items():
            known = sorted(
                (cell for cell in row if arm in cell.speedups), key=lambda cell: cell.tokens
            )
            point = crossover(
                [cell.tokens for cell in known], [cell.speedups[arm].value for cell in known]
            )
            if point is not None:
                words = [
                    counted(kind.requests, "request"),
                    kind.manager.upper(),
                    *kind.settings(),
                ]
                notes.append(
                    f"Crossover with {', '.join(words)}: `{arm}` and `{arms[0]}` take the same "
                    f"time at about {point:,.0f} tokens per request; {_clearly_faster(arm, known)}."
                )
    return notes


def _clearly_faster(arm: str, cells: list[Cell]) -> str:
    """Say at which of ``cells``, ascending in length, an arm's whole interval is above 1."""
    faster = [cell.speedups[arm].low > 1 for cell in cells]
    if not any(faster):
        return f"`{arm}` is clearly faster at no measured length"
    if faster[-1]:
        slower = [index for index, is_faster in enumerate(faster) if not is_faster]
        first = cells[slower[-1] + 1 if slower else 0]
        return f"`{arm}` is clearly faster from {first.tokens:,.0f} on"
    lengths = [cell.tokens for cell, is_faster in zip(cells, faster, strict=True) if is_faster]
    return f"`{arm}` is clearly faster at {', '.join(f'{length:,.0f}' for length in lengths)} only"


def _missing(results: Results, cells: tuple[Cell, ...]) -> list[str]:
    plan = results.plan
    wanted = plan.protocol.processes
    found = {cell.scenario: cell.processes for cell in cells}
    gaps = []
    for scenario in plan.scenarios:
        for arm in plan.arms:
            count = found.get(scenario, {}).get(arm, 0)
            if count < wanted:
                gaps.append(f"{scenario.name} with `{arm}` ({count} of {wanted} processes)")
    if not gaps:
        return []
    return [
        f"Incomplete: {', '.join(gaps)}. `--resume {shlex.quote(str(results.path))}` carries on."
    ]


def is_open(interval: Estimate) -> bool:
    """Return whether an interval says nothing, since a single process was measured."""
    return math.isinf(interval.high)
