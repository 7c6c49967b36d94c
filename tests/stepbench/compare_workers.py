"""What the tests of ``stepbench compare`` share."""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.compare import processes as duet_processes
from harness.system.worker_process import Child

SUBJECTS = Path(__file__).parent.parent / "harness/subjects"
ONE = ("incremental", "incremental", "--cells", "2x64", "-o", "x.json", "-q", "--no-verify")
TWO = ("incremental", "batched", "--cells", "2x64,1x8", "-o", "x.json", "-q", "--no-verify")


def subject(name: str) -> str:
    return f"file:{SUBJECTS / name}.py"


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def strictly(text: str) -> dict[str, Any]:
    return json.loads(text, parse_constant=no_constant)


def cells_in(path: str) -> list[str]:
    """The verdicts in the file of samples."""
    return [cell["verdict"]["kind"] for cell in json.loads(Path(path).read_text())["cells"]]


class Workers:
    """Stands in for real workers. Each cell has its own effect and share of the core."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.effects: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.shares_of_cores: dict[int, float] = {}
        self.errors: dict[str, BaseException] = {}
        self.jobs: list[dict[str, Any]] = []
        monkeypatch.setattr(duet_processes, "run_children", self)

    def __call__(self, children: Sequence[Child], _timeout: float) -> list[str]:
        return [self._run(child.what, child.text) for child in children]

    def _run(self, what: str, text: str) -> str:
        cell = what.split()[1].rstrip(",")
        if cell in self.errors:
            raise self.errors[cell]
        self.jobs.append(json.loads(text))
        second = 2e-3 * math.exp(self.effects.get(cell, 0.0))
        samples = [[2e-3] * 2, [second] * 2] * 2
        share = self.shares_of_cores.get(self.jobs[-1]["cpu"], self.shares.get(cell, 1.0))
        found = {
            "seconds": samples,
            "cpu_share": share,
            "background": None,
            "is_restless": False,
            "alive": [[]] * 4,
        }
        return json.dumps({**found, "imports": [0, 1, 2, 3], "orders": [[0, 1, 2, 3]] * 2})

    def cells(self) -> list[str]:
        """The cells in the order in which they were run, each with its number of processes."""
        sizes = [f"{job['scenario']['requests']}x{job['scenario']['tokens']}" for job in self.jobs]
        return [f"{size} {len(list(run))}" for size, run in itertools.groupby(sizes)]
