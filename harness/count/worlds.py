"""Exact work of a user's own function: what each arm does in a step, and how that grows.

Each arm of each cell is counted in processes of its own: twice under one hash seed, which tells
whether the work repeats, and once under another, which tells whether it depends on hashes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.arms.packages import PackageArm
from harness.stats.estimates import log_slope
from harness.system.worker_process import Child, module_command, read_answer, run_children
from subjects.base import Cell
from subjects.own.answers import checked

STEPS = 16
FIGURES = ("bytecodes", "native_calls", "allocated_bytes", "retained_bytes")
_HASH_SEEDS = (1, 1, 2)
_TIMEOUT = 300.0


@dataclass(frozen=True)
class WorldWork:
    """What an arm did in the counted steps of a cell.

    Attributes:
        arm: the arm.
        cell: the cell.
        steps: how many steps were counted.
        figures: each of ``FIGURES``, per step.
        calls: calls of functions that are not in Python, by name, of all steps.
        unsteady: the figures that were not the same in two runs under one hash seed.
        hashed: the figures that were not the same under another hash seed.
    """

    arm: str
    cell: Cell
    steps: int
    figures: Mapping[str, float]
    calls: Mapping[str, int] = field(default_factory=dict)
    unsteady: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorldGrowth:
    """How a figure of an arm grows with one size, among cells that are alike in all else.

    Attributes:
        arm: the arm.
        figure: one of ``FIGURES``.
        size: the name of the size.
        slope: of the logarithms: 1 is linear, 0 does not grow.
    """

    arm: str
    figure: str
    size: str
    slope: float


def count_worlds(
    subject: Mapping[str, Any],
    arms: Sequence[PackageArm],
    cells: Sequence[Cell],
    *,
    seed: int = 0,
    steps: int = STEPS,
    progress: Callable[[int], None] = lambda _count: None,
) -> list[WorldWork]:
    """Return what each arm does in each cell.

    Args:
        subject: the user's file, function and packages, as ``OwnStage`` takes them.
        arms: the arms.
        cells: the cells.
        seed: from which the worlds are built.
        steps: steps that are counted, after a short warm-up.
        progress: called with 1 after each cell.

    Raises:
        InputError: the subject is wrong, or an arm cannot be imported.
        ArmError: an arm raised something.
        WorkerError: an arm ended its process or hung.
    """
    works = []
    for cell in cells:
        for arm in arms:
            job = {
                "subject": subject,
                "arm": asdict(arm),
                "cell": cell.to_dict(),
                "seed": f"{seed}",
                "steps": steps,
            }
            what = f"cell {cell.name}, arm {arm.spec}"
            command, text = module_command("harness.count.worlds_worker", "-B"), json.dumps(job)
            children = [Child(what, command, hashes, text) for hashes in _HASH_SEEDS]
            first, again, other = (
                _figures(what, text, steps) for text in run_children(children, _TIMEOUT)
            )
            unsteady = tuple(name for name in FIGURES if first[0][name] != again[0][name])
            hashed = tuple(
                name
                for name in FIGURES
                if name not in unsteady and first[0][name] != other[0][name]
            )
            works.append(WorldWork(arm.spec, cell, steps, *first, unsteady, hashed))
        progress(1)
    return works


def growths(works: Sequence[WorldWork]) -> list[WorldGrowth]:
    """Return how each figure grows with each size, where cells differ in that size alone."""
    found = []
    for arm in dict.fromkeys(work.arm for work in works):
        own = [work for work in works if work.arm == arm]
        for size in own[0].cell.sizes:
            alike: dict[str, list[WorldWork]] = {}
            for work in own:
                rest = {name: value for name, value in work.cell.values.items() if name != size}
                alike.setdefault(json.dumps(rest), []).append(work)
            for figure in FIGURES:
                slope = log_slope(
                    [
                        [
                            (work.cell.sizes[size], max(0.0, work.figures[figure]))
                            for work in group
                            if work.cell.sizes[size] > 0
                        ]
                        for group in alike.values()
                    ]
                )
                if slope is not None:
                    found.append(WorldGrowth(arm, figure, size, slope))
    return found


def _figures(what: str, text: str, steps: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return the figures per step and the calls of all steps, of what a worker printed."""
    answer = checked(read_answer(what, text, dict[str, Any]))
    figures = {
        "bytecodes": math.fsum(answer["bytecodes"]) / steps,
        "native_calls": sum(answer["calls"].values()) / steps,
        "allocated_bytes": math.fsum(answer["allocated_bytes"]) / steps,
        "retained_bytes": answer["retained_bytes"] / steps,
    }
    return figures, answer["calls"]
