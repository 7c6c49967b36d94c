"""A trial of a peer, what comes out of it, and what the peers share to run one."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.arms.sources import ArmSource, find_source
from harness.system.worker_process import run
from scenarios.catalogue import CATALOGUE
from stepbench_core.errors import InputError, WorkerError, unknown

HERE = Path(__file__).resolve().parent

# Processes that find out what a run costs; the median counts, for one can be disturbed.
_PROBES = 3


@dataclass(frozen=True)
class Trial:
    """What a peer is asked: whether B is slower than A.

    Attributes:
        cell: name of a scenario of the catalogue, such as ``v2-64x2048``.
        a: the baseline, as ``harness.arms.loading.find_source`` takes it.
        b: what is compared with it, likewise.
        seconds: what A and B together may take.
        cpu: the core that all processes of the tool are pinned to; None leaves it to the system.
        folder: where the tool may write; nothing stays there.
    """

    cell: str
    a: str
    b: str
    seconds: float
    cpu: int | None
    folder: Path


@dataclass(frozen=True)
class PeerTrial:
    """What a peer says.

    Attributes:
        peer: the tool and the rule by which it is read.
        alarm: whether B counts as slower by that rule.
        ratios: B over A, by statistic, for other thresholds than the rule's.
        seconds: wall time of the trial. Trials that read the same run have the same.
    """

    peer: str
    alarm: bool
    ratios: Mapping[str, float]
    seconds: float


@dataclass(frozen=True)
class Cost:
    """What a run can be sized by, in seconds.

    Attributes:
        process: a process that imports the project and makes the workload.
        iteration: one iteration, what it takes to start the workload anew included.
    """

    process: float
    iteration: float


def check(trial: Trial) -> None:
    """Raise InputError if a trial cannot be run, NoBaselineError if a revision lacks its arm."""
    find_scenario(trial.cell)
    for spec in (trial.a, trial.b):
        find_source(spec)
    if not 0 < trial.seconds <= 3600:
        raise InputError(f"{trial.seconds:g} seconds: a trial takes more than 0 and at most 3600")
    if trial.cpu is not None and trial.cpu not in os.sched_getaffinity(0):
        raise InputError(f"core {trial.cpu} is none of those this process may run on")
    if not trial.folder.is_dir():
        raise InputError(f"{trial.folder}: not a folder")


def find_scenario(cell: str) -> dict[str, Any]:
    """Return the scenario of the catalogue that has this name, as a dictionary.

    Raises:
        InputError: there is none; the message suggests the nearest.
    """
    cells = {found.name: found for _, scenarios in CATALOGUE.values() for found in scenarios}
    if cell not in cells:
        raise unknown("cell", cell, cells)
    return cells[cell].to_dict()


def write_job(path: Path, cell: str, arm: str, **settings: float) -> None:
    """Write what ``peers_subject`` measures, and what a tool's process has to know besides."""
    job = {"scenario": find_scenario(cell), "source": asdict(find_source(arm)), **settings}
    path.write_text(json.dumps(job), encoding="utf-8")


def cost_of(trial: Trial) -> Cost:
    """Return what A costs in this trial's cell, found out once and outside the trial's time."""
    return _cost_of(trial.cell, find_source(trial.a), trial.cpu)


def compare_samples(a: Sequence[float], b: Sequence[float]) -> dict[str, float]:
    """Return B over A by mean, median and minimum."""
    return {
        "mean": statistics.fmean(b) / statistics.fmean(a),
        "median": statistics.median(b) / statistics.median(a),
        "min": min(b) / min(a),
    }


@functools.cache
def _cost_of(cell: str, source: ArmSource, cpu: int | None) -> Cost:
    processes, iterations = [], []
    for _ in range(_PROBES):
        with tempfile.TemporaryDirectory() as name:
            job = Path(name, "job.json")
            job.write_text(json.dumps({"scenario": find_scenario(cell), "source": asdict(source)}))
            began = time.perf_counter()
            command = [sys.executable, str(HERE / "peers_subject.py"), str(job)]
            probe = json.loads(run_tool("probe", command, Path(name), cpu, timeout=300))
            wall = time.perf_counter() - began
        processes.append(wall - probe["iterations"])
        iterations.append((probe["iterations"] + probe["start"] / 3) / probe["count"])
    return Cost(statistics.median(processes), statistics.median(iterations))


@contextlib.contextmanager
def scratch(trial: Trial, peer: str) -> Iterator[Path]:
    """Give a folder of its own within the trial's, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix=f"{peer}-", dir=trial.folder.resolve()) as name:
        yield Path(name)


def run_tool(
    what: str,
    command: Sequence[str],
    folder: Path,
    cpu: int | None,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    codes: Collection[int] = (0,),
) -> str:
    """Run a tool and return what it printed, both streams together.

    Args:
        what: the words that name it in a message.
        command: its command line.
        folder: its working folder.
        cpu: the core for it and all that it starts; None leaves it to the system.
        timeout: seconds after which it counts as hanging and is killed.
        env: environment variables to set beside ours.
        codes: the exit codes that are no failure.

    Raises:
        WorkerError: it failed or hung; the message is one line.
    """
    with _pinned(cpu):
        try:
            done = run(
                command,
                timeout=timeout,
                cwd=folder,
                env=_environment() | dict(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            raise WorkerError(f"{what}: hung: no result after {timeout:g} s") from None
    output: str = done.stdout
    if done.returncode not in codes:
        raise WorkerError(f"{what}: exit code {done.returncode}: {reason(output)}")
    return output


def reason(output: str) -> str:
    """Return the line of a failed tool's output that says most: its first error, or its end."""
    errors = re.findall(r"^(?:E|\s)*([\w.]+Error: .+)$", output, re.MULTILINE)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return str([*errors[:1], *lines[-1:], "no output"][0])


@contextlib.contextmanager
def _pinned(cpu: int | None) -> Iterator[None]:
    """Run on one core, as what is started meanwhile does for good."""
    before = os.sched_getaffinity(0)
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _environment() -> dict[str, str]:
    """Return our environment, without what would change how a tool runs; it finds our modules."""
    foreign = ("PYTHON", "PYTEST_", "PYPERF", "ASV_", "COV_", "COVERAGE_", "GIT_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return env | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
