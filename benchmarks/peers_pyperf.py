"""The peer ``pyperf compare_to``: a run of A, a run of B, and a t-test between their values.

Run as a script by the tool itself, in a folder with a job, it is a benchmark of one subject.

A run is sized as the tool's defaults are, 3 values and a warm-up a process, and 10 processes where
the time allows (its ``--fast``; 20 would spend the time on starting). ``--loops`` fills the rest,
so that none of it goes to calibration; a value is the mean of its calls. The collector runs, as it
does by default. The exit code is 0 whatever the tool finds: an alarm is what it prints.
"""

import functools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyperf
from peers_subject import Subject, read_job
from peers_trial import (
    Cost,
    PeerTrial,
    Trial,
    compare_samples,
    cost_of,
    reason,
    run_tool,
    scratch,
    write_job,
)

from stepbench_core.errors import WorkerError

_PROCESSES, _VALUES, _WARMUPS = 10, 3, 1
# Seconds that the tool itself takes for a run, and each of its processes.
_OVERHEAD, _OVERHEAD_OF_PROCESS = 0.4, 0.05


def compare_arms(trial: Trial) -> list[PeerTrial]:
    """Return what ``compare_to`` says by its test, and by its mean alone.

    Raises:
        WorkerError: the tool failed, or its output is not understood.
    """
    options = size(trial.seconds / 2, cost_of(trial))
    if trial.cpu is not None:
        options.append(f"--affinity={trial.cpu}")
    timeout = 60 + 20 * trial.seconds
    began = time.perf_counter()
    with scratch(trial, "pyperf") as folder:
        for name, arm in (("a.json", trial.a), ("b.json", trial.b)):
            write_job(folder / "job.json", trial.cell, arm)
            command = [sys.executable, __file__, *options, "--quiet", f"--output={name}"]
            run_tool(f"pyperf, arm {arm}", command, folder, trial.cpu, timeout=timeout)
        command = [sys.executable, "-m", "pyperf", "compare_to", "--verbose", "a.json", "b.json"]
        output = run_tool("pyperf compare_to", command, folder, trial.cpu, timeout=timeout)
        seconds = time.perf_counter() - began
        a, b = (read_values(folder / name) for name in ("a.json", "b.json"))
    ratios = compare_samples(a, b)
    return [
        PeerTrial("pyperf compare_to", says_slower(output), ratios, seconds),
        PeerTrial("pyperf mean:5%", ratios["mean"] > 1.05, ratios, seconds),
    ]


def size(seconds: float, cost: Cost) -> list[str]:
    """Return the options of a run that takes about so many seconds, and at least two processes."""
    process = cost.process + _OVERHEAD_OF_PROCESS
    left = seconds - _OVERHEAD
    # No more than about half of the time for starting.
    processes = max(2, min(_PROCESSES, int(left / 2 / process)))
    calls = (left / processes - process) / cost.iteration
    loops = max(1, int(calls / (_VALUES + _WARMUPS)))
    return [
        f"--processes={processes}",
        f"--values={_VALUES}",
        f"--warmups={_WARMUPS}",
        f"--loops={loops}",
    ]


def says_slower(output: str) -> bool:
    """Return whether ``compare_to --verbose`` calls the one benchmark significantly slower.

    Raises:
        WorkerError: the output says neither that it is significant nor that it is not.
    """
    if "Not significant!" in output:
        return False
    if "Significant (t=" not in output:
        raise WorkerError(f"pyperf compare_to: not understood: {reason(output)}")
    (line,) = (line for line in output.splitlines() if line.startswith("Mean +- std dev:"))
    return line.endswith("slower")


def read_values(path: Path) -> Sequence[float]:
    """Return the values of a file with one benchmark, in seconds."""
    values: Sequence[float] = pyperf.Benchmark.load(str(path)).get_values()
    return values


@functools.cache
def _subject() -> Subject:
    # The process that starts the others needs none.
    return Subject(read_job(Path("job.json")))


def time_calls(loops: int) -> float:
    """Return the seconds that so many calls took, each after an advance outside the timing."""
    subject, clock, total = _subject(), time.perf_counter, 0.0
    advance, call = subject.advance, subject.call
    for _ in range(loops):
        advance()
        start = clock()
        call()
        total += clock() - start
    return total


if __name__ == "__main__":
    pyperf.Runner().bench_time_func("step", time_calls)
