"""What one measurement consists of, and the order in which it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.system.files import damage
from scenarios.scenario import SteadyDecode, TraceReplay, from_dict
from stepbench_core.errors import InputError
from stubs.providers import DEFAULT_PROVIDER, PROVIDERS

# Untimed iterations at the start of a round, in which an arm gets its caches back from the others:
# the first step of a cheap one takes up to four times as long, the third hardly longer.
SETTLING = 2


@dataclass(frozen=True)
class Protocol:
    """How each arm of each cell is sampled.

    Attributes:
        processes: worker processes, each with its own hash seed and input seed; more of them where
            a plan asks for a precision.
        warmups: untimed iterations at the start of a process.
        rounds: rounds of a process.
        samples: timed iterations of a round.
    """

    processes: int = 4
    warmups: int = 10
    rounds: int = 9
    samples: int = 15

    @property
    def values(self) -> int:
        """Timed iterations of a process."""
        return self.rounds * self.samples

    @property
    def iterations(self) -> int:
        """All iterations of a process, with those that are not timed."""
        return self.warmups + self.rounds * SETTLING + self.values


# Of processes, rounds and the like: beyond it a slip of the hand, or a damaged file.
MAX_COUNT = 1000

DEFAULT = Protocol()
# As few processes as still give a useful interval, and one round in each.
QUICK = Protocol(processes=3, warmups=3, rounds=1)
# Of a ratio, how far its interval may reach, and the seconds for each cell and pair of arms.
PRECISION, QUICK_PRECISION = 0.05, 0.15
SECONDS, QUICK_SECONDS = 90 / 8, 15 / 8


@dataclass(frozen=True)
class Job:
    """One worker process.

    Attributes:
        scenario: the cell.
        arm: the arm.
        process: number of the process among those of its cell and arm, from 0.
    """

    scenario: SteadyDecode | TraceReplay
    arm: str
    process: int

    @property
    def benchmark(self) -> str:
        """Name of the pyperf benchmark that the job's values belong to."""
        return benchmark_name(self.scenario, self.arm)

    def __str__(self) -> str:
        """Return the words that name the job in a message."""
        return f"cell {self.scenario.name}, arm {self.arm}, process {self.process + 1}"


@dataclass(frozen=True)
class Plan:
    """A whole measurement: everything that is needed to repeat it, or to carry on with it.

    Attributes:
        scenarios: the cells, in the order of the table.
        arms: the arms; the others are compared with the first.
        protocol: how each arm of each cell is sampled.
        seed: from which hash seeds and input seeds are derived.
        cpu: the core that workers are pinned to; None for no pinning.
        gc: whether the garbage collector runs during the measurement.
        command: the command line that asked for it.
        provider: where the stand-ins' native part comes from.
        sources: the digest of the source of each arm that is named by where that is.
        precision: processes are added until each ratio's 95 % interval reaches at most so far from
            it, as a fraction; None for no more processes than the protocol has.
        seconds: how long processes are added at most, in all cells together.
    """

    scenarios: tuple[SteadyDecode | TraceReplay, ...]
    arms: tuple[str, ...]
    protocol: Protocol = DEFAULT
    seed: int = 0
    cpu: int | None = None
    gc: bool = False
    command: str = ""
    provider: str = DEFAULT_PROVIDER
    sources: Mapping[str, str] = field(default_factory=dict)
    precision: float | None = None
    seconds: float = 0.0

    def jobs(self) -> list[Job]:
        """Return the processes that are run in any case, in their order."""
        return [
            job
            for process in range(self.protocol.processes)
            for scenario in self.scenarios
            for job in self.group(scenario, process)
        ]

    def group(self, scenario: SteadyDecode | TraceReplay, process: int) -> list[Job]:
        """Return the processes of a cell that are alive at once and take turns, one of each arm."""
        return [Job(scenario, arm, process) for arm in self.arms]

    def to_json(self) -> str:
        """Return the plan on one line; ``from_json`` takes it back."""
        values = asdict(self) | {"scenarios": [s.to_dict() for s in self.scenarios]}
        return json.dumps(values, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Plan:
        """Return the plan that ``to_json`` wrote. Raises InputError if it is none."""
        try:
            values: dict[str, Any] = json.loads(text)
            values["scenarios"] = tuple(from_dict(s) for s in values["scenarios"])
            values["arms"] = tuple(values["arms"])
            values["protocol"] = Protocol(**values["protocol"])
            plan = Plan(**values)
            _check_types(plan)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"not a plan of this version: {damage(error)}") from None
        return plan


def _check_types(plan: Plan) -> None:
    """Raise ValueError where a plan that was read could not be carried out."""
    protocol = plan.protocol
    counts = (protocol.processes, protocol.rounds, protocol.samples)
    if any(type(count) is not int or not 1 <= count <= MAX_COUNT for count in counts):
        raise ValueError(f"a count of the protocol is not between 1 and {MAX_COUNT}")
    if type(protocol.warmups) is not int or not 0 <= protocol.warmups <= MAX_COUNT:
        raise ValueError("the number of warm-up iterations is none")
    if type(plan.seed) is not int or type(plan.cpu) not in (int, type(None)):
        raise ValueError("the seed or the core is no number")
    # A text instead of a list would have become a tuple of letters.
    if any(not isinstance(arm, str) or len(arm) < 2 for arm in plan.arms):
        raise ValueError("an arm is no name")
    if len(set(plan.arms)) < len(plan.arms) or len(set(plan.scenarios)) < len(plan.scenarios):
        raise ValueError("an arm or a cell is named twice")
    if type(plan.gc) is not bool or not isinstance(plan.command, str):
        raise ValueError("the collector or the command line is of the wrong type")
    if not isinstance(plan.sources, dict) or any(
        not isinstance(text, str) for pair in plan.sources.items() for text in pair
    ):
        raise ValueError("the sources of the arms are none")
    if plan.precision is not None and not (_is_number(plan.precision) and plan.precision > 0):
        raise ValueError("the precision is no positive number")
    if not _is_number(plan.seconds):
        raise ValueError("the time is no number of seconds")
    if plan.provider not in PROVIDERS:
        raise ValueError(f"there is no provider {plan.provider!r}")


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9  # type: ignore[operator]


def benchmark_name(scenario: SteadyDecode | TraceReplay, arm: str) -> str:
    """Return the name of the pyperf benchmark of one arm of one cell."""
    return f"{scenario.name}/{arm}"


def worker_seed(plan: Plan, process: int) -> str:
    """Return the input seed of a process: the same for all arms, so that they see the same work."""
    return f"{plan.seed}-{process}"


def check_distinct(scenarios: Sequence[SteadyDecode | TraceReplay]) -> None:
    """Raise InputError if a cell is named twice, or none."""
    if not scenarios:
        raise InputError("no cell is named")
    names = [scenario.name for scenario in scenarios]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(f"cell {name} is named twice")
