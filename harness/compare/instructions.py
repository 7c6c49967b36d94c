"""Exact counts of the machine instructions that two arms execute, by valgrind's callgrind.

A count is no time, and no verdict comes of it. It repeats to the last digit, so that it shows a
difference that no clock could.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.arms.sources import ArmSource
from harness.system.worker_process import Child, hash_seed, module_command, run, run_children
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError, LostWorkerError, WorkerError

from .duet import Duet
from .instructions_worker import MACHINE_CODE

RUNS = 3
# Runs more under other hash seeds, and the share by which a count has to differ there before it is
# the code's doing: where Python's own dictionaries collide, all counts differ by a little.
OTHER_SEEDS = 2
_BY_HASH = 1e-3
# Python adapts code to what it sees in its first eight or so calls: counts fall until then, and
# stay where they are from the tenth on.
WARMUPS = 10
# Under valgrind an arm is about fifty times slower: few iterations, of large batches fewer still.
_FEW_ITERATIONS = 5
_REQUESTS = 320
_TOKENS = 700_000
# After which a worker counts as hanging.
_TIMEOUT = 300.0
_TIMEOUT_PER_TOKEN = 1e-4

# All that a worker's environment may hold, since its size moves what lies in memory: what Python
# and valgrind need to find their own files, and the variables that an arm reads.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "PYTHONPATH", "VALGRIND_LIB")


@dataclass(frozen=True)
class Valgrind:
    """The program that counts: its path and its version, such as ``3.19.0``."""

    path: str
    version: str


@dataclass
class CellCount:
    """What was counted in one cell.

    Attributes:
        scenario: the cell.
        iterations: number of iterations counted in each run.
        runs: of each run the instructions of all its counted iterations, of both arms, without
            those that calling an arm that does nothing takes.
        others: the same under other hash seeds.
        failure: why there are no counts; None if there are.
        took: seconds that the cell took.
    """

    scenario: SteadyDecode | TraceReplay
    iterations: int
    runs: list[tuple[int, int]] = field(default_factory=list)
    others: list[tuple[int, int]] = field(default_factory=list)
    failure: str | None = None
    took: float = 0.0

    @property
    def is_identical(self) -> bool:
        """Whether there are counts and all runs gave the same."""
        return len(set(self.runs)) == 1

    def per_iteration(self, arm: int) -> float:
        """Return the instructions per iteration of arm 0 or 1; the median of the runs.

        Not a number where nothing was counted.
        """
        if not self.runs:
            return math.nan
        return statistics.median(run[arm] for run in self.runs) / self.iterations

    def extent(self, arm: int) -> tuple[float, float]:
        """Return the lowest and the highest instructions per iteration of the runs."""
        totals = [run[arm] for run in self.runs]
        return min(totals) / self.iterations, max(totals) / self.iterations

    def by_hash(self, arm: int) -> tuple[float, float] | None:
        """Return the extent over all hash seeds, per iteration of arm 0 or 1.

        None where it is as good as the same under all, or differs under one.
        """
        totals = [run[arm] for run in (*self.runs, *self.others)]
        if not self.is_identical or max(totals) - min(totals) <= _BY_HASH * max(totals):
            return None
        return min(totals) / self.iterations, max(totals) / self.iterations

    @property
    def ratio(self) -> float:
        """Instructions of the second arm over those of the first; not a number if unknown."""
        first = self.per_iteration(0)
        return self.per_iteration(1) / first if first else math.nan

    @property
    def difference(self) -> float:
        """Instructions per iteration that the second arm executes beyond the first."""
        return self.per_iteration(1) - self.per_iteration(0)


def find_valgrind() -> Valgrind:
    """Return the valgrind on the path.

    Raises:
        InputError: there is none, it does not run, or this machine's code is not known here.
    """
    if platform.machine() not in MACHINE_CODE:
        raise InputError(
            f"--instructions works on {', '.join(MACHINE_CODE)}, not on {platform.machine()}"
        )
    found = shutil.which("valgrind")
    if found is None:
        raise InputError(
            "--instructions needs valgrind, which is not on the PATH: install it with "
            "'apt install valgrind' or 'dnf install valgrind' (brew has none)"
        )
    path = str(Path(found).absolute())
    try:
        done = run([path, "--version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: does not run: {error}") from None
    return Valgrind(path, done.stdout.strip().removeprefix("valgrind-"))


def iterations_of(scenario: SteadyDecode | TraceReplay) -> int:
    """Return how many iterations are counted: a block's, of small batches; at least one."""
    if not isinstance(scenario, SteadyDecode):
        return _FEW_ITERATIONS
    affordable = max(_FEW_ITERATIONS, _REQUESTS // scenario.requests)
    tokens = scenario.requests * scenario.tokens
    return max(1, min(affordable, scenario.tokens_per_block, _TOKENS // tokens))


def count_cell(
    duet: Duet, scenario: SteadyDecode | TraceReplay, valgrind: Valgrind, runs: int = RUNS
) -> CellCount:
    """Count what the arms of a duet execute in one cell, in ``runs`` fresh processes at once.

    Of further ones under other hash seeds the counts are kept apart.
    """
    result = CellCount(scenario, iterations_of(scenario))
    began = time.monotonic()
    try:
        seeds = [hash_seed(duet.seed, max(0, n)) for n in range(1 - runs, 1 + OTHER_SEEDS)]
        counts = _side_by_side(duet, result, valgrind, seeds)
        result.runs, result.others = counts[:runs], counts[runs:]
    except LostWorkerError:
        raise
    except WorkerError as error:
        result.failure = str(error)
    result.took = time.monotonic() - began
    return result


def _side_by_side(
    duet: Duet, result: CellCount, valgrind: Valgrind, seeds: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the counts of a run under each hash seed. Raises WorkerError if one gave none."""
    scenario = result.scenario
    job = {
        "sources": [asdict(source) for source in (duet.a, duet.b)],
        "scenario": scenario.to_dict(),
        "seed": f"{duet.seed}-{scenario.name}",
        "provider": duet.provider,
        "warmups": WARMUPS,
        "iterations": result.iterations,
    }
    what = f"cell {scenario.name}, counting instructions"
    tokens = scenario.requests * scenario.tokens if isinstance(scenario, SteadyDecode) else 0
    timeout = _TIMEOUT + _TIMEOUT_PER_TOKEN * tokens
    variables = _named_variables(duet)
    with tempfile.TemporaryDirectory(prefix="stepbench-") as folder:
        places = [Path(folder) / f"run-{number}" for number in range(len(seeds))]
        for place in places:
            place.mkdir()
        children = [
            Child(what, _command(valgrind, place, seed, variables), seed, json.dumps(job))
            for place, seed in zip(places, seeds, strict=True)
        ]
        texts = run_children(children, timeout)
        return [_counts(what, place, text) for place, text in zip(places, texts, strict=True)]


def _counts(what: str, place: Path, text: str) -> tuple[int, int]:
    """Return what a run counted, from what it printed and valgrind's files in ``place``."""
    try:
        first, second = (_read(place, int(process)) for process in text.split())
    except (OSError, ValueError) as error:
        raise WorkerError(f"{what}: the worker returned no counts: {error}") from None
    return first, second


def _named_variables(duet: Duet) -> list[str]:
    """Return the environment variables of ours that an arm reads: by its source, or as seen."""
    texts = [source.text for source in (duet.a, duet.b) if isinstance(source, ArmSource)]
    named = [
        name
        for name in sorted(os.environ)
        if not name.startswith("PYTHON")
        and any(f"{quote}{name}{quote}" in text for text in texts for quote in "'\"")
    ]
    return [*named, *duet.environment]


def _command(valgrind: Valgrind, place: Path, seed: int, variables: Sequence[str]) -> list[str]:
    """Return the command line of a worker; the same for all runs but for valgrind's own part."""
    names = [name for name in _ENVIRONMENT if name in os.environ]
    kept = [f"{name}={os.environ[name]}" for name in dict.fromkeys((*names, *variables))]
    environment = ["env", "-i", *kept, f"PYTHONHASHSEED={seed}", "PYTHONUTF8=1"]
    counting = [
        valgrind.path,
        "--tool=callgrind",
        "--command-line-only=yes",  # No options from the user's own files.
        "--quiet",
        "--vgdb=no",
        # Until the warm-up is over, nothing is instrumented, which is quick.
        "--instr-atstart=no",
        "--collect-atstart=no",
        f"--callgrind-out-file={place}/%p",
    ]
    # Without bytecode files being written, the first run does the same as the others.
    worker = module_command("harness.compare.instructions_worker", "-B")
    return [*environment, *counting, *worker]


def _read(place: Path, process: int) -> int:
    """Return what an arm executed beyond an arm that does nothing, from a process's two files."""
    nothing, arm = (_total(place / f"{process}.{part}") for part in (1, 2))
    return arm - nothing


def _total(file: Path) -> int:
    """Return the instructions that a file of callgrind's counts."""
    text = file.read_text(errors="replace")
    found = re.search(r"^(?:summary|totals): (\d+)$", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"no total in {file.name}")
    return int(found[1])
