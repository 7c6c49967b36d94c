"""What a results file says, independent of the format that it is printed in."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyperf

from harness.arms import FLOOR
from harness.fingerprint import DIGEST
from harness.pytest_results import TOOL
from harness.results import MACHINE_FIELDS, Results
from harness.statistics import Estimate, crossover, estimate, geometric_mean
from scenarios.scenario import SteadyDecode, TraceReplay

from . import frame
from .provenance import provenance
from .words import code, counted

if TYPE_CHECKING:
    import pandas as pd

# One process measures at a time, so a load beyond one and a half is somebody else's.
_BUSY_LOAD = 1.5
# Processes of the same cell and arm do the same work.
_FAR_APART = 1.25
# Which of the fields of a machine name its Python.
_PYTHON_FIELDS = slice(3, None)


@dataclass(frozen=True)
class Cell:
    """The figures of one cell.

    Attributes:
        scenario: the cell.
        requests: mean number of requests in the batch.
        tokens: mean tokens per request over the timed iterations.
        seconds: time of an iteration by arm; arms without a finished process are missing.
        speedups: how many times as fast as the base (see ``proper_arms``) each other arm is: the
            geometric mean of the ratios of paired processes. Without a pair there is none.
        times_floor: how many times the floor's time each arm takes, of pairs with the floor in
            the same way. Empty where the floor was not measured.
        processes: finished processes by arm.
    """

    scenario: SteadyDecode | TraceReplay
    requests: float
    tokens: float
    seconds: dict[str, Estimate]
    speedups: dict[str, Estimate]
    times_floor: dict[str, Estimate]
    processes: dict[str, int]


@dataclass(frozen=True)
class Summary:
    """The figures of one results file.

    Attributes:
        file: its path.
        machine: what names the machine and its Python.
        provider: where the stand-ins' native part came from.
        arms: the arms as they were asked for, the floor among them where it was.
        cells: the cells that have at least one finished process, in the order of the plan.
        notes: sentences that a reader must not miss.
        provenance: one paragraph with everything that is needed to repeat the measurement.
        fingerprint: the machine's; None where it was not noted.
    """

    file: str
    machine: tuple[str, ...]
    provider: str
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    provenance: str
    fingerprint: str | None = None


def summarise(results: Results) -> Summary:
    """Return the figures of ``results``."""
    plan = results.plan
    rounds = frame.round_medians(frame.samples_frame(results))
    figures = frame.figures(rounds)
    processes = frame.by_cell(frame.process_figures(rounds))
    requests = frame.run_means(results, "stepbench_requests_mean")
    tokens = frame.run_means(results, "stepbench_tokens_mean")
    measured = set(requests.index)
    cells = tuple(
        _cell(
            scenario,
            plan.arms,
            figures,
            processes[scenario.name],
            float(requests[scenario.name]),
            float(tokens[scenario.name]),
        )
        for scenario in plan.scenarios
        if scenario.name in measured
    )
    arms, digest = proper_arms(plan.arms), results.metadata.get(DIGEST)
    notes = [
        *_slower(arms, cells),
        *_crossovers(arms, cells),
        *_noise(results, processes, cells),
        *_missing(results, cells),
    ]
    return Summary(
        file=str(results.path),
        machine=results.machine,
        fingerprint=None if digest is None else str(digest),
        provider=plan.provider,
        arms=plan.arms,
        cells=cells,
        notes=tuple(notes),
        provenance=provenance(results),
    )


def proper_arms(arms: Sequence[str]) -> tuple[str, ...]:
    """Return the arms without the floor, which is none. The first of them is the base.

    The base is what the others are compared with.
    """
    return tuple(arm for arm in arms if arm != FLOOR)


def machines_note(summaries: Iterable[Summary]) -> str | None:
    """Return the warning that several machines are involved, or None if it is one."""
    summaries = list(summaries)
    fields, of_summary = MACHINE_FIELDS, [summary.machine for summary in summaries]
    if all(summary.fingerprint for summary in summaries):
        # In two containers a machine has two names, and two machines may have the same.
        fields = ("fingerprint", *MACHINE_FIELDS[_PYTHON_FIELDS])
        of_summary = [
            (str(summary.fingerprint), *summary.machine[_PYTHON_FIELDS]) for summary in summaries
        ]
    machines = list(dict.fromkeys(of_summary))
    if len(machines) < 2:
        return None
    different = [
        field
        for field, values in zip(fields, zip(*machines, strict=True), strict=True)
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
        arm: len(frame.complete_processes(processes, [arm]))
        for arm in arms
        if arm in processes.columns
    }
    seconds = {}
    for arm in arms:
        if counts.get(arm):
            own = frame.complete_processes(processes, [arm])[arm]
            seconds[arm] = estimate(float(figures[cell, arm]), np.log(own).tolist())
    proper = proper_arms(arms)
    speedups = {arm: _ratio(processes, proper[0], arm) for arm in proper[1:]}
    times_floor = {arm: _ratio(processes, arm, FLOOR) for arm in proper}
    return Cell(
        scenario,
        requests,
        tokens,
        seconds,
        {arm: ratio for arm, ratio in speedups.items() if ratio},
        {arm: ratio for arm, ratio in times_floor.items() if ratio},
        {arm: counts.get(arm, 0) for arm in arms},
    )


def _ratio(processes: pd.DataFrame, above: str, below: str) -> Estimate | None:
    """Return how many times the time of ``below`` the arm ``above`` takes; None without a pair."""
    # Processes of the same number ran side by side, on the same input: pair them.
    pairs = frame.complete_processes(processes, [above, below])
    if not len(pairs):
        return None
    return geometric_mean((np.log(pairs[above]) - np.log(pairs[below])).tolist())


def _slower(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    notes = []
    for arm in arms[1:]:
        slower = [cell for cell in cells if arm in cell.speedups and cell.speedups[arm].high < 1]
        if slower:
            names = ", ".join(cell.scenario.name for cell in slower)
            where = f"in {counted(len(slower), 'cell')}: {names}"
            notes.append(f"{code(arm)} is slower than {code(arms[0])} {where}.")
    return notes


def _crossovers(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    """Say from which length on an arm is faster, for cells that differ in their length alone.

    A crossover is named only between a cell where the arm is clearly slower and one where it is
    clearly faster: a ratio that wanders around 1 crosses it by chance.
    """
    rows: dict[SteadyDecode, list[Cell]] = {}
    for cell in cells:
        if isinstance(cell.scenario, SteadyDecode):
            rows.setdefault(replace(cell.scenario, tokens=1), []).append(cell)
    notes = []
    for arm in arms[1:]:
        for kind, row in rows.items():
            known = sorted(
                (cell for cell in row if arm in cell.speedups and not is_open(cell.speedups[arm])),
                key=lambda cell: cell.tokens,
            )
            clear = [cell for cell in known if _is_clear(cell.speedups[arm])]
            point = crossover(
                [cell.tokens for cell in clear], [cell.speedups[arm].value for cell in clear]
            )
            words = [counted(kind.requests, "request"), kind.manager.upper(), *kind.settings()]
            where = f"With {', '.join(words)}: "
            if point is not None:
                notes.append(
                    f"{where}crossover, {code(arm)} and {code(arms[0])} take the same time at "
                    f"about {point:,.0f} tokens per request."
                )
            elif len(known) > 1 and len(clear) < len(known):
                lengths = [_length(cell) for cell in known if cell not in clear]
                notes.append(
                    f"{where}no clear difference between {code(arm)} and {code(arms[0])} at "
                    f"{', '.join(lengths)} tokens per request."
                )
    return notes


def _is_clear(speedup: Estimate) -> bool:
    return speedup.low > 1 or speedup.high < 1


def _length(cell: Cell) -> str:
    scenario = cell.scenario
    return f"{scenario.tokens if isinstance(scenario, SteadyDecode) else cell.tokens:,.0f}"


def _noise(
    results: Results, processes: Mapping[str, pd.DataFrame], cells: tuple[Cell, ...]
) -> list[str]:
    """Say what makes the figures doubtful: other work on the machine, processes that disagree."""
    notes = []
    loads = [
        float(load)
        for _, run in results.runs()
        for load in (run.get_metadata().get("load_avg_1min", 0), _load_start(run))
    ]
    if max(loads) > _BUSY_LOAD:
        notes.append(
            f"Busy machine: the load went up to {max(loads):.1f} while one process measured. Other "
            "work makes iterations longer, and those that copy much more so than others: measure "
            "again on a quiet machine."
        )
    doubtful = []
    for cell in cells:
        for arm in cell.seconds:
            own = frame.complete_processes(processes[cell.scenario.name], [arm])[arm]
            if own.max() > _FAR_APART * own.min():
                factor = own.max() / own.min()
                doubtful.append(
                    f"{cell.scenario.name} with {code(arm)} (by a factor of {factor:.2f})"
                )
    if doubtful:
        notes.append(f"Noisy: processes of the same cell differ, {', '.join(doubtful)}.")
    return notes


def _load_start(run: pyperf.Run) -> float:
    return float(run.get_metadata()["stepbench_load_start"])


def _missing(results: Results, cells: tuple[Cell, ...]) -> list[str]:
    plan = results.plan
    wanted = plan.protocol.processes
    found = {cell.scenario: cell.processes for cell in cells}
    gaps = []
    for scenario in plan.scenarios:
        for arm in plan.arms:
            count = found.get(scenario, {}).get(arm, 0)
            if count < wanted:
                gaps.append(f"{scenario.name} with {code(arm)} ({count} of {wanted} processes)")
    if not gaps:
        return []
    incomplete = f"Incomplete: {', '.join(gaps)}."
    if TOOL in results.metadata:
        return [incomplete]  # What another tool measured is not carried on with.
    return [f"{incomplete} `--resume {shlex.quote(str(results.path))}` carries on."]


def is_open(interval: Estimate) -> bool:
    """Return whether an interval says nothing, since a single process was measured."""
    return math.isinf(interval.high)
