"""Workers of a duet whose samples are drawn instead of measured."""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.arms.sources import ArmSource
from harness.compare import processes as duet_processes
from harness.compare import run
from harness.system.worker_process import Child

A = ArmSource("one", "one", "one.py", "# one")
B = ArmSource("two", "two", "two.py", "# two")

# For each process: log ratio of the second arm and of the control, and share of the core.
Draws = Iterator[tuple[float, float, float]]


class Workers:
    """Stands in for ``run_children``: processes take made-up time and return drawn samples.

    Attributes:
        calls: what, command, hash seed, input and time limit of each worker.
        together: how many workers ran at once, each time.
        draws: what they say; where a core is named in ``shares``, with that share of it instead.
        seconds: what those of one time take.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.calls: list[tuple[str, list[str], int, str, float]] = []
        self.draws: Draws = itertools.repeat((0.0, 0.0, 1.0))
        self.together: list[int] = []
        self.shares: dict[int, float] = {}
        self.seconds = seconds
        self._now = 100.0
        monkeypatch.setattr(duet_processes, "run_children", self)
        monkeypatch.setattr(run, "time", SimpleNamespace(monotonic=lambda: self._now))

    def __call__(self, children: Sequence[Child], timeout: float) -> list[str]:
        self._now += self.seconds
        self.together.append(len(children))
        return [self._run(child, timeout) for child in children]

    def _run(self, child: Child, timeout: float) -> str:
        self.calls.append((child.what, list(child.command), child.hash_seed, child.text, timeout))
        effect, control, share = next(self.draws)
        share = self.shares.get(json.loads(child.text)["cpu"], share)
        logs = (0.0, effect, control, effect + control)
        samples = [[2e-3 * math.exp(log)] for log in logs]
        order = [2, 0, 3, 1]
        return json.dumps(
            {
                "seconds": samples,
                "background": None,
                "is_restless": False,
                "alive": [[]] * 4,
                "cpu_share": share,
                "imports": order,
                "orders": [order],
            }
        )

    def jobs(self) -> list[dict[str, Any]]:
        return [json.loads(text) for _, _, _, text, _ in self.calls]
