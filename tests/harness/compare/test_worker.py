"""The worker of a duet as a process, on a tiny cell, with subjects that note what they see."""

import json
import math
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.arms.sources import ArmSource, find_source
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.system.cores import allowed_cpus
from harness.system.worker_process import hash_seed, run_child
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import LostWorkerError, WorkerError

pytestmark = pytest.mark.usefixtures("no_child_left")

CELL = SteadyDecode(requests=2, tokens=40)
SUBJECTS = Path(__file__).parent.parent / "subjects"

Seen = dict[str, Any]


def subject(name: str) -> str:
    return f"file:{SUBJECTS / name}.py"


def run(*specs: str, timeout: float = 60, **changed: object) -> dict[str, Any]:
    """Run a worker with these arms and return its result."""
    job = {
        "sources": [asdict(find_source(spec)) for spec in specs],
        "scenario": CELL.to_dict(),
        "seed": "0",
        "cpu": None,
        "provider": "python",
        "warmups": 10,
        "least": 32,
        "most": 152,
        "seconds": 1e9,
        "gc": False,
        **changed,
    }
    command = [sys.executable, "-P", "-m", "harness.compare.worker"]
    return json.loads(run_child("cell x", command, hash_seed(0, 0), json.dumps(job), timeout))


def shape(result: dict[str, Any]) -> list[int]:
    return [len(arm) for arm in result["seconds"]]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that subjects write their notes to."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("STEPBENCH_SUBJECTS", str(folder))
    return folder


def read(notes: Path) -> tuple[list[Seen], list[list[Seen]]]:
    """Return what the arms of one worker noted: at their import, and in each iteration's calls."""
    (file,) = notes.glob("*.jsonl")
    seen = [json.loads(line) for line in file.read_text().splitlines()]
    file.unlink()
    imports = [one for one in seen if one["event"] == "import"]
    calls = [one for one in seen if one["event"] == "call"]
    assert seen == imports + calls, "an arm was imported while it was measured"
    size = len(imports)
    return imports, [calls[i : i + size] for i in range(0, len(calls), size)]


EQUAL = [subject("equal")] * 4
LOOKS = [subject("looks")] * 4


KEYS = {"seconds", "background", "alive", "is_restless", "cpu_share", "imports", "orders"}


def test_samples_of_all_arms_and_the_share_of_the_core():
    result = run("full-copy", "incremental", "full-copy", "incremental")

    assert result.keys() == KEYS
    assert shape(result) == [152] * 4
    assert all(0 < seconds < math.inf for arm in result["seconds"] for seconds in arm)
    assert 0 < result["cpu_share"] < 1.5
    # Nobody but the calls did anything.
    assert (result["background"], result["alive"]) == (None, [[]] * 4)


def test_other_numbers_of_iterations():
    assert shape(run(*EQUAL, warmups=0, least=4, seconds=0.0)) == [4] * 4
    assert shape(run(*EQUAL, most=8)) == [8] * 4


def test_what_the_arms_of_a_process_see(notes: Path):
    result = run(*LOOKS)

    imports, iterations = read(notes)
    # Warm-ups are run and not told.
    assert len(iterations) == 162
    assert shape(result) == [152] * 4
    modules = [one["module"] for one in imports]
    assert len(set(modules)) == 4
    for number, calls in enumerate(iterations, start=1):
        # Each arm once, and none counts the calls of another.
        assert sorted(one["module"] for one in calls) == sorted(modules)
        assert [one["call"] for one in calls] == [number] * 4
        for what in ("tokens", "objects", "types"):
            assert all(one[what] == calls[0][what] for one in calls)
    everything = [one for calls in iterations for one in calls]
    assert {tuple(one["instances"]) for one in everything} == {(True, True, True)}
    assert {(one["collector"], one["frozen"]) for one in everything} == {(False, True)}
    assert all(one["heavy"] == [] for one in everything)
    # The sequences grow from one iteration to the next.
    assert len({calls[0]["tokens"] for calls in iterations}) == 162
    assert imports[0]["hash_seed"] == str(hash_seed(0, 0))


def test_the_collector_runs_if_asked(notes: Path):
    run(*LOOKS, gc=True, most=2)

    assert {one["collector"] for calls in read(notes)[1] for one in calls} == {True}


def test_the_order_of_the_arms_is_random_and_balanced(notes: Path):
    result = run(*LOOKS)

    imports, iterations = read(notes)
    # What the result says of both orders: the copies are told apart by their modules' names.
    assert [one["module"][-1] for one in imports] == list(map(str, result["imports"]))
    assert [[int(one["module"][-1]) for one in calls] for calls in iterations[10:]] == (
        result["orders"]
    )
    orders = [tuple(one["module"] for one in calls) for calls in iterations]
    modules = sorted(orders[0])
    # The warm-ups end in the middle of a turn; what is measured begins with one.
    turns = [tuple(orders[i : i + 4]) for i in (0, 4, *range(10, 162, 4))]
    for turn in turns:
        # Each copy has each place once, and runs right after each other copy once.
        assert all(sorted(place) == modules for place in zip(*turn, strict=True))
        assert len({pair for order in turn for pair in pairwise(order)}) == 12
    # There are 6 such squares of 24 orders each.
    assert len(set(turns)) > 20


def test_seeds_decide_orders_and_inputs(notes: Path):
    found = []
    for seed in ("one", "one", "two"):
        run(*LOOKS, seed=seed)
        _, iterations = read(notes)
        found.append(
            (
                [[one["module"] for one in calls] for calls in iterations],
                [calls[0]["tokens"] for calls in iterations],
            )
        )
    first, again, other = found
    assert first == again
    assert first[0] != other[0]
    assert not set(first[1]) & set(other[1])


def test_the_order_of_imports_is_random_and_mirrored(notes: Path):
    orders = []
    for seed in range(16):
        run(*LOOKS, seed=str(seed), most=1, warmups=0)
        imports, _ = read(notes)
        orders.append([one["module"] for one in imports])
    # Each arm is the first to be imported now and then, and the last.
    modules = sorted(orders[0])
    assert len(set(modules)) == 4
    assert {order[0] for order in orders} == {order[-1] for order in orders} == {*modules}
    # In the middle the copies of one arm follow each other, those of the other lie around them.
    for order in orders:
        assert {*order[1:3]} in ({modules[0], modules[2]}, {modules[1], modules[3]})
        assert sorted(order) == modules


def ticking(*steps: int) -> list[dict[str, str]]:
    """Sources of arms whose calls take these many seconds of a made-up clock."""
    source = find_source(subject("ticks"))
    texts = [source.text.replace("STEP = 1", f"STEP = {step}") for step in steps]
    return [asdict(replace(source, text=text)) for text in texts]


def test_each_sample_is_the_time_of_one_call_of_its_arm_whatever_the_order():
    result = run(sources=ticking(1, 2, 4, 8))

    assert result["seconds"] == [[float(step)] * 152 for step in (1, 2, 4, 8)]


@pytest.mark.parametrize(
    ("steps", "kind", "ratio"),
    [
        ((1000, 1000), Kind.NO_DIFFERENCE, 1.0),
        ((1000, 1010), Kind.SLOWER, 1.01),
        ((1000, 990), Kind.FASTER, 0.99),
        ((1000, 1004), Kind.NO_DIFFERENCE, 1.004),
    ],
)
def test_arms_that_are_known_to_differ_by_so_much(steps: tuple[int, int], kind: Kind, ratio: float):
    """One per cent, through real workers and on a clock that has no noise."""
    a, b = (ArmSource(**source) for source in ticking(*steps))

    verdict = compare_cell(Duet(a, b, (CELL,), seconds=0.1), CELL).verdict

    assert verdict.kind == kind
    assert verdict.ratio is not None
    assert verdict.ratio.value == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("every", "more", "threshold", "kind"),
    [
        (2, 0.02, 0.005, Kind.SLOWER),
        (150, 0.02, 0.005, Kind.SLOWER),
        (40, -0.02, 0.005, Kind.FASTER),
        # Dear steps that make three steps of two: beyond any usual threshold.
        (40, 0.5, 0.1, Kind.SLOWER),
        (150, 0.004, 0.005, Kind.NO_DIFFERENCE),
    ],
)
def test_an_arm_that_is_dear_in_every_nth_step(
    every: int, more: float, threshold: float, kind: Kind
):
    """Its mean step takes so much more, on a clock that has no noise."""
    source = find_source(subject("ticks"))
    even = replace(source, text=source.text.replace("STEP = 1", "STEP = 1e-4"))
    # Of 152 measured ones; warm-ups are calls as well.
    dear = len([call for call in range(11, 163) if call % every == 0])
    text = even.text.replace(
        "EVERY, MORE = 1, 0", f"EVERY, MORE = {every}, {1e-4 * more * 152 / dear}"
    )

    verdict = compare_cell(
        Duet(even, replace(even, text=text), (CELL,), threshold=threshold, seconds=0.1), CELL
    ).verdict

    assert verdict.kind == kind
    assert verdict.mean is not None
    assert verdict.mean.value == pytest.approx(1 + more)
    assert verdict.parts == (every > 2 and abs(more) > threshold)


@pytest.mark.parametrize(
    ("seconds", "samples"),
    # An iteration takes 15 s, four of them a turn; the ten warm-ups do not count.
    [(0.0, 32), (479.0, 32), (480.0, 36), (539.0, 36), (540.0, 40), (2219.0, 148), (1e9, 152)],
)
def test_a_process_ends_once_its_time_is_over(seconds: float, samples: int):
    result = run(sources=ticking(1, 2, 4, 8), seconds=seconds)

    assert shape(result) == [samples] * 4


def test_a_worker_is_pinned_if_asked(notes: Path):
    cpu = allowed_cpus()[-1]
    run(*LOOKS, most=2, cpu=cpu)
    assert {tuple(one["cpus"]) for calls in read(notes)[1] for one in calls} == {(cpu,)}

    run(*LOOKS, most=2)
    found = {tuple(one["cpus"]) for calls in read(notes)[1] for one in calls}
    assert found == {tuple(allowed_cpus())}


def test_nothing_that_an_arm_prints_gets_into_the_result():
    result = run(subject("loud"), "incremental", subject("loud"), "incremental")

    assert result.keys() == KEYS
    assert shape(result) == [152] * 4


@pytest.mark.parametrize(
    ("provider", "where"),
    [("python", "stubs.kv_cache_v2"), ("nanobind", "stubs.nanobind_provider")],
)
def test_the_stand_ins_are_those_of_the_provider(provider: str, where: str):
    if provider == "nanobind":
        pytest.importorskip("stepbench_native", reason="the provider nanobind is not built")
    told = "raise RuntimeError(f'manager of {type(manager).__module__}')"
    text = (
        "class KvCacheConnectorSchedulerOutputManager:\n"
        f"    def build_scheduler_output(self, batch, loading, manager): {told}\n"
    )
    sources = [asdict(ArmSource("x", "x", "x.py", text))] * 4

    with pytest.raises(WorkerError, match=f"RuntimeError: manager of {where}$"):
        run(sources=sources, provider=provider)


def test_a_provider_that_is_none_is_a_failure_and_no_other_one_is_taken():
    with pytest.raises(WorkerError, match="there is no provider 'other'"):
        run(*EQUAL, provider="other")


def test_a_trace_is_compared_as_well(tmp_path: Path):
    trace = tmp_path / "t.csv"
    rows = [f"2023-11-16 18:17:{second:02}.0000000,64,20" for second in range(40)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
    cell = TraceReplay(path=str(trace), max_batch=4)

    arms = ("full-copy", "batched") * 2
    result = run(*arms, scenario=cell.to_dict(), least=8, most=24)

    assert shape(result) == [24] * 4


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("crash", "failed: RuntimeError: the subject broke"),
        ("leaves", "returned no result"),
    ],
)
def test_an_arm_that_fails_makes_the_cell_inconclusive(name: str, why: str):
    duet = Duet(find_source("incremental"), find_source(subject(name)), (CELL,))

    result = compare_cell(duet, CELL)

    assert result.failure is not None
    assert result.failure.startswith("cell v2-2x40, process 1: the worker ")
    assert why in result.failure
    assert (result.verdict.kind, result.samples) == (Kind.INCONCLUSIVE, [])


def test_a_source_that_holds_no_arm_is_no_finding_about_one():
    duet = Duet(find_source("incremental"), find_source(subject("no_arm")), (CELL,))

    with pytest.raises(LostWorkerError, match="has no class"):
        compare_cell(duet, CELL)


def test_an_arm_that_hangs_is_stopped():
    with pytest.raises(WorkerError, match=r"^cell x: the worker hung: no result after 1 s$"):
        run("incremental", subject("hang"), *["incremental"] * 2, timeout=1)


def test_a_whole_cell_with_real_workers():
    equal = Duet(find_source("incremental"), find_source(subject("equal")), (CELL,), seconds=0.1)

    result = compare_cell(equal, CELL)

    # The budget is spent at the first look: no more than six processes, twice if at all.
    assert len(result.first) == 6
    assert len(result.second) in {0, 6}
    assert len(result.samples) == len(result.first) + len(result.second)
    assert {tuple(map(len, process)) for process in result.samples} == {(152,) * 4}
    assert result.failure is None
    assert result.verdict.ratio is not None
