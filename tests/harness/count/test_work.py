"""Exact work: tiny cells counted by hand, and what must make no difference to a count."""

import dataclasses
import dis
import gc
import json
import os
import pickle
import subprocess
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType

import pytest

import connector
from connector.data import RequestData, SchedulerOutput
from harness.arms import floor
from harness.arms.registry import ARMS, FLOOR, create_arm
from harness.count import work as counting
from harness.count.bytecodes import BytecodeCounter
from harness.count.passes import count_cells
from harness.count.work import FIGURES, Work, count_work, iterations_of
from scenarios.operations import random_run
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import create_workload
from scenarios.world import World
from stubs.counting import (
    ENGINE_PYTHON,
    CountingAsyncRequests,
    CountingBatch,
    Crossings,
    counting_manager,
)
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import LayerGroup, engine_stale_range

ALL = (*ARMS, FLOOR)

# Three requests that hold 6 tokens at the first report, which is not counted, and 7, 8, 9 and 10
# at those that are: in 2, 2, 3 and 3 blocks of 4, of which 1, 2, 2 and 2 are full.
V2 = SteadyDecode(requests=3, tokens=5, tokens_per_block=4)
V1 = dataclasses.replace(V2, manager="v1")
TWO_GROUPS = dataclasses.replace(V2, layer_groups=(LayerGroup(), LayerGroup(window=4)))
MANY = dataclasses.replace(
    TWO_GROUPS, draft_tokens=2, boundaries="staggered", overlap=True, page_backend="generator"
)

# Reads of native attributes in the four counted iterations: the id twice, once to find the state.
READS = {"request_id": 24, "state": 12, "kv_cache_retention_config": 12}
LENGTH_AND_RANGE = {"get_num_tokens()": 12, "get_tokens_range()": 12}
PAGES = "get_page_indices_by_layer_group()"

# Calls, tokens, page indices and hashes in all four iterations. ``page-growth`` asks for pages in
# the iteration in which they grew, and for the number of layer groups in the other three.
CALLS = {
    (V2, "full-copy"): ({"get_tokens()": 12, PAGES: 12}, 102, 30, 0),
    (V2, "incremental"): (LENGTH_AND_RANGE | {PAGES: 12}, 12, 30, 0),
    (V2, "page-growth"): (
        LENGTH_AND_RANGE | {"get_num_blocks()": 12, PAGES: 3, "num_layer_groups": 9},
        *(12, 9, 0),
    ),
    (V2, "page-range"): (LENGTH_AND_RANGE | {"get_page_indices_range()": 12}, 12, 3, 0),
    (V2, "batched"): ({"get_batch_updates()": 4}, 12, 3, 0),
    (V2, "native-output"): ({"build_request_data()": 4}, 12, 3, 0),
    (V1, "full-copy"): (
        {"get_tokens()": 12, "get_cache_indices()": 12, "commit_and_get_block_hashes()": 12},
        *(102, 30, 21),
    ),
    (V1, "incremental"): (
        LENGTH_AND_RANGE | {"get_cache_indices()": 12, "commit_and_get_block_hashes()": 12},
        *(12, 30, 21),
    ),
    (V1, "page-growth"): (
        LENGTH_AND_RANGE
        | {"get_num_blocks()": 12, "get_cache_indices()": 3, "commit_and_get_block_hashes()": 12},
        *(12, 9, 21),
    ),
    (V1, "page-range"): (
        LENGTH_AND_RANGE | {"get_cache_indices_range()": 12, "get_block_hashes_after()": 12},
        *(12, 3, 3),
    ),
    (V1, "batched"): ({"get_batch_updates()": 4}, 12, 3, 3),
    (V1, "native-output"): ({"build_request_data()": 4}, 12, 3, 3),
    (TWO_GROUPS, "full-copy"): ({"get_tokens()": 12, PAGES: 12}, 102, 60, 0),
    (TWO_GROUPS, "page-range"): (LENGTH_AND_RANGE | {"get_page_indices_range()": 12}, 12, 6, 0),
    (TWO_GROUPS, "batched"): ({"get_batch_updates()": 4}, 12, 6, 0),
    (TWO_GROUPS, "native-output"): ({"build_request_data()": 4}, 12, 6, 0),
}

# Numbers handed to native calls for one request in an iteration. Beam 0 for the tokens or their
# number; beam, begin and end of a token range; begin of a page range; begin and the last hash known
# of the hashes after it. A batch call takes a list of each of what is known: tokens and pages, and
# with V1 hashes and the last of them. A request is no number.
ARGUMENTS = {
    (V2, "full-copy"): 1,
    (V2, "incremental"): 1 + 3,
    (V2, "page-growth"): 1 + 3,
    (V2, "page-range"): 1 + 3 + 1,
    (V2, "batched"): 1 + 1,
    (V2, "native-output"): 0,
    (V2, FLOOR): 0,
    (V1, "full-copy"): 1,
    (V1, "incremental"): 1 + 3,
    (V1, "page-growth"): 1 + 3,
    (V1, "page-range"): 1 + 3 + 1 + 2,
    (V1, "batched"): 1 + 1 + 1 + 1,
    (V1, "native-output"): 0,
    (V1, FLOOR): 0,
    (TWO_GROUPS, "full-copy"): 1,
    (TWO_GROUPS, "page-range"): 1 + 3 + 1,
    (TWO_GROUPS, "batched"): 1 + 1,
    (TWO_GROUPS, "native-output"): 0,
}

# Objects in all four iterations, as a sum of
# - each iteration: the output and its two lists, and for the first three arms the concatenated
#   list of context requests,
# - each request and iteration: ids read, what its calls return beside the numbers below, the data
#   class and the lists in it that no call returned,
# - numbers in lists: tokens, page indices and hashes as above,
# - what only some iterations have.
OBJECTS = {
    # 2 ids, list of tokens, 2 lists of pages; data, tokens, pages, their list, hashes.
    (V2, "full-copy"): 4 * 4 + 12 * (2 + 1 + 2 + 5) + 102 + 30,
    # 2 ids, length, tokens, 2 lists of pages; data, pages, their list, hashes.
    (V2, "incremental"): 4 * 4 + 12 * (2 + 2 + 2 + 4) + 12 + 30,
    # As before, with the number of blocks; 2 lists of pages three times, or their number.
    (V2, "page-growth"): 4 * 4 + 12 * (2 + 2 + 1 + 4) + 12 + 9 + 3 * 2 + 9,
    # 2 ids, length, tokens, 2 lists of pages; data, hashes.
    (V2, "page-range"): 4 * 3 + 12 * (2 + 2 + 2 + 2) + 12 + 3,
    # A tuple of three lists; 2 ids, length, tokens, 2 lists of pages; data, hashes.
    (V2, "batched"): 4 * (3 + 4) + 12 * (2 + 2 + 2 + 2) + 12 + 3,
    # A tuple of two lists; data, tokens, pages, their list, hashes and three numbers.
    (V2, "native-output"): 4 * (3 + 1) + 12 * (5 + 3) + 12 + 3,
    # Data, tokens, pages, their list, hashes.
    (V2, FLOOR): 4 * 3 + 12 * 5,
    # 2 ids, tokens, pages, hashes; data, tokens, pages, the empty list of V2's.
    (V1, "full-copy"): 4 * 4 + 12 * (2 + 3 + 4) + 102 + 30 + 21,
    (V1, "incremental"): 4 * 4 + 12 * (2 + 4 + 3) + 12 + 30 + 21,
    (V1, "page-growth"): 4 * 4 + 12 * (2 + 4 + 3) + 12 + 9 + 21 + 3,
    # Hashes come as a tuple of a number and a list; data, a copy of the hashes, V2's empty list.
    (V1, "page-range"): 4 * 3 + 12 * (2 + 3 + 3 + 3) + 12 + 3 + 3,
    (V1, "batched"): 4 * (3 + 6) + 12 * (2 + 2 + 1 + 2 + 3) + 12 + 3 + 3,
    # The hashes that are copied from report to report are built once.
    (V1, "native-output"): 4 * (3 + 1) + 12 * (5 + 3) + 12 + 3 + 3,
    (V1, FLOOR): 4 * 3 + 12 * 5,
    # One list of pages more; no flat list is shared with it, so an empty one is one more.
    (TWO_GROUPS, "full-copy"): 4 * 4 + 12 * (2 + 1 + 3 + 7) + 102 + 60,
    (TWO_GROUPS, "page-range"): 4 * 3 + 12 * (2 + 2 + 3 + 3) + 12 + 6,
    (TWO_GROUPS, "native-output"): 4 * (3 + 1) + 12 * (7 + 3) + 12 + 6,
    (TWO_GROUPS, FLOOR): 4 * 3 + 12 * 7,
}


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """Counting collects garbage often; what other tests have left behind need not be looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def one(scenario: SteadyDecode | TraceReplay, arm: str) -> Work:
    (work,) = count_work(scenario, [arm])
    return work


@pytest.mark.parametrize(("scenario", "arm"), CALLS)
def test_calls_and_what_they_hand_over(scenario: SteadyDecode, arm: str):
    calls, tokens, pages, hashes = CALLS[scenario, arm]

    work = one(scenario, arm)

    # Where the native side builds the output, Python reads nothing.
    reads = {} if arm == "native-output" else READS
    assert work.calls == Counter(calls | reads)
    assert work.totals["native_calls"] == sum(calls.values()) + sum(reads.values())
    totals = [work.totals[name] for name in ("tokens", "page_indices", "hashes", "priorities")]
    assert totals == [tokens, pages, hashes, 0]
    assert (work.iterations, work.requests, work.sequence_tokens) == (4, 12, 102)
    assert work.per_iteration("tokens") == tokens / 4
    assert work.per_request("page_indices") == pages / 12


@pytest.mark.parametrize(("scenario", "arm"), ARGUMENTS)
def test_numbers_handed_to_native_calls(scenario: SteadyDecode, arm: str):
    work = one(scenario, arm)
    assert work.totals["arguments"] == 12 * ARGUMENTS[scenario, arm]
    assert work.per_request("arguments") == ARGUMENTS[scenario, arm]


@pytest.mark.parametrize(("scenario", "arm"), OBJECTS)
def test_objects(scenario: SteadyDecode, arm: str):
    assert one(scenario, arm).totals["objects"] == OBJECTS[scenario, arm]


@pytest.mark.parametrize("scenario", [V1, V2])
def test_the_floor_crosses_nothing_and_keeps_nothing_that_is_counted(scenario: SteadyDecode):
    work = one(scenario, FLOOR)

    assert work.calls == {}
    assert work.per_iteration("native_calls") == work.per_iteration("tokens") == 0
    assert work.per_iteration("arguments") == 0
    assert work.per_iteration("retained_bytes") is work.per_request("retained_bytes") is None
    assert [name for name in FIGURES if name not in work.totals] == ["retained_bytes"]


@pytest.mark.parametrize(("block", "iterations"), [(1, 1), (4, 4), (64, 64), (65, 64), (4096, 64)])
def test_a_block_of_iterations_is_counted_up_to_64(block: int, iterations: int):
    scenario = SteadyDecode(requests=1, tokens=3, tokens_per_block=block)
    assert iterations_of(scenario) == iterations
    assert one(scenario, "batched").iterations == iterations


@pytest.mark.parametrize("scenario", [V1, V2, MANY], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("name", ALL)
def test_tokens_and_pickled_size_are_those_of_an_uncounted_pass(scenario: SteadyDecode, name: str):
    workload, arm = create_workload(scenario, 5, "7"), create_arm(name)
    size = copied = new = 0
    for iteration in range(5):
        workload.advance()
        arguments = workload.batch, workload.async_requests, workload.manager
        if name == FLOOR:
            arm.prepare(*arguments)  # type: ignore[attr-defined]
        output = arm.build_scheduler_output(*arguments)
        if iteration:
            size += len(pickle.dumps(output, protocol=5))
            copied += sum(len(req.get_tokens(0)) for req in workload.batch.generation_requests)
            new += sum(len(data.new_tokens) for data in output.cached_requests)

    (work,) = count_work(scenario, [name], 7)

    assert work.totals["pickled_bytes"] == size
    assert work.sequence_tokens == copied
    assert work.totals["tokens"] == {"full-copy": copied, FLOOR: 0}.get(name, new)


@pytest.mark.parametrize("name", ARMS)
def test_the_wrappers_change_no_output(name: str):
    reports: Counter[str] = Counter()
    for number in range(12):
        for episode in random_run(5, number):
            setting = episode.setting
            bare, counted = (create_arm(name, attention_dp=setting.attention_dp) for _ in range(2))
            world = World(setting, [bare, counted])
            for operation in episode.operations:
                if not world.apply(operation):
                    continue
                crossings = Crossings()
                expected = bare.build_scheduler_output(
                    world.batch, world.async_requests, world.manager
                )
                output = counted.build_scheduler_output(
                    CountingBatch(world.batch, crossings),  # type: ignore[arg-type]
                    CountingAsyncRequests(world.async_requests, crossings),  # type: ignore[arg-type]
                    counting_manager(world.manager, crossings),  # type: ignore[arg-type]
                )
                assert output == expected
                world.finish_iteration()
                reports[setting.manager] += 1
                reports["new"] += len(output.new_requests)
                reports["priorities"] += crossings.marshalled["priorities"]
    assert min(reports[key] for key in ("v1", "v2", "new", "priorities")) > 100


def figures(works: list[Work]) -> list[object]:
    return [(work.scenario.name, work.arm, work.calls, work.totals) for work in works]


@pytest.mark.parametrize("scenario", [V1, V2, MANY], ids=lambda scenario: scenario.name)
def test_two_passes_and_other_arms_make_no_difference(scenario: SteadyDecode):
    together = figures(count_work(scenario, ALL))

    assert figures(count_work(scenario, ALL)) == together
    assert figures(count_work(scenario, ALL[::-1])) == together[::-1]
    assert [figures([one(scenario, name)])[0] for name in ALL] == together


@pytest.mark.thorough
def test_the_number_of_processes_makes_no_difference():
    done: list[int] = []
    cells = [V1, V2, MANY]

    alone = count_cells(cells, ["page-range", FLOOR], progress=done.append)
    shared = count_cells(cells, ["page-range", FLOOR], jobs=2, progress=done.append)

    limited = count_cells(cells[:1], ["page-range", FLOOR], limit=100)

    assert figures(shared) == figures(alone)
    assert figures(limited) == figures(alone)[:2]
    assert [(work.scenario, work.arm) for work in alone] == [
        (cell, arm) for cell in cells for arm in ("page-range", FLOOR)
    ]
    assert done == [1] * 6


def test_the_seed_of_hashes_makes_no_difference():
    script = (
        "import json; from harness.count.work import *; from scenarios.scenario import *; "
        f"works = count_work(SteadyDecode(requests=3, tokens=5, tokens_per_block=4), {list(ARMS)});"
        "print(json.dumps([[work.calls, work.totals] for work in works], sort_keys=True))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(counting.__file__).parents[1],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert json.loads(printed[0]) == [[work.calls, work.totals] for work in count_work(V2, [*ARMS])]


def test_no_more_than_a_few_iterations_are_counted_where_that_is_asked_for():
    (whole,), (part,) = count_work(V2, ["full-copy"]), count_work(V2, ["full-copy"], few=2)

    assert (len(whole.steps), len(part.steps), part.iterations) == (4, 2, 2)
    # Of the same workload.
    assert part.steps == whole.steps[:2]
    assert whole.totals["tokens"] == sum(step["tokens"] for step in whole.steps)
    assert "retained_bytes" not in part.totals


def test_the_seed_draws_what_is_accepted_of_draft_tokens():
    assert figures(count_work(MANY, ["full-copy"], 1)) == figures(
        count_work(MANY, ["full-copy"], 1)
    )
    assert figures(count_work(MANY, ["full-copy"], 1)) != figures(
        count_work(MANY, ["full-copy"], 2)
    )


class Fixed:
    """An arm that returns the same output each time, and keeps a list."""

    __slots__ = ("kept", "output", "size")

    def __init__(self, size: int = 0) -> None:
        self.kept: list[object] = []
        self.size = size
        self.output = SchedulerOutput()

    def build_scheduler_output(self, *_: object) -> SchedulerOutput:
        return self.output


class Keeping(Fixed):
    """Keeps ``size`` new objects of known size at each report, and drops as many others."""

    __slots__ = ()

    def build_scheduler_output(self, *_: object) -> SchedulerOutput:
        self.kept.extend(bytes(1_000) for _ in range(self.size))
        dropped = [bytes(5_000) for _ in range(100)]
        dropped.append(dropped)  # type: ignore[arg-type]
        return self.output


@pytest.fixture
def use_arms(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers arms for the counting alone: factories by name."""

    def use(**arms: Callable[[], object]) -> None:
        makes = {name: lambda _dp, make=make: make() for name, make in arms.items()}
        monkeypatch.setattr(counting, "as_factories", lambda names: {n: makes[n] for n in names})

    return use


def length(function: Callable[..., object]) -> int:
    """Instructions of a straight line; RESUME is told to nobody."""
    return sum(op.opname != "RESUME" for op in dis.get_instructions(function))


def test_bytecodes_of_an_arm_are_its_own_instructions(use_arms: Callable[..., None]):
    use_arms(fixed=Fixed)

    work = one(V2, "fixed")

    assert work.totals["bytecodes"] == 4 * length(Fixed.build_scheduler_output)
    assert work.totals["engine_bytecodes"] == 0


@pytest.mark.parametrize("scenario", [V1, TWO_GROUPS, MANY], ids=lambda scenario: scenario.name)
@pytest.mark.parametrize("name", ALL)
def test_what_stands_for_native_code_counts_for_nothing_whatever_it_calls(
    scenario: SteadyDecode, name: str
):
    # The arms' own code, what they call of the library, and the output type's.
    own = (
        str(Path(connector.__file__).parent),
        floor.__file__,
        typing.__file__,
        "<frozen importlib",
    )
    output = {id(kind.__init__.__code__) for kind in (RequestData, SchedulerOutput)}

    def classify(code: CodeType) -> str | None:
        return "bytecodes" if code.co_filename.startswith(own) or id(code) in output else None

    workload, arm = create_workload(scenario, 5, "0"), create_arm(name)
    expected = []
    with BytecodeCounter(classify) as counter:
        for _ in range(5):
            workload.advance()
            arguments = workload.batch, workload.async_requests, workload.manager
            if name == FLOOR:
                arm.prepare(*arguments)  # type: ignore[attr-defined]
            with counter.counting() as bytecodes:
                arm.build_scheduler_output(*arguments)
            expected.append(bytecodes.here["bytecodes"])

    assert [step["bytecodes"] for step in one(scenario, name).steps] == expected[1:]


def test_engine_bytecodes_are_those_around_the_binding():
    # V1's method around the binding is a straight line, called once a request by these arms.
    around = length(KVCacheManager.commit_and_get_block_hashes)
    expected = {"full-copy": around, "incremental": around, "page-growth": around}
    for name in ALL:
        assert one(V1, name).totals["engine_bytecodes"] == 12 * expected.get(name, 0), name


@pytest.mark.parametrize("scenario", [TWO_GROUPS, MANY], ids=["lists", "generators"])
def test_a_page_range_with_windows_has_no_engine_bytecodes(scenario: SteadyDecode):
    # Native code works out what the window has passed; the call that replaces it does in Python.
    works = {work.arm: work.totals["engine_bytecodes"] for work in count_work(scenario, ALL)}
    assert works["page-range"] == works["batched"] == works[FLOOR] == 0
    assert works["full-copy"] == works["incremental"] > works["page-growth"] > 0


def test_the_stale_range_of_whole_page_lists_is_the_engines(monkeypatch: pytest.MonkeyPatch):
    alone = tuple(name for name in ENGINE_PYTHON if name == "engine_stale_range")
    monkeypatch.setattr(counting, "ENGINE_PYTHON", alone)
    names = [op.opname for op in dis.get_instructions(engine_stale_range)]
    # Without a window it ends in the first return; RESUME is told to nobody.
    executed = names.index("RETURN_VALUE") + 1 - names.count("RESUME")

    works = count_work(V2, ["full-copy", "page-growth", "page-range"])

    # Once a request; ``page-growth`` asks for pages in one iteration of four.
    totals = [work.totals["engine_bytecodes"] for work in works]
    assert totals == [12 * executed, 3 * executed, 0]


def test_a_garbage_collection_in_between_is_not_the_arms_work():
    def callback(*_: object) -> None:
        sum(number for number in range(10))

    quiet = figures(count_work(V2, ["full-copy"]))
    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        noisy = figures(count_work(V2, ["full-copy"]))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)
    assert noisy == quiet


@pytest.mark.parametrize("size", [0, 1, 50, 3_000])
def test_retained_bytes_are_the_sizes_of_what_is_kept(use_arms: Callable[..., None], size: int):
    use_arms(keeping=lambda: Keeping(size), other=lambda: Keeping(777), fixed=Fixed)
    arm = Keeping(size)
    for _ in range(2):
        arm.build_scheduler_output()
    output = (arm.output, vars(arm.output), arm.output.new_requests, arm.output.cached_requests)
    own = sum(map(sys.getsizeof, (arm, arm.kept, *arm.kept)))

    totals = {
        work.arm: work.per_iteration("retained_bytes")
        for work in count_work(V2, ["other", "keeping", "fixed"])
    }
    empty = sum(map(sys.getsizeof, (Fixed(), [])))
    assert totals["fixed"] is not None
    assert totals["keeping"] == totals["fixed"] - empty + own
    # The rest of both is the same output; its instance dictionary is as CPython sees fit.
    assert 0 < totals["fixed"] - empty <= sum(map(sys.getsizeof, output))


def test_retained_bytes_do_not_depend_on_what_else_there_is(use_arms: Callable[..., None]):
    use_arms(keeping=lambda: Keeping(50))
    (alone,) = count_work(V2, ["keeping"])
    ballast = [list(range(1_000)) for _ in range(100)]
    garbage: list[object] = []
    garbage.append(garbage)
    del garbage
    (beside,) = count_work(V2, ["keeping"])
    assert len(ballast) == 100
    assert beside.totals["retained_bytes"] == alone.totals["retained_bytes"] > 4 * 2 * 50 * 1_000
