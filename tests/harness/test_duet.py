"""The duet of a cell, with workers whose samples are drawn instead of measured."""

import functools
import itertools
import json
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness import duet as module
from harness import verdict
from harness.child import WorkerError, hash_seed
from harness.duet import CellResult, Duet, compare_cell, summarise
from harness.loading import ArmSource
from harness.verdict import Kind, Process, overall
from scenarios.scenario import SteadyDecode

A = ArmSource("one", "one", "one.py", "# one")
B = ArmSource("two", "two", "two.py", "# two")
CELL = SteadyDecode(requests=2, tokens=64)

# For each process: log ratio of the second arm and of the control, and share of the core.
Draws = Iterator[tuple[float, float, float]]


class Workers:
    """Stands in for ``run_child``: its processes take made-up time and return drawn samples."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
        self.calls: list[tuple[str, list[str], int, str, float]] = []
        self.draws: Draws = itertools.repeat((0.0, 0.0, 1.0))
        self._now, self._seconds = 100.0, seconds
        monkeypatch.setattr(module, "run_child", self)
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self._now))

    def __call__(
        self, what: str, command: Sequence[str], seed: int, text: str, timeout: float
    ) -> str:
        self._now += self._seconds
        self.calls.append((what, list(command), seed, text, timeout))
        effect, control, share = next(self.draws)
        samples = [[2e-3], [2e-3 * math.exp(effect)], [2e-3 * math.exp(control)]]
        return json.dumps({"seconds": samples, "cpu_share": share})

    def jobs(self) -> list[dict[str, Any]]:
        return [json.loads(text) for _, _, _, text, _ in self.calls]


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
    found = summarise([[1.0, 2.0, 4.0], [2.0, 2.0, 2.0], [1.0, 8.0, 8.0]], 0.75)

    # Ratios 2, 1, 1/2 and 1, 4, 2 of the same iterations, not of the medians.
    assert found == Process(0.0, pytest.approx(math.log(2)), 0.75, (2.0, 2.0, 8.0))


@pytest.mark.parametrize(("effect", "kind"), [(0.0, Kind.NO_DIFFERENCE), (0.02, Kind.SLOWER)])
def test_a_clear_verdict_ends_a_cell_at_the_first_look(workers: Workers, effect: float, kind: Kind):
    workers.draws = effects(effect)

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.verdict.kind == kind
    assert sizes(result) == ((6, 6, 12) if kind == Kind.SLOWER else (6, 0, 6))
    assert result.failure is None


@pytest.mark.parametrize("first", [6, 7, 9, 10, 11])
@pytest.mark.usefixtures("workers")
def test_a_verdict_is_looked_for_after_6_10_14_processes_and_so_on(
    monkeypatch: pytest.MonkeyPatch, first: int
):
    """Nothing is clear in a look before ``first`` processes are done."""
    looks = []

    def judge(processes: Sequence[Process], _rule: verdict.Rule) -> verdict.Verdict:
        looks.append(len(processes))
        return verdict.Verdict(Kind.NO_DIFFERENCE if len(processes) >= first else Kind.INCONCLUSIVE)

    monkeypatch.setattr(module, "judge", judge)
    compare_cell(Duet(A, B, (CELL,)), CELL)

    assert looks == {6: [6], 7: [6, 10], 9: [6, 10], 10: [6, 10], 11: [6, 10, 14]}[first]


def test_without_a_verdict_a_cell_ends_with_the_last_look_within_60_processes(workers: Workers):
    workers.draws = unclear()

    # No process takes any time here, so that the budget is never spent.
    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert sizes(result) == (58, 0, 58)
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.verdict.reason == "the interval reaches across the threshold of 0.50%"


@pytest.mark.parametrize(
    ("budget", "count"),
    # 0.6 of the budget is for the first run, and a process takes a second.
    [(1.0, 6), (9.9, 6), (10.1, 10), (16.6, 10), (16.7, 14), (40.0, 26)],
)
def test_the_budget_ends_a_cell_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch, budget: float, count: int
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = unclear()

    result = compare_cell(Duet(A, B, (CELL,), seconds=budget), CELL)

    assert sizes(result) == (count, 0, count)
    assert result.took == count


def test_the_repetition_ends_with_the_budget_of_the_whole_cell(monkeypatch: pytest.MonkeyPatch):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = itertools.chain(itertools.islice(effects(0.02), 6), unclear())

    result = compare_cell(Duet(A, B, (CELL,), seconds=15.0), CELL)

    # 6 s for the first run; after 12 s there is time left, after 16 s there is none.
    assert sizes(result) == (6, 10, 16)
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.verdict.reason == (
        "slower at first, but not when it was repeated in fresh processes"
    )
    assert result.verdict.ratio is not None
    assert result.verdict.ratio.value == pytest.approx(math.exp(0.02))


def test_a_repetition_that_says_otherwise_is_given_until_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch,
):
    workers = Workers(monkeypatch, seconds=1.0)
    workers.draws = itertools.chain(itertools.islice(effects(-0.02), 6), effects(0.0))

    result = compare_cell(Duet(A, B, (CELL,), seconds=15.0), CELL)

    assert sizes(result) == (6, 10, 16)
    assert result.verdict.reason.startswith("faster at first, but not when it was repeated")


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
    compare_cell(Duet(A, B, (CELL,), cpu=3), CELL)

    job = workers.jobs()[0]
    assert [source["spec"] for source in job.pop("sources")] == ["one", "two", "one"]
    assert job == {
        "scenario": json.loads(json.dumps(CELL.to_dict())),
        "seed": "0-v2-2x64-0",
        "cpu": 3,
        "warmups": 10,
        "least": 30,
        "most": 150,
        "seconds": 0.4,
    }
    what, command, _, _, timeout = workers.calls[0]
    assert what == "cell v2-2x64, process 1"
    assert command == [sys.executable, "-P", "-m", "harness.duet_worker"]
    assert timeout >= 60


def test_other_cells_have_other_inputs(workers: Workers):
    for cell in (CELL, SteadyDecode(requests=3, tokens=64)):
        compare_cell(Duet(A, B, (CELL,)), cell)

    assert len({job["seed"] for job in workers.jobs()}) == len(workers.calls) == 12


def test_all_samples_are_kept_in_order(workers: Workers):
    workers.draws = effects(0.001, 0.002, 0.003)

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    found = [[arm[0] for arm in process] for process in result.samples[:3]]
    assert found == [[2e-3, pytest.approx(2e-3 * math.exp(x)), 2e-3] for x in (1e-3, 2e-3, 3e-3)]
    assert [process.effect for process in result.first[:3]] == pytest.approx([1e-3, 2e-3, 3e-3])


def test_each_cell_of_more_than_one_makes_a_difference_harder_to_claim(workers: Workers):
    """2.571 standard errors of six processes with one cell, 4.4 with twelve."""
    noise = [0.0008 * x for x in (1, -1, 1, -1, 1, -1)]
    error = statistics.stdev(noise) / math.sqrt(6)
    cells = tuple(SteadyDecode(requests=n, tokens=8) for n in range(1, 13))
    found = []
    for scenarios in (cells[:1], cells):
        workers.draws = effects(*[0.0049875 + 3.5 * error + x for x in noise] * 100)
        found.append(sizes(compare_cell(Duet(A, B, scenarios), cells[0])))

    # The second run asks one cell alone.
    assert found == [(6, 6, 12), (10, 6, 16)]


def raising(error: str) -> Callable[..., str]:
    def run_child(what: str, *_: object) -> str:
        raise WorkerError(f"{what}: the worker {error}")

    return run_child


@pytest.mark.parametrize("error", ["was killed by SIGKILL", "hung: no result after 120 s"])
def test_a_worker_that_fails_makes_the_cell_inconclusive(
    monkeypatch: pytest.MonkeyPatch, error: str
):
    monkeypatch.setattr(module, "run_child", raising(error))

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.failure == f"cell v2-2x64, process 1: the worker {error}"
    assert (result.verdict.kind, result.verdict.reason) == (Kind.INCONCLUSIVE, result.failure)
    assert sizes(result) == (0, 0, 0)


def test_a_worker_that_fails_late_takes_the_verdict_with_it(workers: Workers):
    workers.draws = itertools.islice(effects(0.02), 8)
    real = module.run_child

    def run_child(what: str, *rest: object) -> str:
        try:
            return real(what, *rest)  # type: ignore[arg-type]
        except StopIteration:
            return raising("exited with 3")(what)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "run_child", run_child)
        result = compare_cell(Duet(A, B, (CELL,)), CELL)

    # The first run found it slower; the third process of the second died.
    assert sizes(result) == (6, 2, 8)
    assert result.failure == "cell v2-2x64, process 9: the worker exited with 3"
    assert result.verdict.kind == Kind.INCONCLUSIVE


def document(seconds: object, share: object = 1.0) -> str:
    return json.dumps({"seconds": seconds, "cpu_share": share})


@pytest.mark.parametrize(
    "text",
    [
        *["", "garbage", "{", "1", "null", "[]", "{}", '"text"'],
        '{"seconds": [[1.0], [1.0], [1.0]]}',
        *[document(1), document([]), document([[1.0]]), document([[], [], []])],
        *[document([[1.0], [1.0, 2.0], [1.0]]), document([["a"], ["b"], ["c"]])],
        *[document([[1.0], [-1.0], [1.0]]), document([[1.0], [0.0], [1.0]])],
        # A clock that stood still.
        document([[0.0], [1.0], [1.0]]),
        document([[1.0], [math.nan], [1.0]]),
        *[document([[1.0]] * 3, None), document([[1.0]] * 3, "much")],
    ],
)
def test_anything_else_from_a_worker_is_no_result(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setattr(module, "run_child", lambda *_: text)

    result = compare_cell(Duet(A, B, (CELL,)), CELL)

    assert result.failure is not None
    assert result.failure.startswith("cell v2-2x64, process 1: the worker returned no result")
    assert result.verdict.kind == Kind.INCONCLUSIVE
    assert result.samples == []


def test_an_interrupt_is_handed_on(monkeypatch: pytest.MonkeyPatch):
    def run_child(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_child", run_child)
    with pytest.raises(KeyboardInterrupt):
        compare_cell(Duet(A, B, (CELL,)), CELL)


# How much processes differ: standard deviation of the log ratio of two arms.
NOISE = 0.0036


def drawn(seed: int, effect: float, *, heavy: float) -> Draws:
    """Processes whose log ratios vary by ``NOISE``.

    The arms are loaded and placed anew in each: the log time of each varies by itself, so that
    effect and control share what the first arm has. A share ``heavy`` of the processes has one of
    the three 2 % off.
    """
    rng = random.Random(seed)
    while True:
        times = [rng.gauss(0, NOISE / math.sqrt(2)) for _ in range(3)]
        if rng.random() < heavy:
            times[rng.randrange(3)] += rng.choice([-0.02, 0.02])
        yield effect + times[1] - times[0], times[2] - times[0], 1.0


Simulate = Callable[..., Counter[Kind]]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Runs a grid at the default budget again and again; returns how often each verdict came.

    A process takes 0.4 s. The verdicts are those on the whole.
    """
    workers = Workers(monkeypatch, seconds=0.4)
    # What would take most of the time: the same few quantiles, each of them by bisection, and jobs
    # that no worker reads.
    monkeypatch.setattr(verdict, "student_t", functools.cache(verdict.student_t))
    monkeypatch.setattr(module, "asdict", lambda _source: {})
    monkeypatch.setattr(SteadyDecode, "to_dict", lambda _scenario: {})

    def run(runs: int, cells: int, effect: float, heavy: float = 0.0) -> Counter[Kind]:
        grid = tuple(SteadyDecode(requests=1 + n, tokens=8) for n in range(cells))
        duet = Duet(A, B, grid)
        workers.draws = drawn(1, effect, heavy=heavy)
        return Counter(
            overall([compare_cell(duet, cell).verdict.kind for cell in grid]) for _ in range(runs)
        )

    return run


@pytest.mark.parametrize("heavy", [0.0, 0.1])
def test_equal_arms_hardly_ever_raise_an_alarm(simulate: Simulate, heavy: float):
    grids = 100 if heavy else 300
    found = simulate(grids, 12, 0.0, heavy)

    # The target is one grid of a hundred.
    assert found[Kind.SLOWER] + found[Kind.FASTER] <= grids // 100
    if not heavy:
        assert found[Kind.NO_DIFFERENCE] >= 285


@pytest.mark.parametrize(("effect", "kind"), [(0.01, Kind.SLOWER), (-0.01, Kind.FASTER)])
def test_one_per_cent_is_found(simulate: Simulate, effect: float, kind: Kind):
    found = simulate(300, 1, effect)

    assert found[kind] >= 0.97 * 300
    assert set(found) <= {kind, Kind.INCONCLUSIVE}


def test_one_per_cent_is_found_in_a_grid(simulate: Simulate):
    assert simulate(40, 12, 0.01)[Kind.SLOWER] >= 39


@pytest.mark.parametrize("effect", [0.002, -0.002])
def test_a_fifth_of_one_per_cent_is_no_difference_that_matters(simulate: Simulate, effect: float):
    found = simulate(60, 12, effect)

    assert found[Kind.SLOWER] + found[Kind.FASTER] <= 1
    assert found[Kind.NO_DIFFERENCE] > 0


@pytest.mark.parametrize("effect", [0.01, -0.01])
def test_outliers_hide_a_difference_but_do_not_turn_it_round(simulate: Simulate, effect: float):
    found = simulate(300, 1, effect, heavy=0.1)

    wrong = Kind.FASTER if effect > 0 else Kind.SLOWER
    assert found[wrong] == 0
    assert found[Kind.NO_DIFFERENCE] <= 3


def test_twice_as_much_is_found_in_spite_of_outliers(simulate: Simulate):
    assert simulate(200, 1, 0.02, heavy=0.1)[Kind.SLOWER] >= 0.97 * 200
