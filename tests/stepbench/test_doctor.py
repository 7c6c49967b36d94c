"""``stepbench doctor`` through its entry point: drawn samples, and one real look."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.compare import noise_floor
from harness.compare.duet import CellResult, Duet
from harness.compare.run import compare_cell
from harness.compare.verdict import Process
from harness.gate.config import load_config
from harness.system.cores import allowed_cpus, choose_cpus, lock_cpu
from harness.system.worker_process import WorkerError
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import LostWorkerError, NotRunnableError

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
            raise self.errors.pop(self.count)
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


ENOUGH = "The configured thresholds are enough: there is nothing to change."
ROWS = [(cell, arm) for cell in ("v2-16x8192", "v2-64x2048") for arm in ("incremental", "batched")]


def rows(out: str) -> list[tuple[str, ...]]:
    """The cells and arms of a table in Markdown."""
    return [tuple(line[2:].split(" | ")[:2]) for line in out.splitlines() if line[:5] == "| v2-"]


def test_thresholds_for_the_gate_are_proposed_and_can_be_pasted(
    run_here: Run, workers: Workers, gate: Path
):
    workers.effects = [0.007, -0.007, 0.0035, -0.0035]

    ran = run_here("doctor", "--gate")

    assert ran.code == 0
    assert ran.err.startswith("stepbench: 4 runs of an arm against itself, about 40 s\n")
    assert rows(ran.out) == ROWS
    assert "For `[gate]` in `stepbench.toml`, in place of its `thresholds`:" in ran.out
    assert ENOUGH not in ran.out
    # On which machine, and on how many processes it rests.
    assert re.search(r"in \d+ or more processes a row: run it where the gate runs, and", ran.out)
    assert "stand-ins: provider python" in ran.out
    assert ran.out.endswith("Repeat with `stepbench doctor --gate`.\n")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("thresholds = ")]
    old = 'thresholds = { "*/batched" = 0.0075 }'
    gate.write_text(GATE.replace(old, line))
    proposed = load_config(gate)
    assert all(proposed.threshold_of(cell, arm) > 0.0075 for cell, arm in ROWS)
    workers.count = 0  # The same noise.
    again = run_here("doctor", "--gate", "-q")
    assert (again.code, again.err) == (0, "")
    assert ENOUGH in again.out
    assert "thresholds = " not in again.out


def test_where_there_are_no_thresholds_yet_it_is_a_line_of_its_own(run_here: Run, workers: Workers):
    workers.effects = [0.007, -0.007]
    table = GATE.replace("[gate]", "[tool.stepbench.gate]").rpartition("thresholds")[0]
    Path("pyproject.toml").write_text(table)

    ran = run_here("doctor", "--gate", "-q")

    place = "For `[tool.stepbench.gate]` in `pyproject.toml`, as a line of its own:"
    assert place in ran.out
    (line,) = [line for line in ran.out.splitlines() if line.startswith("thresholds = ")]
    Path("pyproject.toml").write_text(f"{table}{line}\n")
    proposed = load_config(None)
    assert all(proposed.threshold_of(cell, arm) > 0.005 for cell, arm in ROWS)


@pytest.mark.usefixtures("gate")
def test_what_is_proposed_is_json_if_asked(run_here: Run, workers: Workers):
    workers.effects = [0.0001, -0.0001]

    document = json.loads(
        run_here("doctor", "--gate", "--json", "-q").out, parse_constant=pytest.fail
    )

    assert (document["seconds"], document["missing"]) == (10.0, 0)
    assert document["thresholds"] == {"*/batched": 0.0075}
    assert [(one["cell"], one["arm"]) for one in document["cells"]] == ROWS
    assert [(one["configured"], one["proposed"]) for one in document["cells"]] == [
        (0.005, 0.005),
        (0.0075, 0.0075),
    ] * 2
    assert not any(one["is_raised"] for one in document["cells"])
    assert document["cells"][0]["noise"]["processes"] >= 6
    assert document["cells"][0]["noise"]["verdict"]["kind"] == "no difference"


@pytest.mark.usefixtures("gate")
def test_on_a_busy_core_nothing_is_proposed_and_nothing_called_enough(
    run_here: Run, workers: Workers
):
    workers.share = 0.5

    ran = run_here("doctor", "--gate", "-q")

    assert (ran.code, ran.err) == (3, "")
    reason = "busy core: the measuring processes got 50% of it"
    assert f"Nothing is proposed for `batched` in v2-64x2048: {reason}." in ran.out
    assert ENOUGH not in ran.out
    assert "thresholds = " not in ran.out


@pytest.mark.usefixtures("gate")
def test_an_interruption_of_the_gate_s_runs_tells_what_was_found_so_far(
    run_here: Run, workers: Workers
):
    workers.errors = {30: KeyboardInterrupt()}

    ran = run_here("doctor", "--gate", "-q")

    assert (ran.code, ran.err) == (130, "stepbench: interrupted after 1 run of 4\n")
    assert rows(ran.out) == ROWS[:1]
    assert "Incomplete: 3 runs of 4 missing." in ran.out
    # Of the others nothing is known.
    assert ENOUGH not in ran.out


@pytest.mark.usefixtures("gate")
@pytest.mark.parametrize(
    ("error", "code", "found"),
    [
        # A finding; the others go on.
        (WorkerError("cell v2-64x2048, process 1: the worker exited with 3"), 1, 3),
        # Of the machine: it ends, and keeps what there is.
        (LostWorkerError("cell v2-64x2048, process 1: the worker was killed"), 2, 2),
        (NotRunnableError("cell v2-64x2048: uses x, for which there is no stand-in"), 2, 2),
    ],
    ids=["finding", "lost", "not runnable"],
)
def test_a_run_of_the_gate_s_that_fails_is_named(
    run_here: Run, workers: Workers, error: Exception, code: int, found: int
):
    workers.effects = [0.0001, -0.0001]
    # In the third of four runs, of 18 processes each.
    workers.errors = {36: error}

    ran = run_here("doctor", "--gate", "-q")

    assert ran.code == code
    arm = "incremental: " if code == 1 else ""
    assert ran.err == f"stepbench: {arm}{error}\n"
    assert rows(ran.out)[:2] == ROWS[:2]
    assert len(rows(ran.out)) == found
    assert ENOUGH not in ran.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--gate", "--no-run"], "--no-run does not go with it"),
        (["--gate", "--provider", "python"], "--provider does not go with it"),
        (["--config", "x.toml"], "it goes with --gate"),
        (["--gate", "--config", "x.toml"], "x.toml: No such file"),
    ],
)
def test_options_of_the_gate_that_make_no_sense(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("doctor", *arguments), text)


def test_a_cell_of_the_gate_that_is_gone_has_nothing_to_be_measured(
    run_here: Run, workers: Workers, gate: Path
):
    gate.write_text(GATE.replace("v2-64x2048", "v2-1x1"))

    ran = run_here("doctor", "--gate", "-q")

    assert ran.code == 4
    assert "no such cell in scenario reference: v2-1x1" in ran.err
    assert workers.count == 0
