"""Whether versions of a user's own function give the same outputs, step by step.

Each arm plays the same seeded worlds in a process of its own, under the same hash seed. Where an
outcome differs, the smallest cell in which one does is told, and the first step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.arms.packages import PackageArm
from harness.system.worker_process import Child, module_command, read_answer, run_children
from stepbench_core.errors import InputError
from subjects.base import Cell, cell_from_dict
from subjects.own.answers import checked
from subjects.own.outcomes import difference

RUNS, STEPS = 10, 20
# Before a measurement.
BRIEF_RUNS, BRIEF_STEPS = 2, 10
# Seconds after which a cell's runs count as hanging: to start, and for each.
_TIMEOUT, _TIME_OF_RUN = 120.0, 30.0
_HASH_SEED = 1


@dataclass(frozen=True)
class WorldDifference:
    """Where an arm differs from the one that is right.

    Attributes:
        arm: the arm.
        cell: the smallest cell in which it does.
        run: the run: its number gives the seed.
        step: the step, from 1.
        place: the part of the outcome.
        expected, actual: what is there.
        is_late: whether the outcome was as expected at first, and a later step changed it.
    """

    arm: str
    cell: str
    run: int
    step: int
    place: str
    expected: str
    actual: str
    is_late: bool = False


@dataclass(frozen=True)
class WorldsVerification:
    """What was found.

    Attributes:
        arms: the arms.
        against: the one that is right.
        cells: the names of the cells that were played.
        runs, steps: how many of each cell, and of each run.
        seed: from which the worlds' are derived.
        difference: where an arm differs; None if none does.
    """

    arms: tuple[str, ...]
    against: str
    cells: tuple[str, ...]
    runs: int
    steps: int
    seed: int
    difference: WorldDifference | None = None

    @property
    def outcomes(self) -> int:
        """How many outcomes of each arm were compared."""
        return len(self.cells) * self.runs * self.steps


def verify_worlds(
    subject: Mapping[str, Any],
    against: PackageArm,
    arms: Sequence[PackageArm],
    cells: Sequence[Cell],
    *,
    runs: int = RUNS,
    steps: int = STEPS,
    seed: int = 0,
    only: int | None = None,
    progress: Callable[[int], None] = lambda _count: None,
) -> WorldsVerification:
    """Play the same worlds to all arms and compare what comes of each step.

    Args:
        subject: the user's file, function and packages, as ``OwnStage`` takes them.
        against: the arm that is right.
        arms: the others.
        cells: the cells.
        runs: worlds of each cell.
        steps: of each run.
        seed: from which the worlds' are derived.
        only: the number of the one run to be played; None for all.
        progress: called with 1 after each cell.

    Raises:
        InputError: the subject is wrong, or an arm cannot be imported.
        ArmError: an arm raised something.
        WorkerError: an arm ended its process or hung.
    """
    numbers = list(range(runs)) if only is None else [only]
    found = WorldsVerification(
        tuple(arm.spec for arm in arms),
        against.spec,
        tuple(cell.name for cell in cells),
        len(numbers),
        steps,
        seed,
    )
    # The smallest first: where an arm differs in one, nobody has to read of a larger one.
    for cell in sorted(cells, key=lambda cell: math.prod(cell.sizes.values())):
        job = {"subject": subject, "cell": cell.to_dict(), "seed": f"{seed}", "steps": steps}
        for arm in arms:
            # One arm against the other at a time, on a core each.
            pair = (against, arm)
            texts = _ask(pair, [{**job, "runs": numbers, "wanted": None} for _ in pair])
            at = _first(*(text["digests"] for text in texts))
            if at is not None:
                index, wanted = at
                _check_repeats(
                    against, cell, numbers[index], wanted, texts[0]["digests"][index], job
                )
                again = {**job, "runs": [numbers[index]], "wanted": wanted}
                trees = _ask(pair, [again, again])
                told = difference(*(one["tree"] for one in trees))
                late, run = wanted >= steps, numbers[index]
                step = (
                    steps - (len(texts[0]["digests"][index]) - wanted) + 1 if late else wanted + 1
                )
                place, expected, actual = told or ("output", "as it was", "not the same twice")
                differs = WorldDifference(
                    arm.spec, cell.name, run, step, place, expected, actual, late
                )
                return replace(found, difference=differs)
        progress(1)
    return found


def inspect(subject: Mapping[str, Any], arm: PackageArm) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of each function of a user's file, as an arm is imported with it.

    Of the one function where the subject names it.

    Raises what ``verify_worlds`` does.
    """
    (found,) = _ask((arm,), [{"subject": subject}], "harness.verify.cells_worker")
    return {name: tuple(map(cell_from_dict, cells)) for name, cells in found["functions"].items()}


def _check_repeats(
    arm: PackageArm,
    cell: Cell,
    run: int,
    step: int,
    digests: Sequence[str],
    job: Mapping[str, Any],
) -> None:
    """Raise InputError where an arm by itself gives another outcome in a step of a run now."""
    (again,) = _ask((arm,), [{**job, "runs": [run], "wanted": None}])
    if again["digests"][0][step] != digests[step]:
        raise InputError(
            f"cell {cell.name}, run {run}: the world or the step is not the same twice, with the "
            f"same code ({arm.spec}): draw what is random from the seed, or give Step an outcome "
            "that leaves out what differs"
        )


def _first(
    expected: Sequence[Sequence[str]], actual: Sequence[Sequence[str]]
) -> tuple[int, int] | None:
    """Return the run and the step at which outcomes differ first: after the fewest steps."""
    differing = [
        (step, run)
        for run, pair in enumerate(zip(expected, actual, strict=True))
        for step, (one, other) in enumerate(zip(*pair, strict=True))
        if one != other
    ]
    # What is late is after all steps.
    step, run = min(differing, default=(None, None))
    return None if step is None or run is None else (run, step)


def _where(job: Mapping[str, Any], arm: PackageArm) -> str:
    """Return the words that name a worker's job in a message."""
    cell = f"cell {job['cell']['name']}, " if "cell" in job else ""
    return f"{cell}arm {arm.spec}"


def _ask(
    arms: Sequence[PackageArm],
    jobs: Sequence[Mapping[str, Any]],
    module: str = "harness.verify.worlds_worker",
) -> list[dict[str, Any]]:
    """Return what workers answer, one for each arm, all at once. Raises what they tell of."""
    children = [
        Child(
            _where(job, arm),
            module_command(module),
            _HASH_SEED,
            json.dumps({**job, "arm": asdict(arm)}),
        )
        for arm, job in zip(arms, jobs, strict=True)
    ]
    answers = []
    for child, text in zip(
        children,
        run_children(
            children, _TIMEOUT + sum(_TIME_OF_RUN * len(job.get("runs", ())) for job in jobs)
        ),
        strict=True,
    ):
        answers.append(dict(checked(read_answer(child.what, text, dict[str, Any]))))
    return answers
