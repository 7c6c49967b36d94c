"""The duet of a cell, with workers whose samples are drawn instead of measured."""

import itertools
import json
import math
import sys
from collections.abc import Sequence

import pytest

from harness.compare import processes as duet_processes
from harness.compare import run as module
from harness.compare import verdict
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.processes import summarise
from harness.compare.run import compare_cell
from harness.compare.verdict import Process, Rule
from harness.stats.estimates import Estimate, trimmed_mean
from harness.stats.means import means_of
from harness.system.worker_process import Child, WorkerError, hash_seed
from scenarios.scenario import SteadyDecode

from ..duet_workers import A, B, Draws, Workers

CELL = SteadyDecode(requests=2, tokens=64)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def effects(*values: float) -> Draws:
    """These effects in turn, then the last one for ever."""
    endless = itertools.chain(values, itertools.repeat(values[-1]))
    return ((effect, 0.0, 1.0) for effect in endless)


def unclear() -> Draws:
    """Effects on both sides of the threshold: no number of them says anything."""
    return effects(*itertools.islice(itertools.cycle([-0.05, 0.06]), 1000))


def sizes(result: CellResult) -> tuple[int, int, int]:
    return len(result.first), len(result.second), len(result.samples)


def test_what_one_process_says():
    samples = [[1.0, 2.0, 4.0], [2.0, 2.0, 2.0], [1.0, 8.0, 8.0], [1.0, 1.0, 16.0]]
    found = summarise(samples, 0.75)

    # Of the same iterations, not of the medians. The second arm: 2, 1, 1/2 to the first one and
    # 2, 1/4, 1/4 to its copy; the copy of the second: 1, 1/2, 4 and 1, 1/8, 2.
    effect = pytest.approx(math.log(1 * 1 / 4 * 1 * 1) / 4)
    # The copies: 1, 4, 2 and 1/2, 1/2, 8.
    controls = (pytest.approx(math.log(2)), pytest.approx(math.log(1 / 2)))
    assert found == Process(effect, controls, 0.75, (3.0, 2.0), means_of(samples))
    assert found.control == pytest.approx(math.log(2 * 1 / 2) / 2)


@pytest.mark.parametrize(
    ("off", "effect", "control"),
    [(0, -0.005, -0.005), (1, 0.005, -0.005), (2, -0.005, 0.005), (3, 0.005, 0.005)],
)
def test_a_copy_that_is_off_counts_half(off: int, effect: float, control: float):
    samples = [[math.exp(0.01 * (copy == off))] for copy in range(4)]

    found = summarise(samples, 1.0)

    assert (found.effect, found.control) == (pytest.approx(effect), pytest.approx(control))


@pytest.mark.parametrize(("effect", "kind"), [(0.0, Kind.NO_DIFFERENCE), (0.02, Kind.SLOWER)])
def test_a_clear_verdict_ends_a_cell_at_the_first_look(workers: Workers, effect: float, kind: Kind):
    workers.draws = effects(effect)

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.verdict.kind == kind
    assert sizes(result) == ((6, 6, 12) if kind == Kind.SLOWER else (6, 0, 6))
    assert result.failure is None


@pytest.mark.parametrize("first", [6, 7, 9, 10, 11])
@pytest.mark.usefixtures("workers")
def test_a_verdict_is_looked_for_after_6_8_10_processes_and_so_on(
    monkeypatch: pytest.MonkeyPatch, first: int
):
    """Nothing is clear in a look before ``first`` processes are done."""
    looks = []

    def judge(processes: Sequence[Process], _rule: verdict.Rule) -> verdict.Verdict:
        looks.append(len(processes))
        return verdict.Verdict(Kind.NO_DIFFERENCE if len(processes) >= first else Kind.INCONCLUSIVE)

    monkeypatch.setattr(module, "judge", judge)
    compare_cell(Duet(A, B, (CELL,)), CELL)

    assert looks == {6: [6], 7: [6, 8], 9: [6, 8, 10], 10: [6, 8, 10], 11: [6, 8, 10, 12]}[first]


def test_without_a_verdict_a_cell_ends_with_the_last_look_within_240_processes(workers: Workers):
    workers.draws = unclear()

    # No process takes any time here, so that the budget is never spent.
    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert sizes(result) == (229, 0, 229)
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.verdict.reason == "the interval reaches across the threshold of 0.50%"


@pytest.mark.parametrize(
    ("budget", "count"),
    # A process takes a second: two more and then a second run of six have to fit.
    [(1.0, 6), (13.9, 6), (14.0, 8), (15.9, 8), (16.0, 10), (40.0, 33)],
)
def test_a_cell_ends_when_nothing_more_fits_its_budget(
    monkeypatch: pytest.MonkeyPatch, budget: float, count: int
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = unclear()

    result = compare_cell(Duet(A, B, (CELL,), seconds=budget), CELL)

    assert sizes(result) == (count, 0, count)
    assert result.took == count


def test_a_repetition_that_stays_unclear_ends_with_the_budget_of_the_whole_cell(
    monkeypatch: pytest.MonkeyPatch,
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = itertools.chain(itertools.islice(effects(0.02), 6), unclear())

    result = compare_cell(Duet(A, B, (CELL,), seconds=15.0), CELL)

    # 6 s for the first run; after 12 s two more processes fit, after 14 s they do not.
    assert sizes(result) == (6, 8, 14)
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.verdict.reason == (
        "slower at first, but its repetition was not clear: "
        "the interval reaches across the threshold of 0.50%"
    )
    # The figures are those of the second run: as many at -5 % as at +6 %.
    assert result.verdict.ratio is not None
    assert result.verdict.ratio.value == pytest.approx(math.exp(0.005))


def test_a_repetition_that_says_otherwise_is_given_until_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch,
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = itertools.chain(itertools.islice(effects(-0.02), 6), effects(0.0))

    result = compare_cell(Duet(A, B, (CELL,), seconds=15.0), CELL)

    assert sizes(result) == (6, 8, 14)
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.verdict.reason == (
        "faster at first, but no difference beyond 0.50% when it was repeated"
    )
    assert result.verdict.ratio == Estimate(1.0, 1.0, 1.0)


def test_a_repetition_that_agrees_gives_its_own_figures(workers: Workers):
    workers.draws = itertools.chain(itertools.islice(effects(0.03), 6), effects(0.02))

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    # The first run ended because it looked clear: what it showed is likely too much.
    assert sizes(result) == (6, 6, 12)
    assert (result.verdict.kind, result.verdict.reason) == (Kind.SLOWER, "")
    assert result.verdict.ratio is not None
    assert result.verdict.ratio.value == pytest.approx(math.exp(0.02))


def test_a_difference_is_repeated_in_fresh_processes_with_seeds_of_their_own(workers: Workers):
    workers.draws = effects(-0.02)
    told: list[str] = []

    result = compare_cell(Duet(A, B, (CELL,), seed=7), CELL, told.append)

    assert result.verdict.kind == Kind.FASTER
    assert told == ["v2-2x64, first run"] * 6 + ["v2-2x64, second run"] * 6
    assert [job["seed"] for job in workers.jobs()] == [
        f"7-v2-2x64-{number}" for number in range(12)
    ]
    hash_seeds = [seed for _, _, seed, _, _ in workers.calls]
    assert hash_seeds == [hash_seed(7, number) for number in range(12)]
    assert len(set(hash_seeds)) == 12


def test_what_a_worker_is_told(workers: Workers):
    compare_cell(Duet(A, B, (CELL,), cpus=(3,), provider="nanobind"), CELL)

    job = workers.jobs()[0]
    assert [source["spec"] for source in job.pop("sources")] == ["one", "two", "one", "two"]
    assert job == {
        "subject": None,
        "scenario": json.loads(json.dumps(CELL.to_dict())),
        "seed": "0-v2-2x64-0",
        "cpu": 3,
        "provider": "nanobind",
        "warmups": 10,
        "least": 32,
        "most": 152,
        "seconds": 0.3,
        "gc": False,
    }
    what, command, _, _, timeout = workers.calls[0]
    assert what == "cell v2-2x64, process 1"
    assert command == [sys.executable, "-P", "-m", "harness.compare.worker"]
    assert timeout >= 60


def test_other_cells_have_other_inputs(workers: Workers):
    for cell in (CELL, SteadyDecode(requests=3, tokens=64)):
        compare_cell(Duet(A, B, (CELL,)), cell)

    assert len({job["seed"] for job in workers.jobs()}) == len(workers.calls) == 12


def test_all_samples_are_kept_in_order(workers: Workers):
    workers.draws = effects(0.001, 0.002, 0.003)

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    found = [[copy[0] for copy in process] for process in result.samples[:3]]
    expected = [[2e-3, pytest.approx(2e-3 * math.exp(x))] * 2 for x in (1e-3, 2e-3, 3e-3)]
    assert found == expected
    assert [process.effect for process in result.first[:3]] == pytest.approx([1e-3, 2e-3, 3e-3])
    assert result.imports[:2] == [[2, 0, 3, 1]] * 2
    assert result.orders[:2] == [[[2, 0, 3, 1]]] * 2


@pytest.mark.parametrize(
    ("cells", "comparisons", "together"), [(1, 1, 1), (3, 1, 3), (3, 3, 3), (3, 7, 7), (5, 2, 5)]
)
def test_a_comparison_is_one_of_all_that_are_made_together(
    cells: int, comparisons: int, together: int
):
    grid = tuple(SteadyDecode(requests=1 + n, tokens=8) for n in range(cells))

    assert Duet(A, B, grid, 0.02, comparisons=comparisons).rule == Rule(0.02, together)


def test_both_runs_ask_as_much(monkeypatch: pytest.MonkeyPatch):
    rules = []

    def judge(_processes: Sequence[Process], rule: Rule) -> verdict.Verdict:
        rules.append(rule)
        return verdict.Verdict(Kind.SLOWER)

    Workers(monkeypatch)
    monkeypatch.setattr(module, "judge", judge)
    compare_cell(Duet(A, B, (CELL, CELL), 0.02, comparisons=24), CELL)

    assert rules == [Rule(0.02, 24), Rule(0.02, 24)]


@pytest.mark.parametrize(
    ("cells", "comparisons", "count"),
    # A run of a single comparison is clear with six processes, one of twelve with eight.
    [(1, 1, 6), (12, 1, 8), (1, 12, 8)],
)
def test_each_comparison_of_more_than_one_makes_a_difference_harder_to_claim(
    workers: Workers, cells: int, comparisons: int, count: int
):
    """4.8 standard errors of six processes with one comparison, 7.7 with twelve."""
    noise = [0.0008 * x for x in (1, -1, 1, -1, 1, -1)]
    error = trimmed_mean(noise).error
    grid = tuple(SteadyDecode(requests=n, tokens=8) for n in range(1, cells + 1))
    workers.draws = effects(*[0.0049875 + 5.5 * error + x for x in noise] * 100)

    result = compare_cell(Duet(A, B, grid, comparisons=comparisons), grid[0])

    assert sizes(result) == (count, count, 2 * count)
    assert result.verdict.kind == Kind.SLOWER


def test_a_process_runs_on_each_core_at_once(monkeypatch: pytest.MonkeyPatch):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = effects(0.02)

    result = compare_cell(Duet(A, B, (CELL,), cpus=(0, 3)), CELL)

    assert workers.together == [2] * 6
    assert [job["cpu"] for job in workers.jobs()] == result.cores == [0, 3] * 6
    # Each of them has seeds of its own.
    assert [job["seed"] for job in workers.jobs()] == [f"0-v2-2x64-{n}" for n in range(12)]
    assert [seed for _, _, seed, _, _ in workers.calls] == [hash_seed(0, n) for n in range(12)]
    assert (sizes(result), result.took) == ((6, 6, 12), 6.0)
    assert result.verdict.kind == Kind.SLOWER


def test_more_cores_than_the_first_look_needs_are_all_kept_busy(workers: Workers):
    workers.draws = unclear()

    result = compare_cell(Duet(A, B, (CELL,), cpus=tuple(range(4))), CELL)

    assert set(workers.together) == {4}
    assert workers.together[:2] == [4, 4]
    assert len(result.first) % 4 == 0


@pytest.mark.parametrize(
    ("shares", "left"),
    [
        ({0: 0.5, 3: 1.0}, 3),
        ({0: 0.92, 3: 0.89}, 0),
        # None is free: the one that was shared least, although that is no good either.
        ({0: 0.6, 3: 0.7}, 3),
    ],
)
def test_a_core_that_is_busy_is_not_used_any_more(
    monkeypatch: pytest.MonkeyPatch, shares: dict[int, float], left: int
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws, workers.shares = effects(0.0), shares

    result = compare_cell(Duet(A, B, (CELL,), cpus=(0, 3), seconds=12.0), CELL)

    # Of six processes only the first pair had two cores.
    assert workers.together[:5] == [2, 1, 1, 1, 1]
    assert result.cores == [0, 3, *[left] * (len(result.first) - 2)]
    free = shares[left] >= 0.9
    assert result.verdict.kind == (Kind.NO_DIFFERENCE if free else Kind.INCONCLUSIVE)
    # The next cell begins with both.
    compare_cell(Duet(A, B, (CELL,), cpus=(0, 3), seconds=12.0), CELL)
    assert workers.together[len(result.samples) - 1] == 2


def test_of_workers_at_once_one_that_fails_takes_the_cell_with_it(
    monkeypatch: pytest.MonkeyPatch,
):
    def run_children(children: Sequence[Child], _timeout: float) -> list[str]:
        raise WorkerError(f"{children[1].what}: the worker exited with 3")

    monkeypatch.setattr(duet_processes, "run_children", run_children)

    result = compare_cell(Duet(A, B, (CELL,), cpus=(0, 3)), CELL)

    assert result.failure == "cell v2-2x64, process 2: the worker exited with 3"
    assert (result.first, result.samples, result.cores) == ([], [], [])
