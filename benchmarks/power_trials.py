"""The trials of the power study: each runs something live and returns what is kept of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import peers
from peers_trial import Trial
from power_file import Record

from harness.arms.sources import find_source
from harness.compare.duet import Duet
from harness.compare.file import cell_document
from harness.compare.run import compare_cell
from harness.system.cores import keep_off, lock_cpu
from harness.system.worker_process import run, started
from scenarios.catalogue import find_scenarios
from stepbench_core.errors import WorkerError

ARM = "incremental"
SCENARIO = "grid"
# The cell of the trials that are not made in all of them.
CELL = "v2-64x2048"
# From which slowdown on a difference matters, unless a part says otherwise.
THRESHOLD = 0.005

# Those in which the usual tools are asked, and the duet beside them.
PEER_CELLS = (CELL, "v2-16x8192", "v1-64x2048", "v2-64x8192")
DUET = "duet"

# Appended to the arm's source. The same text on both sides, so that only the share differs.
_SLOWED = """

from time import perf_counter as _clock

_SHARE = {share}
_Arm = KvCacheConnectorSchedulerOutputManager


class KvCacheConnectorSchedulerOutputManager(_Arm):
    def build_scheduler_output(self, *arguments):
        began = _clock()
        output = super().build_scheduler_output(*arguments)
        # Both sides wait this microsecond, so that both wait, and what the waiting costs is equal.
        end = began + (_clock() - began) * (1 + _SHARE) + 1e-6
        while _clock() < end:
            pass
        return output
"""

# Stays on the cores that it is given, and says when it is there.
_HOG = """import os, sys
os.sched_setaffinity(0, map(int, sys.argv[1:]))
os.write(1, b"busy")
while True: pass"""
# How a command may end that has compared all cells.
_CODES = (0, 1, 3)


@dataclass(frozen=True)
class Setting:
    """Where and how long the trials run.

    Attributes:
        cpus: the cores that are measured on; none for no pinning.
        provider: where the stand-ins come from.
        seconds: time budget of a cell, and of a trial of a peer.
        progress: called with what is being done.
    """

    cpus: tuple[int, ...]
    provider: str
    seconds: float
    progress: Callable[[str], None]

    @property
    def cpu(self) -> int | None:
        """The core of what is measured on one alone."""
        return self.cpus[-1] if self.cpus else None


def slowed_arm(share: float) -> str:
    """Return the source of the arm whose calls take longer by this share of each call's time."""
    return find_source(ARM).text + _SLOWED.format(share=share)


def grid(setting: Setting, seed: int, _index: int, threshold: float = THRESHOLD) -> Record:
    """Run the command that users run, on all cells, with the same arm on both sides."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "duet.json")
        code = "from stepbench.cli import main; main()"
        command = [sys.executable, "-P", "-c", code, "compare", ARM, ARM, "--scenario", SCENARIO]
        command += ["--seconds", f"{setting.seconds:g}", "--seed", f"{seed}", "--quiet"]
        command += ["--threshold", f"{threshold:.2%}"]
        command += ["--provider", setting.provider, "--output", str(file), "--json"]
        command += ["--cpu", ",".join(map(str, setting.cpus)) or "none"]
        ran = run(command, stdout=subprocess.PIPE)
        if not file.exists():
            raise WorkerError(f"stepbench compare ended with {ran.returncode} and no samples")
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    failures = [cell["failure"] for cell in cells if cell["failure"] is not None]
    if len(cells) < len(find_scenarios(SCENARIO)) or failures or ran.returncode not in _CODES:
        words = failures[0] if failures else f"{len(cells)} cells"
        raise WorkerError(f"stepbench compare ended with {ran.returncode}: {words}")
    return {"exit_code": ran.returncode, "cells": [_kept(cell) for cell in cells]}


def slowdown(
    setting: Setting,
    seed: int,
    _index: int,
    share: float,
    cell: str = CELL,
    **changed: float | bool,
) -> Record:
    """Compare the arm with itself slowed by a share, in one cell, as if it were one of the grid.

    Args:
        setting: where and how long.
        seed: of its inputs and orders.
        share: by how much it is slowed, as a fraction.
        cell: the name of the cell.
        changed: what is not as usual, by its name in ``harness.compare.duet.Duet``.
    """
    with tempfile.TemporaryDirectory() as folder, lock_cpu(*setting.cpus), keep_off(*setting.cpus):
        a, b = (find_source(spec) for spec in slowed_specs(Path(folder), share))
        return _compare(setting, seed, a, b, cell, **changed)


def each_cell(
    setting: Setting, seed: int, index: int, share: float, **changed: float | bool
) -> Record:
    """Do the same in one cell of the grid after the other."""
    cells = [scenario.name for scenario in find_scenarios(SCENARIO)]
    return slowdown(setting, seed, index, share, cells[index % len(cells)], **changed)


def hogged(setting: Setting, seed: int, index: int, share: float) -> Record:
    """Do the same while another process keeps a core busy.

    In every other trial that is one of the cores measured on, in the rest any one.
    """
    with _hog(setting.cpu if index % 2 else None):
        # Two trials a cell, one with each kind of hog.
        return each_cell(setting, seed, index // 2, share)


def beside_peers(setting: Setting, seed: int, index: int, name: str, share: float) -> Record:
    """Ask the duet, or a peer by its name, whether the arm slowed by a share is slower.

    All of them in the same cells in turn, and with the same time.
    """
    cell = PEER_CELLS[index % len(PEER_CELLS)]
    if name == DUET:
        return slowdown(setting, seed, index, share, cell)
    with tempfile.TemporaryDirectory() as folder, lock_cpu(setting.cpu), keep_off(setting.cpu):
        a, b = slowed_specs(Path(folder), share)
        trial = Trial(cell, a, b, setting.seconds, setting.cpu, Path(folder))
        found = peers.PEERS[name](trial)
    # One tool, read by several rules.
    return {"cell": cell, "peers": [asdict(one) for one in found]}


def slowed_specs(folder: Path, share: float) -> tuple[str, str]:
    """Write the arm as it is and slowed by a share; return how they are named."""
    files = [(folder / "as_it_is.py", 0.0), (folder / "slowed.py", share)]
    for file, own in files:
        file.write_text(slowed_arm(own), encoding="utf-8")
    return f"file:{files[0][0]}", f"file:{files[1][0]}"


def _compare(
    setting: Setting,
    seed: int,
    a: Any,  # noqa: ANN401
    b: Any,  # noqa: ANN401
    cell: str,
    **changed: Any,  # noqa: ANN401
) -> Record:
    scenarios = find_scenarios(SCENARIO)
    scenario = next(one for one in scenarios if one.name == cell)
    duet = Duet(
        a,
        b,
        (scenario,),
        seconds=setting.seconds,
        seed=seed,
        cpus=setting.cpus,
        provider=setting.provider,
        comparisons=len(scenarios),
        **changed,
    )
    result = compare_cell(duet, scenario)
    if result.failure is not None:
        raise WorkerError(result.failure)
    return {"cells": [_kept(cell_document(result))]}


def _kept(cell: Mapping[str, Any]) -> Record:
    """Return what is kept of a cell: its verdict, and what each process says."""
    verdict = cell["verdict"]
    processes = [*cell["first_run"], *cell["second_run"]]
    scenario = cell["scenario"]
    return {
        "cell": f"{scenario['manager']}-{scenario['requests']}x{scenario['tokens']}",
        "kind": verdict["kind"],
        "reason": verdict["reason"],
        "ratio": verdict["ratio"],
        "detectable": verdict["detectable"],
        "took": round(cell["took"], 3),
        "first": len(cell["first_run"]),
        "effects": [_short(process["effect"]) for process in processes],
        "controls": [[*map(_short, process["controls"])] for process in processes],
        "cores": cell["cores"],
        "cpu_shares": [round(process["cpu_share"], 3) for process in processes],
        # Whether a copy of the first arm, 0 or 2, was imported before all others.
        "imported_first": [order[0] % 2 == 0 for order in cell["imports"]],
        "by_place": [
            _by_place(samples, orders)
            for samples, orders in zip(cell["samples"], cell["orders"], strict=True)
        ],
    }


def _by_place(
    samples: Sequence[Sequence[float]], orders: Sequence[Sequence[int]]
) -> list[float | None]:
    """Return the median log ratio of the iterations in which the first arm ran before the second.

    And that of the others; None where there are none. Of the first copy of either.
    """
    found: tuple[list[float], list[float]] = ([], [])
    for a, b, order in zip(samples[0], samples[1], orders, strict=True):
        found[order.index(0) > order.index(1)].append(math.log(b / a))
    return [_short(statistics.median(ratios)) if ratios else None for ratios in found]


def _short(value: float) -> float:
    return round(value, 6)


@contextlib.contextmanager
def _hog(cpu: int | None) -> Iterator[None]:
    """Keep a core busy meanwhile: this one, or any."""
    allowed = os.sched_getaffinity(0) if cpu is None else {cpu}
    command = [sys.executable, "-S", "-c", _HOG, *map(str, allowed)]
    with started(command, stdout=subprocess.PIPE) as hog:
        hog.process.stdout.read(1)
        yield
