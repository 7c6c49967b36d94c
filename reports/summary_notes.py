"""The sentences below the speedup table that a reader must not miss."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyperf

from harness.pytest_results import TOOL
from harness.results import Results
from harness.statistics import Estimate, crossover
from scenarios.scenario import SteadyDecode

from . import frame
from .numbers import is_open
from .steps import background_words, by_the_mean, dear_words
from .words import code, counted

if TYPE_CHECKING:
    import pandas as pd

    from .summary import Cell

# One process measures at a time, so a load beyond one and a half is somebody else's.
_BUSY_LOAD = 1.5
# Processes of the same cell and arm do the same work.
_FAR_APART = 1.25


def slower(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    """Say which arms are slower than the base, and where."""
    notes = []
    for arm in arms[1:]:
        slower = [cell for cell in cells if arm in cell.speedups and cell.speedups[arm].high < 1]
        if slower:
            names = ", ".join(cell.scenario.name for cell in slower)
            where = f"in {counted(len(slower), 'cell')}: {names}"
            notes.append(f"{code(arm)} is slower than {code(arms[0])} {where}.")
    return notes


def dear(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    """Say of which arms some steps are dear."""
    return [
        dear_words(
            cell.scenario.name,
            arm,
            cell.steps[arm],
            cell.seconds[arm].value,
            by_the_mean(cell.mean_speedups.get(arm), arms),
        )
        for cell in cells
        for arm in cell.dear
        if arm in cell.seconds
    ]


def background(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
    """Say which arms leave work to other threads or processes."""
    words = [
        background_words(
            cell.scenario.name, arm, own, by_the_mean(cell.mean_speedups.get(arm), arms)
        )
        for cell in cells
        for arm, own in cell.steps.items()
    ]
    return [each for each in words if each is not None]


def crossovers(arms: tuple[str, ...], cells: tuple[Cell, ...]) -> list[str]:
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


def noise(
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


def missing(results: Results, cells: tuple[Cell, ...]) -> list[str]:
    """Say what of the plan was not measured, and how to carry on."""
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
