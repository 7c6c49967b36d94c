"""What a results file says, independent of the format that it is printed in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from harness.arms.registry import FLOOR
from harness.speedup.file import MACHINE_FIELDS, Results
from harness.speedup.plan import Plan
from harness.speedup.precision import ratio_of, reach
from harness.stats.estimates import Estimate, estimate
from harness.system.fingerprint import DIGEST
from scenarios.scenario import SteadyDecode, TraceReplay

from . import frame
from .notes import background, crossovers, dear, imprecise, missing, noise, slower
from .provenance import provenance
from .steps import Steps, is_dear_now_and_then, speedup_of_means, steps_of

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
            geometric mean, over processes that took turns, of the ratios of their rounds. Without
            a pair there is none.
        times_floor: how many times the floor's time each arm takes, of pairs with the floor in
            the same way. Empty where the floor was not measured.
        processes: finished processes by arm.
        steps: what all steps of each arm cost together.
        mean_speedups: the speedups of the mean step instead of the typical one.
        dear: the arms of which some steps are dear.
        precision: how far an interval was to reach from its ratio, as a fraction; None where that
            was not asked.
    """

    scenario: SteadyDecode | TraceReplay
    requests: float
    tokens: float
    seconds: dict[str, Estimate]
    speedups: dict[str, Estimate]
    times_floor: dict[str, Estimate]
    processes: dict[str, int]
    steps: dict[str, Steps] = field(default_factory=dict)
    mean_speedups: dict[str, Estimate] = field(default_factory=dict)
    dear: tuple[str, ...] = ()
    precision: float | None = None

    def missed_precision(self, ratio: Estimate) -> float | None:
        """Return the precision that was asked for, if the interval of a ratio reaches further."""
        return None if self.precision is None or reach(ratio) <= self.precision else self.precision

    @property
    def is_typical_only(self) -> bool:
        """Whether the times of typical steps are not the whole cost of an arm."""
        return bool(self.dear) or any(own.leaves_work for own in self.steps.values())


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
        samples: every sample, as ``frame.samples_frame`` has them.
        rounds: the median of each round, as ``frame.round_medians`` has them.
    """

    file: str
    machine: tuple[str, ...]
    provider: str
    arms: tuple[str, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]
    provenance: str
    fingerprint: str | None = None
    samples: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)
    rounds: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False, compare=False)


def summarise(results: Results) -> Summary:
    """Return the figures of ``results``."""
    plan = results.plan
    samples = frame.samples_frame(results)
    rounds = frame.round_medians(samples)
    steps = _steps(results, samples)
    figures = frame.figures(rounds)
    processes = frame.by_cell(frame.process_figures(rounds))
    rounds_of = dict(iter(rounds.groupby("cell", sort=False)))
    requests = frame.run_means(results, "stepbench_requests_mean")
    tokens = frame.run_means(results, "stepbench_tokens_mean")
    measured = set(requests.index)
    cells = tuple(
        _cell(
            scenario,
            plan,
            figures,
            processes[scenario.name],
            rounds_of[scenario.name],
            float(requests[scenario.name]),
            float(tokens[scenario.name]),
            steps[scenario.name],
        )
        for scenario in plan.scenarios
        if scenario.name in measured
    )
    arms, digest = proper_arms(plan.arms), results.metadata.get(DIGEST)
    notes = [
        *slower(arms, cells),
        *dear(arms, cells),
        *background(arms, cells),
        *crossovers(arms, cells),
        *noise(results, rounds),
        *imprecise(results, cells),
        *missing(results, cells),
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
        samples=samples,
        rounds=rounds,
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
    plan: Plan,
    figures: pd.Series,
    processes: pd.DataFrame,
    rounds: pd.DataFrame,
    requests: float,
    tokens: float,
    steps: dict[str, Steps],
) -> Cell:
    cell, arms = scenario.name, plan.arms
    is_looked_at = plan.precision is not None

    def ratio(above: str, below: str) -> Estimate | None:
        logs = frame.ratios(rounds, above, below)
        return ratio_of(logs, is_looked_at=is_looked_at) if logs else None

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
    speedups = {arm: ratio(proper[0], arm) for arm in proper[1:]}
    known = {arm: steps[arm] for arm in proper if arm in steps}
    means = {
        arm: speedup_of_means(known[proper[0]], known[arm])
        for arm in proper[1:]
        if arm in known and proper[0] in known
    }
    times_floor = {arm: ratio(arm, FLOOR) for arm in proper}
    return Cell(
        scenario,
        requests,
        tokens,
        seconds,
        {arm: found for arm, found in speedups.items() if found},
        {arm: found for arm, found in times_floor.items() if found},
        {arm: counts.get(arm, 0) for arm in arms},
        steps,
        {arm: found for arm, found in means.items() if found},
        tuple(arm for arm in known if is_dear_now_and_then(arm, known)),
        plan.precision,
    )


def _steps(results: Results, samples: pd.DataFrame) -> dict[str, dict[str, Steps]]:
    """Return the steps of each arm by cell."""
    background: dict[tuple[str, str], dict[int, float]] = {}
    alive: dict[tuple[str, str], set[str]] = {}
    for job, run in results.runs():
        key, notes = (job.scenario.name, job.arm), run.get_metadata()
        spent = background.setdefault(key, {})
        spent[job.process] = float(notes.get("stepbench_background_cpu", 0.0))
        names = alive.setdefault(key, set())
        names.update(json.loads(notes.get("stepbench_alive", "[]")))
    found: dict[str, dict[str, Steps]] = {}
    for (cell, arm), own in samples.groupby(["cell", "arm"], sort=False):
        key = str(cell), str(arm)
        found.setdefault(key[0], {})[key[1]] = steps_of(own, background[key], sorted(alive[key]))
    return found
