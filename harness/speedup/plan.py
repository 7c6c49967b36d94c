"""What one measurement consists of, and the order in which it is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from scenarios.scenario import SteadyDecode, TraceReplay, from_dict
from stepbench_core.errors import InputError
from stubs.providers import DEFAULT_PROVIDER

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
        """Return the plan that ``to_json`` wrote for a worker; a file may hold anything else."""
        values: dict[str, Any] = json.loads(text)
        return Plan(
            **values
            | {
                "scenarios": tuple(map(from_dict, values["scenarios"])),
                "arms": tuple(values["arms"]),
                "protocol": Protocol(**values["protocol"]),
            }
        )


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
