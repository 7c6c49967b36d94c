"""The peer ``pytest-benchmark``: a saved run of A, and a run of B held against it.

An alarm is what ``--benchmark-compare-fail`` says (exit code 1): a statistic more than 5 % above
A's. A run is one test in one process: ``benchmark.pedantic`` with one call a round, as many rounds
as fill the time, since ``--benchmark-max-time`` does not apply to it. The collector runs, as it
does by default.
"""

import json
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peers_trial import HERE, Cost, PeerTrial, Trial, cost_of, reason, run_tool, scratch, write_job

from stepbench_core.errors import WorkerError

STATISTICS = ("mean", "median", "min")
_THRESHOLD = "5%"
# Seconds that pytest itself takes for a run.
_OVERHEAD = 0.5
# With settings of its own: none of the project's tests, and no cache.
_OPTIONS = ("-c", "pytest.ini", "-p", "no:cacheprovider", "--benchmark-storage=file://stored")


def compare_arms(trial: Trial) -> list[PeerTrial]:
    """Return what the comparison says by the mean, by the median and by the minimum.

    Raises:
        WorkerError: the tool failed, or its output is not understood.
    """
    rounds = rounds_of(trial.seconds / 2, cost_of(trial))
    timeout = 60 + 20 * trial.seconds
    # One option with all of them: given again, it would replace the one before.
    fail = ["--benchmark-compare-fail", *(f"{name}:{_THRESHOLD}" for name in STATISTICS)]
    began = time.perf_counter()
    with scratch(trial, "pytest") as folder:
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        shutil.copy(HERE / "peers_pytest_steps.py", folder / "test_steps.py")
        command = [sys.executable, "-m", "pytest", *_OPTIONS, "test_steps.py"]

        def run(arm: str, *options: str, codes: tuple[int, ...] = (0,)) -> str:
            write_job(folder / "job.json", trial.cell, arm, rounds=rounds)
            what = f"pytest-benchmark, arm {arm}"
            line = [*command, *options]
            return run_tool(what, line, folder, trial.cpu, timeout=timeout, codes=codes)

        run(trial.a, "--benchmark-save=a")
        options = ("--benchmark-save=b", "--benchmark-compare=0001", *fail)
        output = run(trial.b, *options, codes=(0, 1))
        seconds = time.perf_counter() - began
        failed = failed_statistics(output)
        a, b = (read_statistics(folder / "stored", name) for name in ("a", "b"))
    ratios = {name: b[name] / a[name] for name in STATISTICS}
    return [
        PeerTrial(f"pytest-benchmark {name}:{_THRESHOLD}", name in failed, ratios, seconds)
        for name in STATISTICS
    ]


def rounds_of(seconds: float, cost: Cost) -> int:
    """Return how many rounds make a run that takes about so many seconds; at least two."""
    return max(2, int((seconds - _OVERHEAD - cost.process) / cost.iteration))


def failed_statistics(output: str) -> set[str]:
    """Return the statistics by which ``--benchmark-compare-fail`` failed.

    Raises:
        WorkerError: nothing was compared.
    """
    if "Performance has regressed" in output:
        found = re.findall(r"Field '(\w+)' has failed PercentageRegressionCheck", output)
        if found:
            return set(found)
    elif "1 passed" in output and "(0001_" in output:
        return set()
    raise WorkerError(f"pytest-benchmark: not understood: {reason(output)}")


def read_statistics(storage: Path, name: str) -> Mapping[str, float]:
    """Return the statistics of a saved run of one benchmark, in seconds.

    Raises:
        WorkerError: there is no such run.
    """
    for path in storage.glob(f"*/*_{name}.json"):
        saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        (benchmark,) = saved["benchmarks"]
        return {statistic: float(benchmark["stats"][statistic]) for statistic in STATISTICS}
    raise WorkerError(f"pytest-benchmark: run {name} is not saved")
