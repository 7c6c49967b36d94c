"""A gate whose long steps are made up: the random runs, the counting, the timing."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from harness.arms.revision import ROOT
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.verdict import Verdict
from harness.count.budget import update, write_budget
from harness.count.work import FIGURES, Work
from harness.gate import steps as gate_steps
from harness.gate.config import GateConfig, Outcome, Step
from harness.gate.steps import run_gate
from harness.system import git
from harness.verify.runs import Contest, Failure, Verification
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError

PASSED, FOUND, INCONCLUSIVE, NOTHING = (
    Outcome.PASSED,
    Outcome.FOUND,
    Outcome.INCONCLUSIVE,
    Outcome.NOTHING_TO_COMPARE,
)

REFERENCE_CELLS = ("v2-16x8192", "v2-64x2048")


def save(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def make_work(scenario: SteadyDecode, arm: str, **figures: float) -> Work:
    """Work of one iteration; each figure is 10 where nothing else is said."""
    work = Work(scenario, arm, 1, scenario.requests, scenario.requests * scenario.tokens)
    work.totals = Counter(dict.fromkeys(FIGURES, 10) | figures)  # type: ignore[arg-type]
    return work


def make_works(**figures: float) -> list[Work]:
    """Work that does not grow, of the arm and the floor in two cells; figures in the second."""
    cells = SteadyDecode(requests=8, tokens=64), SteadyDecode(requests=8, tokens=128)
    return [
        make_work(cell, arm, **(figures if (cell, arm) == (cells[1], "batched") else {}))
        for cell in cells
        for arm in ("batched", "floor")
    ]


class World:
    """What the gate finds. As it is here, everything passes, and nothing is timed."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.works: list[Work] | InputError = make_works()
        self.verdicts: dict[str, Verdict | str] = {}
        self.revisions = ["HEAD~1"]
        self.parted: str | None = None
        self.base: dict[str, str | None] = {}
        self.runs: list[tuple[list[str], int]] = []
        self.broken: dict[str, BaseException] = {}
        self.limits: list[float | None] = []
        self.timed: list[tuple[str, str, float, Duet]] = []

    def verify(
        self, contest: Contest, numbers: range, *_: object, limit: float | None, **__: object
    ) -> Verification:
        self.runs.append((list(contest.arms), len(numbers)))
        self.limits.append(limit)
        self.break_if_any(contest.arms)
        return Verification(
            tuple(contest.arms), contest.against, 0, len(numbers), 9, self.failure, {}
        )

    def break_if_any(self, arms: Iterable[str]) -> None:
        for arm in arms:
            if arm in self.broken:
                raise self.broken[arm]

    def count(
        self, _cells: object, arms: Sequence[str], *, limit: float | None, **__: object
    ) -> list[Work]:
        self.limits.append(limit)
        if isinstance(self.works, InputError):
            raise self.works
        self.break_if_any(f"count {arm}" for arm in arms)
        return self.works

    def compare(self, duet: Duet, scenario: SteadyDecode | TraceReplay, *_: object) -> CellResult:
        self.timed.append((duet.b.name, scenario.name, duet.threshold, duet))
        found = self.verdicts.get(scenario.name, Verdict(Kind.NO_DIFFERENCE))
        if isinstance(found, str):
            return CellResult(scenario, failure=found)
        return CellResult(scenario, found)

    def find_commit(self, revision: str, _folder: Path) -> str | None:
        return "0" * 40 if revision in self.revisions else None

    def merge_base(self, _one: str, other: str, _folder: Path) -> str:
        return self.parted or other

    def ls_tree(self, *_arguments: str, **_: Path) -> str:
        return "\n".join(["connector/__init__.py", "connector/batched.py", *self.base])

    def read_at(self, _commit: str, path: str, _folder: Path) -> str | None:
        path = path.removeprefix("./")
        return self.base[path] if path in self.base else (ROOT / path).read_text()

    def read_bytes_at(self, commit: str, path: str, folder: Path) -> bytes | None:
        text = self.read_at(commit, path, folder)
        return None if text is None else text.encode()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this in the place of what takes long, with a budget that everything is within."""
        monkeypatch.setattr(gate_steps, "verify", self.verify)
        monkeypatch.setattr(gate_steps, "count_cells", self.count)
        monkeypatch.setattr(gate_steps, "compare_cell", self.compare)
        monkeypatch.setattr(git, "find_commit", self.find_commit)
        monkeypatch.setattr(git, "why_missing", lambda _folder: "")
        monkeypatch.setattr(git, "merge_base", self.merge_base)
        monkeypatch.setattr(git, "git", self.ls_tree)
        monkeypatch.setattr(git, "read_at", self.read_at)
        monkeypatch.setattr(git, "read_bytes_at", self.read_bytes_at)
        write_budget(Path("budgets.toml"), update(None, make_works(), 0, whole=True))


def run(
    limit: float | None = None, file: Path | None = None, **settings: object
) -> dict[str, Step]:
    values = {"arms": ("batched",), "cells": REFERENCE_CELLS} | settings
    steps = run_gate(
        GateConfig(**values),  # type: ignore[arg-type]
        file=file,
        cpus=(),
        jobs=1,
        limit=limit,
        describe=lambda found: f"described {found.runs}",
        progress=lambda _what: None,
    )
    return {step.name: step for step in steps}


def outcomes(steps: dict[str, Step]) -> dict[str, Outcome]:
    return {name: step.outcome for name, step in steps.items()}


def before(
    arm: str, change: Callable[[str], str] = lambda text: f"{text}\n_before = True\n"
) -> dict[str, str]:
    """The file of an arm as another revision had it."""
    path = f"connector/{arm.replace('-', '_')}.py"
    return {path: change((ROOT / path).read_text())}
