"""The sentences below the speedup table that a reader must not miss."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pyperf

from harness.speedup.file import Results
from harness.speedup.precision import reach
from harness.speedup.pytest_results import TOOL
from harness.stats.estimates import Estimate, crossover
from reports.render.numbers import format_share, is_open
from reports.render.words import code, counted
from scenarios.families import families
from scenarios.scenario import SteadyDecode

from .machine_states import two_states
from .steps import background_words, by_the_mean, dear_words

if TYPE_CHECKING:
    import pandas as pd

    from .summary import Cell

# One process measures at a time, so a load beyond one and a half is somebody else's.
_BUSY_LOAD = 1.5
# Rounds of the same cell and arm do the same work.
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
    rows = families(cells, lambda cell: cell.scenario, "tokens")
    notes = []
    for arm in arms[1:]:
        for kind, row in rows.items():
            known = sorted(
                (
                    cell
                    for _, cell in row
                    if arm in cell.speedups and not is_open(cell.speedups[arm])
                ),
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


def noise(results: Results, rounds: pd.DataFrame) -> list[str]:
    """Say what makes the figures doubtful: other work, or a machine that changes its speed.

    Args:
        results: the results.
        rounds: their round medians, of all cells.
    """
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
    return notes + machine_states(rounds)


def machine_states(rounds: pd.DataFrame) -> list[str]:
    """Say how the speed of the machine changed while it measured; nothing where it hardly did.

    By how rounds of the same cell and arm, which do the same work, differ.
    """
    of_arm = rounds.groupby(["cell", "arm"], sort=False)["seconds"]
    states = two_states(np.log(rounds["seconds"] / of_arm.transform("median")).tolist())
    if states is not None:
        return [
            f"The machine had two speeds: {states.slow:.0%} of the rounds took {states.factor:.2f} "
            "times as long as the other rounds of their cell and arm. A time is the median of all "
            "rounds; a ratio is formed of rounds that followed each other."
        ]
    (cell, arm), factor = max(_spread(of_arm).items(), key=lambda pair: pair[1])
    if factor < _FAR_APART:
        return []
    return [
        f"Noisy: rounds of the same cell and arm differ, those of {cell} with {code(arm)} by a "
        f"factor of {factor:.2f} (the middle four fifths)."
    ]


def _spread(of_arm: Any) -> dict[tuple[str, str], float]:  # noqa: ANN401 - pandas names no type
    """Return the ratio of the 90th to the 10th percentile of the rounds of each cell and arm."""
    return dict(of_arm.quantile(0.9) / of_arm.quantile(0.1))


def imprecise(results: Results, cells: tuple[Cell, ...]) -> list[str]:
    """Say that some ratios are not as precise as was asked for, and what helps."""
    plan = results.plan
    if plan.precision is None:
        return []
    ratios = [
        ratio for cell in cells for ratio in (*cell.speedups.values(), *cell.times_floor.values())
    ]
    wide = sum(reach(ratio) > plan.precision for ratio in ratios)
    if not wide:
        return []
    return [
        f"{wide} of {counted(len(ratios), 'ratio')} {'is' if wide == 1 else 'are'} not within "
        f"±{format_share(plan.precision)} after the {plan.seconds:,.0f} s that were given. "
        f"`--resume {shlex.quote(str(results.path))}` adds processes for as long again."
    ]


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
