"""How long ``stepbench history trend`` takes over a thousand runs with a million samples.

Makes such a history in a temporary folder, of two cells with two arms each whose times have noise
and two steps, and times the command in processes of its own, the interpreter's start included. Run
it with ``python benchmarks/history_speed.py``; it needs the extra ``history``, and matplotlib.
"""

import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import click
import numpy as np

from harness.history.history import ArmOfRun, Run, file_name, find_folder, write_run
from harness.stats.estimates import Estimate
from harness.system.worker_process import run

_START = datetime(2026, 1, 1)
_CELLS = ("v2-64x2048", "v2-64x8192")
_ARMS = {"full-copy": 2e-3, "incremental": 3e-4}
_PROCESSES, _ROUNDS, _SAMPLES = 2, 9, 15
# From these shares of the runs on, times are so many times as long.
_STEPS = ((0.4, 1.05), (0.75, 0.98))


@click.command()
@click.option("--runs", default=1_000, show_default=True, help="Runs of the history.")
@click.option("--times", default=7, show_default=True, help="How often each command is timed.")
def main(runs: int, times: int) -> None:
    """Print the median time of each command, with the shortest and the longest."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "history")
        samples = sum(write(folder, number, runs) for number in range(runs))
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{runs:,} runs, {samples:,} samples, {size / 1e6:.1f} MB")
        plot = str(Path(name, "trend"))
        for arguments in (
            [],
            ["--plot", f"{plot}.svg"],
            ["--plot", f"{plot}.png"],
        ):
            took = sorted(timed(str(folder), *arguments) for _ in range(times))
            words = shlex.join(["trend", *(Path(word).name for word in arguments)])
            print(
                f"{words}: {statistics.median(took):.2f} s ({took[0]:.2f} to {took[-1]:.2f}, "
                f"{times} times)"
            )


def write(folder: Path, number: int, runs: int) -> int:
    """Write a run; return how many samples it has."""
    generator = np.random.default_rng(number)
    factor = float(np.prod([size for share, size in _STEPS if number >= share * runs]))
    arms = []
    for cell in _CELLS:
        for arm, seconds in _ARMS.items():
            level = seconds * factor * float(np.exp(generator.normal(0.0, 0.01)))
            samples = level * np.exp(generator.normal(0.0, 0.05, (_PROCESSES, _ROUNDS * _SAMPLES)))
            value = float(np.median(samples))
            arms.append(
                ArmOfRun(
                    cell=cell,
                    arm=arm,
                    source=None,
                    requests=64.0,
                    tokens=2_115.0,
                    seconds=Estimate(value, value * 0.98, value * 1.02),
                    processes=tuple(range(_PROCESSES)),
                    samples=tuple(map(tuple, samples.tolist())),
                )
            )
    run = Run(
        date=_START + timedelta(hours=number),
        machine="0123456789ab",
        host="box",
        cpu="a CPU",
        python="cpython 3.11.7 (64-bit)",
        provider="nanobind",
        tool="stepbench",
        gc=False,
        version="0.1",
        revision=f"{number:012x}",
        round_size=_SAMPLES,
        arms=tuple(arms),
        metadata={},
    )
    write_run(find_folder(str(folder)), file_name(run, f"{number:016x}"), run)
    return len(arms) * _PROCESSES * _ROUNDS * _SAMPLES


def timed(folder: str, *arguments: str) -> float:
    """Return the seconds that the command takes."""
    command = [sys.executable, "-m", "stepbench", "history", "trend", "--from", folder]
    start = time.perf_counter()
    run([*command, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
