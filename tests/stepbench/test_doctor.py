"""``stepbench doctor`` through its entry point: drawn samples, and one real look."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import noise_floor
from harness.child import WorkerError
from harness.duet import CellResult, Duet, compare_cell
from harness.machine import allowed_cpus, choose_cpus, lock_cpu
from harness.verdict import Process
from scenarios.scenario import SteadyDecode

from .conftest import Run, assert_refused, run_script


class Workers:
    """Stands in for real workers: each takes half a second on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.effects = [0.001, -0.001]
        self.share = 1.0
        self.count = 0
        self.duets: list[Duet] = []
        self.affinities: list[set[int]] = []
        # Raised by the process of this number.
        self.errors: dict[int, BaseException] = {}
        monkeypatch.setattr(noise_floor, "time", SimpleNamespace(monotonic=self._now))
        monkeypatch.setattr(noise_floor, "compare_cell", self)

    def __call__(
        self, duet: Duet, scenario: SteadyDecode, progress: Callable[[str], None]
    ) -> CellResult:
        self.duets.append(duet)
        return compare_cell(duet, scenario, progress, self._draw, self._now)

    def _draw(self) -> Process:
        if self.count in self.errors:
            raise self.errors[self.count]
        effect = self.effects[self.count % len(self.effects)]
        self.count += 1
        self.affinities.append(os.sched_getaffinity(0))
        return Process(effect, (0.0, 0.0), self.share, (2e-3, 2e-3))

    def _now(self) -> float:
        return self.count * 0.5


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def test_a_look_without_a_run(run_here: Run, workers: Workers):
    ran = run_here("doctor", "--no-run")

    assert (ran.code, ran.err) == (0, "")
    assert workers.count == 0
    rows = [line.split(" | ")[0] for line in ran.out.splitlines() if line.startswith("| ")]
    assert rows[2:5] == ["| allowed cores", "| isolated cores", "| governor"]
    assert len(rows) == 2 + 12
    cores = " and ".join(map(str, choose_cpus(None)))
    assert re.search(rf"pinned to cores? {cores}; stand-ins: provider ", ran.out)
    assert ran.out.endswith("Repeat with `stepbench doctor --no-run`.\n")
    assert "against itself" not in ran.out
    assert list(Path().iterdir()) == []


def test_the_script_looks_as_well():
    ran = run_script("doctor", "--no-run", "--json", "--cpu", "none")

    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert len(document["findings"]) == 12
    assert document["noise"] is None
    assert "not pinned" in document["where"]


def test_a_quiet_machine(run_here: Run, workers: Workers):
    before = os.sched_getaffinity(0)

    ran = run_here("doctor", "--provider", "python")

    assert ran.code == 0
    assert ran.err == "stepbench: running an arm against itself, about 10 s\n"
    assert workers.count == 18
    assert "18 processes, 0.50 s each" in ran.out
    assert "The smallest slowdown that `stepbench compare` can be relied on to find here" in ran.out
    cores = choose_cpus(None)
    assert {(duet.cpus, duet.provider) for duet in workers.duets} == {(cores, "python")}
    # This process keeps off the cores meanwhile, if there are others, and comes back.
    kept_to = before - set(cores) or before
    assert all(affinity == kept_to for affinity in workers.affinities)
    assert f"({len(before)} of " in ran.out
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize(
    ("effects", "share", "reason"),
    [
        ([0.001, -0.001], 0.5, "busy core: the measuring processes got 50% of it"),
        ([0.05, -0.05], 1.0, "the interval reaches across the threshold of 0.50%"),
        ([0.051, 0.049], 1.0, "the same code counts as slower"),
    ],
)
def test_a_noisy_machine(
    run_here: Run, workers: Workers, effects: list[float], share: float, reason: str
):
    workers.effects, workers.share = effects, share

    ran = run_here("doctor", "-q")

    assert (ran.code, ran.err) == (3, "")
    assert f"Too noisy to say which slowdown can be found here: {reason}. " in ran.out
    assert json.loads(run_here("doctor", "-q", "--json").out)["noise"]["too_noisy"] is True


@pytest.mark.parametrize(("number", "processes"), [(2, 0), (8, 6)])
def test_an_interruption_prints_what_was_found(
    run_here: Run, workers: Workers, number: int, processes: int
):
    workers.errors[number] = KeyboardInterrupt()

    ran = run_here("doctor", "-q", "--json")

    assert ran.code == 130
    assert ran.err == "stepbench: interrupted; what was found follows\n"
    document = json.loads(ran.out)
    assert len(document["findings"]) == 12
    # The duets that were finished: the first of them takes six processes.
    assert (document["noise"] or {"processes": 0})["processes"] == processes


def test_a_worker_that_fails_is_named(run_here: Run, workers: Workers):
    workers.errors[0] = WorkerError("cell v2-64x2048, process 1: the worker exited with 3")

    ran = run_here("doctor", "-q")

    assert ran.code == 1
    assert ran.err == "stepbench: cell v2-64x2048, process 1: the worker exited with 3\n"
    assert "| governor |" in ran.out


def test_a_core_in_use_is_refused(run_here: Run, workers: Workers):
    core = allowed_cpus()[-1]
    with lock_cpu(core):
        assert_refused(run_here("doctor", "-q"), f"core {core} is being measured on by another run")
        # To look at it disturbs nobody.
        assert run_here("doctor", "--no-run").code == 0
    assert workers.count == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--cpu", "99999"), "core 99999 is not allowed here"),
        (("--cpu", "last"), "--cpu takes core numbers, such as 1 or 0,1, or 'none', not 'last'"),
        (("--json", "--format", "terminal"), "--json contradicts --format terminal"),
        (("--format", "csv"), "csv"),
        (("extra",), "extra"),
    ],
)
def test_bad_input_is_refused(run_here: Run, arguments: tuple[str, ...], text: str):
    assert_refused(run_here("doctor", *arguments), text)


GATE = """[gate]
arms = ["incremental", "batched"]
cells = ["v2-16x8192", "v2-64x2048"]
thresholds = { "*/batched" = 0.0075 }
"""


@pytest.fixture
def gate() -> Path:
    path = Path("stepbench.toml")
    path.write_text(GATE)
    return path


def test_thresholds_for_the_gate_are_proposed_and_can_be_pasted(
    run_here: Run, workers: Workers, gate: Path
):
    workers.effects = [0.007, -0.007, 0.0035, -0.0035]

    ran = run_here("doctor", "--gate", "--format", "markdown")

    assert ran.code == 0
    rows = [line for line in ran.out.splitlines() if line.startswith("| v2-")]
    assert [row.split(" | ")[:2] for row in rows] == [
        [f"| {cell}", arm]
        for cell in ("v2-16x8192", "v2-64x2048")
        for arm in ("incremental", "batched")
    ]
    assert "In `stepbench.toml`, in place of `thresholds`" in ran.out
    (line,) = [line for line in ran.out.splitlines() if line.startswith("thresholds = ")]
    old = 'thresholds = { "*/batched" = 0.0075 }'
    gate.write_text(GATE.replace(old, line))
    workers.count = 0  # The same noise.
    again = run_here("doctor", "--gate", "-q")
    assert again.code == 0
    assert "The configured thresholds are enough: there is nothing to change." in again.out
    assert "thresholds = " not in again.out


@pytest.mark.usefixtures("gate")
def test_what_is_proposed_is_json_if_asked(run_here: Run, workers: Workers):
    workers.effects = [0.0001, -0.0001]

    document = json.loads(run_here("doctor", "--gate", "--json", "-q").out)

    assert document["thresholds"] == {"*/batched": 0.0075}
    assert [(one["cell"], one["arm"], one["is_raised"]) for one in document["cells"]] == [
        (cell, arm, False)
        for cell in ("v2-16x8192", "v2-64x2048")
        for arm in ("incremental", "batched")
    ]
    assert document["cells"][0]["noise"]["processes"] >= 6


@pytest.mark.usefixtures("gate")
def test_an_interruption_tells_what_was_found_so_far(run_here: Run, workers: Workers):
    workers.errors = {30: KeyboardInterrupt()}

    ran = run_here("doctor", "--gate", "-q")

    assert ran.code == 130
    assert re.search(r"interrupted after [12] of 4 runs", ran.err)
    assert "| v2-16x8192 | incremental |" in ran.out


@pytest.mark.usefixtures("gate")
def test_a_worker_that_dies_proposes_nothing_for_its_cell(run_here: Run, workers: Workers):
    workers.errors = {2: WorkerError("cell v2-16x8192: the worker was killed")}

    ran = run_here("doctor", "--gate", "-q")

    assert ran.code == 1
    assert "the worker was killed" in ran.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--gate", "--no-run"], "--no-run does not go with it"),
        (["--config", "x.toml"], "it goes with --gate"),
        (["--gate", "--config", "x.toml"], "x.toml: No such file"),
    ],
)
def test_options_of_the_gate_that_make_no_sense(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("doctor", *arguments), text)
