"""What all steps of an arm cost together, beside the typical one: mean, upper tail, background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.stats.estimates import Estimate, geometric_mean
from harness.stats.means import TAIL, is_further
from reports.render.numbers import format_ratio, format_time
from reports.render.words import code

if TYPE_CHECKING:
    import pandas as pd

# Of the mean step: what a call leaves to others beyond it is told.
_LITTLE = 0.01


@dataclass(frozen=True)
class Steps:
    """The steps of an arm in a cell.

    Attributes:
        mean: mean of each process in seconds, by its number: what a call takes, and what it leaves
            to others.
        tail: 99th percentile of what a call takes, in seconds.
        excess: for each process how many times its typical call the mean one takes.
        background: mean CPU seconds a step that calls leave to other threads and child processes.
        alive: the threads and child processes that calls left behind.
    """

    mean: Mapping[int, float]
    tail: float
    excess: Mapping[int, float]
    background: float
    alive: tuple[str, ...]

    @property
    def typical_mean(self) -> float:
        """The mean of the process in the middle, in seconds."""
        return float(np.median([*self.mean.values()]))

    @property
    def leaves_work(self) -> bool:
        """Whether calls leave a part of their work to others."""
        return is_much(self.background, self.typical_mean)


def steps_of(samples: pd.DataFrame, background: Mapping[int, float], alive: Sequence[str]) -> Steps:
    """Return the steps of an arm in a cell.

    Args:
        samples: the rows of ``frame.samples_frame`` of one arm in one cell.
        background: CPU seconds a step that each process left to others.
        alive: what its calls left behind.
    """
    by_process = samples.groupby("process", sort=False)["seconds"]
    # The numbers of processes, which are the index.
    typical = {int(str(number)): float(value) for number, value in by_process.median().items()}
    plain = {int(str(number)): float(value) for number, value in by_process.mean().items()}
    mean = {number: value + background.get(number, 0.0) for number, value in plain.items()}
    return Steps(
        mean,
        float(np.percentile(samples["seconds"], TAIL)),
        {number: value / typical[number] for number, value in plain.items()},
        float(np.mean([*background.values()])) if background else 0.0,
        tuple(alive),
    )


def speedup_of_means(base: Steps, other: Steps) -> Estimate | None:
    """Return how many times as fast the other arm's mean step is, of processes in pairs."""
    pairs = base.mean.keys() & other.mean.keys()
    if not pairs:
        return None
    return geometric_mean([np.log(base.mean[pair] / other.mean[pair]) for pair in sorted(pairs)])


def is_dear_now_and_then(arm: str, steps: Mapping[str, Steps]) -> bool:
    """Return whether some steps of an arm are dear, as those of another arm of the cell are not.

    That other arm is the control: over pairs of processes, the mean call has to be clearly further
    from the typical one, at 99 %. So one step that was disturbed does not count.
    """
    own = steps[arm].excess
    return any(
        is_further([own[pair] for pair in pairs], [other.excess[pair] for pair in pairs])
        for name, other in steps.items()
        if name != arm and (pairs := sorted(own.keys() & other.excess.keys()))
    )


def dear_words(cell: str, arm: str, own: Steps, typical: float, mean_speedup: str) -> str:
    """Return the sentence that some steps are dear.

    Args:
        cell: name of the cell.
        arm: the arm.
        own: its steps.
        typical: seconds of its typical step.
        mean_speedup: what the mean makes of the speedup; empty where there is none.
    """
    return (
        f"Some steps of {code(arm)} in {cell} are dear: {format_time(typical)} is typical, "
        f"{format_time(own.typical_mean)} the mean, {format_time(own.tail)} the {TAIL}th percentile"
        f"{mean_speedup}."
    )


def background_words(cell: str, arm: str, own: Steps, mean_speedup: str) -> str | None:
    """Return the sentence that an arm leaves work to others; None where it does not.

    Arguments are those of ``dear_words``.
    """
    what = f"which no time in the table holds{mean_speedup and f'{mean_speedup} with it'}"
    return left_to_others(cell, arm, own.background, own.typical_mean, own.alive, what)


def is_much(spent: float, mean: float) -> bool:
    """Return whether CPU time that a call leaves to others counts beside the mean step."""
    return spent > _LITTLE * mean


def left_to_others(
    cell: str, arm: str, spent: float, mean: float, alive: Sequence[str], what: str
) -> str | None:
    """Return the sentence that an arm leaves work to others; None where it does not.

    Args:
        cell: name of the cell.
        arm: the arm.
        spent: CPU seconds a step that others spend.
        mean: seconds of the mean step.
        alive: the threads and child processes that calls left behind.
        what: what the report makes of that time.
    """
    left = f"; alive after a call: {', '.join(alive)}" if alive else ""
    if is_much(spent, mean):
        return (
            f"{code(arm)} leaves work to other threads or processes in {cell}: "
            f"{format_time(spent)} of CPU time a step, {what}{left}."
        )
    return f"{code(arm)} leaves threads or processes behind in {cell}{left}." if left else None


def by_the_mean(speedup: Estimate | None, arms: Sequence[str]) -> str:
    """Return what the mean step makes of a speedup over the first arm, as the end of a sentence."""
    if speedup is None:
        return ""
    return f"; by the mean it is {format_ratio(speedup)} as fast as {code(arms[0])}"
