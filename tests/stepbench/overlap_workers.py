"""Stands in for the worker processes of ``stepbench overlap``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.overlap import run as overlap_run

from ..harness.overlap_runs import make_segments

# As little as there is to run for real.
REAL = ("--cells", "1x8", "--processes", "1", "--iterations", "2", "--provider", "python")


class Workers:
    """Gives each arm a path of its own, in every cell the same, and steps as the model has them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = {"full-copy": 0.006, "incremental": 0.001, "batched": 0.0005}
        self.forward = 0.004  # Where it is not given.
        self.errors: dict[str, BaseException] = {}
        self.jobs: list[dict[str, Any]] = []
        monkeypatch.setattr(overlap_run, "run_child", self)

    def __call__(self, what: str, _command: object, _seed: int, text: str, _limit: float) -> str:
        cell = what.split()[1].rstrip(",")
        if cell in self.errors:
            raise self.errors[cell]
        job = json.loads(text)
        self.jobs.append(job)
        forward = job["forward"]["seconds"]
        segments = make_segments(
            [self.paths.get(source["name"], 0.001) for source in job["sources"]],
            self.forward if forward is None else forward,
            other=job["other_host"],
            iterations=job["iterations"],
        )
        return json.dumps({"segments": segments, "cpu_share": 0.99, "device": {}})
