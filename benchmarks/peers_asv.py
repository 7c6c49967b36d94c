"""The peer ``asv continuous``: two commits of a small repository, one with A and one with B.

It is the very command, with its defaults: 2 rounds of each commit, which take turns, and an alarm
(exit code 1) where the medians differ by more than the factor 1.1 and the samples differ by its
test. ``repeat`` fills the time with samples of one call each; the collector is off during a sample,
as ``timeit`` has it. ``peers_asv_plugin`` is the environment that needs no network.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from peers_trial import (
    HERE,
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

_ROUNDS = 2
# Seconds that asv itself takes for a trial, and each process that measures besides what any takes.
_OVERHEAD, _OVERHEAD_OF_PROCESS = 1.5, 0.3
_MACHINE = "peers"
_BENCHMARK = "steps.Steps.time_call"
_CONFIGURATION = {
    "version": 1,
    "project": "peers",
    "repo": "repo",
    "branches": ["main"],
    "environment_type": "this-python",
    "pythons": [f"{sys.version_info.major}.{sys.version_info.minor}"],
    "plugins": [".peers_asv_plugin"],
    "build_command": [],
    "install_command": [],
    "uninstall_command": [],
    "benchmark_dir": "benchmarks",
    "env_dir": "env",
    "results_dir": "results",
    "html_dir": "html",
}


def compare_arms(trial: Trial) -> list[PeerTrial]:
    """Return what ``continuous`` says, and what it would say of any slowdown that its test finds.

    The second is an alarm at the factor 1: at another factor it is one if the median's ratio is
    beyond that as well.

    Raises:
        WorkerError: asv failed, or left no results.
    """
    cost = cost_of(trial)
    timeout = 120 + 20 * trial.seconds
    began = time.perf_counter()
    with scratch(trial, "asv") as folder:
        # asv keeps what it knows of the machine in the home folder: not the user's.
        env = {"HOME": str(folder)}

        def run(what: str, *command: str, codes: tuple[int, ...] = (0,)) -> str:
            return run_tool(what, command, folder, trial.cpu, timeout=timeout, env=env, codes=codes)

        _configure(folder)
        git = ("git", "-C", "repo", "-c", "user.name=peers", "-c", "user.email=peers@localhost")
        run("git init", "git", "init", "--quiet", "--initial-branch=main", "repo")
        commits = []
        for arm in (trial.a, trial.b):
            write_job(folder / "repo" / "job.json", trial.cell, arm)
            run("git add", *git, "add", "job.json")
            run("git commit", *git, "commit", "--quiet", "--allow-empty", "--message", arm)
            commits.append(run("git rev-parse", *git, "rev-parse", "HEAD").strip())

        asv = (sys.executable, "-m", "asv")
        repeat = f"repeat=(2,1000000,{seconds_of_round(trial.seconds, cost):.3f})"
        options = (f"--machine={_MACHINE}", "--show-stderr", "--attribute", repeat)
        output = run("asv continuous", *asv, "continuous", *options, *commits, codes=(0, 1))
        seconds = time.perf_counter() - began
        alarm = says_decreased(output)

        options = (f"--machine={_MACHINE}", "--factor=1", "--only-changed", *commits)
        changed = run("asv compare", *asv, "compare", *options)
        a, b = (read_samples(folder / "results" / _MACHINE, commit) for commit in commits)
    ratios = compare_samples(a, b)
    return [
        PeerTrial("asv continuous", alarm, ratios, seconds),
        PeerTrial("asv continuous --factor=1", says_slower(changed), ratios, seconds),
    ]


def seconds_of_round(seconds: float, cost: Cost) -> float:
    """Return how long each of the rounds of both arms may sample, in seconds."""
    # asv's warm-up is 0.1 s.
    process = cost.process + _OVERHEAD_OF_PROCESS + 0.1
    return max(0.01, (seconds - _OVERHEAD) / (2 * _ROUNDS) - process)


def says_decreased(output: str) -> bool:
    """Return whether ``asv continuous`` says that the performance decreased.

    Raises:
        WorkerError: it says neither that nor anything else of what it can.
    """
    if "PERFORMANCE DECREASED." in output:
        return True
    if "PERFORMANCE INCREASED." in output or "NOT SIGNIFICANTLY CHANGED." in output:
        return False
    raise WorkerError(f"asv continuous: not understood: {reason(output)}")


def says_slower(output: str) -> bool:
    """Return whether a table of ``asv compare`` marks the benchmark as slower."""
    rows = [line.split("|") for line in output.splitlines() if _BENCHMARK in line]
    return any(row[1].strip() == "+" for row in rows)


def read_samples(folder: Path, commit: str) -> list[float]:
    """Return the samples of a commit in asv's results, in seconds.

    Raises:
        WorkerError: there are none.
    """
    for path in folder.glob(f"{commit[:8]}-*.json"):
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        row = results["results"].get(_BENCHMARK, [])
        # Columns at the end that are empty are left out.
        values = dict(zip(results["result_columns"], row, strict=False))
        (samples,) = values.get("samples") or [None]
        if samples:
            return [float(sample) for sample in samples]
    raise WorkerError(f"asv: no samples of commit {commit[:8]}")


def _configure(folder: Path) -> None:
    (folder / "asv.conf.json").write_text(json.dumps(_CONFIGURATION), encoding="utf-8")
    machine = {_MACHINE: {"machine": _MACHINE}, "version": 1}
    (folder / ".asv-machine.json").write_text(json.dumps(machine), encoding="utf-8")
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "__init__.py").touch()
    shutil.copy(HERE / "peers_asv_steps.py", folder / "benchmarks" / "steps.py")
