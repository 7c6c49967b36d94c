"""Exact work in processes of its own: under one hash seed, and again to tell what depends on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.arms.loading import ArmOfSource
from harness.arms.registry import ArmFactory
from harness.system.worker_process import (
    Child,
    hash_seed,
    module_command,
    read_answer,
    run_children,
)
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import ArmError, InputError, NotRunnableError, WorkerError

from .delegated import Delegated
from .work import Variation, Work

# Passes under further hash seeds, of few iterations each, in the cell that is counted soonest: of
# code that looks at one bit of a hash, one other seed would show as much as a coin does.
_PROBES, _FEW = 4, 3
# Passes more under the same hash seed: of what differs under another, to tell whether it is that;
# and of what is not as expected, before it is believed.
_REPEATS, _DOUBTED = 3, 6

# Says which figures of a work are to be counted again before they are believed.
Doubt = Callable[[Work], Iterable[str]]


@dataclass(frozen=True)
class Pass:
    """A job of a worker.

    Attributes:
        scenario: the cell.
        arms: the arms, with their source where they are named by where that is.
        seed: the seed of the workload.
        hashes: number of the hash seed; the figures are those under 0.
        shake: other numbers have objects lie elsewhere in memory; 0 leaves them.
        few: how many iterations are counted; None for all, and for what is retained.
    """

    scenario: SteadyDecode | TraceReplay
    arms: Mapping[str, dict[str, Any] | None]
    seed: int
    hashes: int = 0
    shake: int = 0
    few: int | None = None


def count_cells(
    scenarios: Sequence[SteadyDecode | TraceReplay],
    arms: Sequence[str] | Mapping[str, ArmFactory],
    seed: int = 0,
    *,
    jobs: int = 1,
    limit: float | None = None,
    progress: Callable[[int], None] = lambda _count: None,
    doubt: Doubt = lambda _work: (),
) -> list[Work]:
    """Return what ``count_work`` returns for each cell, counted under one fixed hash seed.

    Each cell is counted in a process of its own, whose environment is this one's without what would
    change how Python runs. Further passes tell which figures are not the same each time.

    Args:
        scenarios: the cells.
        arms: names of arms of this project, or arms by name.
        seed: as for ``count_work``.
        jobs: processes to use.
        limit: seconds that the cells which are counted at once may take; None for no limit.
        progress: called with the number of cells done since the last call.
        doubt: says which figures to count again.

    Raises:
        WorkerError: a process died or hung, or an arm raised something.
    """
    named = {name: _source_of(arms, name) for name in arms}
    exact = [Pass(scenario, named, seed) for scenario in scenarios]
    pairs = [
        one
        for number, own in enumerate(exact, start=1)
        for one in (own, replace(own, hashes=number, shake=number))
    ]
    counted: list[list[Work]] = []
    for works in _run(pairs, jobs, limit):
        counted.append(works)
        if len(counted) % 2 == 0:
            progress(1)
    series = [
        _Series(own, *both) for own, *both in zip(exact, counted[::2], counted[1::2], strict=True)
    ]
    if series:
        soonest = min(series, key=_Series.cost)
        first = len(exact) + 1
        numbers = range(first, first + _PROBES)
        probes = [replace(soonest.exact, hashes=n, shake=n, few=_FEW) for n in numbers]
        for works in _run(probes, jobs, limit):
            soonest.compare(works)
    _repeat(series, lambda one: one.varying, _REPEATS, jobs, limit)

    def doubted(one: _Series) -> list[tuple[str, str]]:
        return [(work.arm, figure) for work in one.works for figure in doubt(work)]

    _repeat(series, doubted, _DOUBTED, jobs, limit)
    unsteady = {key for one in series for key in one.unsteady}
    return [work for one in series for work in one.judged(unsteady)]


class _Series:
    """The passes of one cell.

    Args:
        exact: the one whose figures count.
        works: what it counted.
        other: what another one counted, under another hash seed.
    """

    def __init__(self, exact: Pass, works: list[Work], other: list[Work]) -> None:
        self.exact = exact
        self.works = works
        # By arm and figure: how far from the exact figure others were, per iteration.
        self.varying: dict[tuple[str, str], list[float]] = {}
        # Those that differed under the same hash seed.
        self.unsteady: set[tuple[str, str]] = set()
        self.compare(other)

    def cost(self) -> int:
        """Return how long a pass takes, in bytecodes."""
        return sum(
            work.totals["bytecodes"] + work.totals["engine_bytecodes"] for work in self.works
        )

    def compare(self, others: Sequence[Work], *, is_same_seed: bool = False) -> None:
        """Note what is not as in the exact pass."""
        for other in others:
            work = next(work for work in self.works if work.arm == other.arm)
            for figure, apart in _apart(work, other).items():
                self.varying.setdefault((work.arm, figure), [0.0]).append(apart)
                if is_same_seed:
                    self.unsteady.add((work.arm, figure))

    def judged(self, unsteady: set[tuple[str, str]]) -> list[Work]:
        """Return the exact works, each with its variations.

        Args:
            unsteady: arms and figures that differ under the same hash seed, here or elsewhere.
        """
        for (arm, figure), apart in self.varying.items():
            work = next(work for work in self.works if work.arm == arm)
            mean = work.per_iteration(figure) or 0.0
            low, high = mean + min(apart), mean + max(apart)
            by_hash = (arm, figure) not in unsteady
            work.variations.append(Variation(figure, low, high, by_hash))
        return self.works


def _repeat(
    series: Sequence[_Series],
    wanted: Callable[[_Series], Iterable[tuple[str, str]]],
    times: int,
    jobs: int,
    limit: float | None,
) -> None:
    """Count arms again under the same hash seed, each where that is done soonest.

    Args:
        series: the cells.
        wanted: says which figures of which arms of a cell matter.
        times: how often.
        jobs: processes to use.
        limit: as for ``count_cells``.
    """
    known = {key for one in series for key in one.unsteady}
    where: dict[int, set[str]] = {}
    for one in sorted(series, key=_Series.cost):
        for arm, figure in wanted(one):
            if (arm, figure) not in known:
                known.add((arm, figure))
                where.setdefault(series.index(one), set()).add(arm)
    again = [
        (index, replace(series[index].exact, arms=own, shake=number))
        for index, arms in where.items()
        for number in range(1, times + 1)
        if (own := {arm: one for arm, one in series[index].exact.arms.items() if arm in arms})
    ]
    found = _run([one for _, one in again], jobs, limit)
    for (index, _), works in zip(again, found, strict=True):
        series[index].compare(works, is_same_seed=True)


def _apart(work: Work, other: Work) -> dict[str, float]:
    """Return the figures in which a pass differs from the exact one, with how much an iteration.

    Of a pass of few iterations these are looked at.
    """
    steps = len(other.steps)
    found = {}
    for figure, total in other.totals.items():
        if figure in work.steps[0]:
            own = [step[figure] for step in work.steps[:steps]]
            differs, expected = own != [step[figure] for step in other.steps], sum(own)
        else:
            differs, expected = total != work.totals[figure], work.totals[figure]
        if differs:
            found[figure] = (total - expected) / steps
    return found


def _run(passes: Sequence[Pass], jobs: int, limit: float | None) -> Iterator[list[Work]]:
    """Yield what each pass counts, ``jobs`` of them at once."""
    for begin in range(0, len(passes), jobs):
        together = passes[begin : begin + jobs]
        texts = run_children([_child(one) for one in together], limit)
        for one, text in zip(together, texts, strict=True):
            yield _works(one, text)


def _child(one: Pass) -> Child:
    # Without bytecode files being written, the first run does the same as the others.
    command = module_command("harness.count.worker", "-B")
    job = asdict(one) | {"scenario": one.scenario.to_dict()}
    seed = hash_seed(0, one.hashes)
    return Child(f"cell {one.scenario.name}", command, seed, json.dumps(job))


def _works(one: Pass, text: str) -> list[Work]:
    """Return what a worker counted. Raises what stopped it."""
    answer = read_answer(f"cell {one.scenario.name}", text, dict[str, Any])
    if "error" in answer:
        raise _error(one, answer)
    return [_work(one, record) for record in answer["works"]]


def _error(one: Pass, answer: Mapping[str, str]) -> Exception:
    message = answer["message"]
    if answer["error"] == "arm":
        return ArmError(message, answer["trace"])
    if answer["error"] == "not runnable":
        return NotRunnableError(message)
    if answer["error"] == "input":
        return InputError(message)
    return WorkerError(f"cell {one.scenario.name}: {message}".removesuffix(": "))


def _work(one: Pass, record: dict[str, Any]) -> Work:
    values = record | {
        "calls": Counter(record["calls"]),
        "totals": Counter(record["totals"]),
        "delegated": Delegated(**record["delegated"]),
    }
    return Work(one.scenario, **values)


def _source_of(arms: Sequence[str] | Mapping[str, ArmFactory], name: str) -> dict[str, Any] | None:
    """Return the source of an arm as plain values; None for an arm of this project."""
    factory = arms[name] if isinstance(arms, Mapping) else None
    return asdict(factory.source) if isinstance(factory, ArmOfSource) else None
