import json
import re

import pytest

from harness.speedup.plan import Protocol
from reports.speedup.provenance import provenance
from scenarios.scenario import SteadyDecode, TraceReplay

from ..conftest import MACHINE, WriteResults, make_plan

SMALL = SteadyDecode(requests=2, tokens=64)
TRACE = TraceReplay(path="/traces/azure.csv", max_batch=8)
KNOWN = {
    "stepbench_version": "1.2.3",
    "stepbench_revision": "0123456789abcdef0123456789abcdef01234567",
    "stepbench_dirty": 0,
    "stepbench_cpus_allowed": "0,1,2,3",
    "stepbench_governor": "performance",
    "stepbench_no_turbo": "1",
    "stepbench_kernel": "6.1.0-test",
}
ONE = {(0, "full-copy", 0): 1.0}


def test_it_says_where_and_when(write_results: WriteResults):
    text = provenance(write_results(make_plan(cpu=3), ONE, metadata=KNOWN))

    assert text.startswith("Measured 2026-03-04 05:06 ")  # As local time; its zone follows.
    for fact in (
        "on Test CPU 9000 (8 cores, 0,1,2,3 allowed, pinned to core 3;",
        "governor performance, turbo off)",
        "host box,",
        "Linux 6.1.0-test,",
        "cpython 3.12.1 (64-bit);",
    ):
        assert fact in text


def test_it_says_what_was_measured_with(write_results: WriteResults):
    text = provenance(write_results(make_plan(), ONE, metadata=KNOWN))

    assert "stepbench 1.2.3, revision 0123456789ab;" in text
    assert "stand-ins: provider python" in text
    assert "local changes" not in text


def test_it_says_that_the_work_tree_had_changes(write_results: WriteResults):
    text = provenance(write_results(make_plan(), ONE, metadata=KNOWN | {"stepbench_dirty": 1}))

    assert "revision 0123456789ab with local changes;" in text


@pytest.mark.parametrize(
    ("gc", "cpu", "facts"),
    [
        (False, None, ["not pinned", "with the garbage collector frozen and off"]),
        (True, 0, ["pinned to core 0", "with the garbage collector running"]),
    ],
)
def test_it_says_how(write_results: WriteResults, gc: bool, cpu: int | None, facts: list[str]):
    plan = make_plan(
        protocol=Protocol(processes=4, warmups=10, rounds=9, samples=15),
        gc=gc,
        cpu=cpu,
        seed=4711,
        command="stepbench speedup --cells '2x64' --seed 4711",
    )

    text = provenance(write_results(plan, ONE))

    assert "in 1 process of its own" in text
    assert "took turns on one core, round by round, in random and balanced order" in text
    assert "10 warm-up iterations, then 9 rounds of 15," in text
    assert "a speedup is the geometric mean over processes" in text
    assert "95 % Student t interval of their logarithms." in text
    assert "98 %" not in text
    assert "Seed 4711." in text
    assert text.endswith("Repeat with `stepbench speedup --cells '2x64' --seed 4711`.")
    for fact in facts:
        assert fact in text


def test_it_says_how_many_processes_were_added_and_what_that_does_to_intervals(
    write_results: WriteResults,
):
    plan = make_plan(
        SteadyDecode(requests=2, tokens=64),
        SteadyDecode(requests=2, tokens=65),
        precision=0.05,
        seconds=90.0,
    )
    counts = {0: 4, 1: 6}
    samples = {
        (cell, arm, process): 1.0
        for cell, count in counts.items()
        for arm in plan.arms
        for process in range(count)
    }

    text = provenance(write_results(plan, samples))

    assert "in 4 to 6 processes of its own" in text
    assert "added until each ratio was within ±5 % or 90 s were over" in text
    assert "It is computed for 98 %" in text


def test_a_file_of_the_first_format_says_that_processes_ran_one_after_the_other(
    write_results: WriteResults,
):
    text = provenance(write_results(make_plan(), ONE, metadata={"stepbench_format": 1}))

    assert "in 3 processes of its own, one after the other;" in text


def test_a_single_process_and_round_are_in_the_singular(write_results: WriteResults):
    plan = make_plan(protocol=Protocol(processes=1, warmups=1, rounds=1, samples=3))

    text = provenance(write_results(plan, ONE))

    assert "in 1 process of its own" in text
    assert "1 warm-up iteration, then 1 round of 3," in text


@pytest.mark.parametrize(
    ("metadata", "turbo"),
    [
        ({"stepbench_no_turbo": "0"}, "on"),
        ({"stepbench_no_turbo": "1"}, "off"),
        ({"stepbench_boost": "1"}, "on"),
        ({"stepbench_boost": "0"}, "off"),
        ({"stepbench_no_turbo": "unknown"}, "not readable"),
        ({}, "not readable"),
    ],
)
def test_turbo_is_read_from_either_driver(
    write_results: WriteResults, metadata: dict[str, str], turbo: str
):
    text = provenance(write_results(make_plan(), ONE, metadata=metadata))

    assert f"governor not readable, turbo {turbo})" in text


def test_what_a_file_does_not_say_is_unknown_and_no_error(write_results: WriteResults):
    results = write_results(
        make_plan(),
        ONE,
        machine={},
        runs={(0, "full-copy", 0): {"load_avg_1min": 0.5, "date": "2026-03-04 05:06:07"}},
    )

    text = provenance(results)

    assert "an unnamed CPU" in text
    assert "host unknown" in text
    assert "revision unknown" in text


def test_load_is_that_of_the_first_and_of_the_last_run_in_time(write_results: WriteResults):
    # The plan begins with full-copy, but this file was carried on with at an earlier hour.
    noted = {
        (0, "full-copy", 0): ("2026-03-04 12:00:00", 0.75, 3.5),
        (0, "incremental", 0): ("2026-03-04 11:00:00", 0.11, 0.22),
        (0, "full-copy", 1): ("2026-03-04 11:30:00", 0.33, 0.44),
    }
    results = write_results(
        make_plan(),
        dict.fromkeys(noted, 1.0),
        runs={
            key: {"date": date, "stepbench_load_start": start, "load_avg_1min": end}
            for key, (date, start, end) in noted.items()
        },
    )

    text = provenance(results)

    assert "load 0.11 at the start, 3.50 at the end." in text
    assert text.startswith("Measured 2026-03-04 11:00 ")


def test_memory_is_that_of_the_largest_process(write_results: WriteResults):
    sizes = {(0, "full-copy", 0): 31_000_000, (0, "full-copy", 1): 1_234_600_000}
    results = write_results(
        make_plan(),
        dict.fromkeys(sizes, 1.0),
        runs={key: {"mem_max_rss": size} for key, size in sizes.items()},
    )

    assert "largest process 1,235 MB." in provenance(results)


def test_growth_is_told_for_the_cell_that_grew_most(write_results: WriteResults):
    plan = make_plan(SMALL, SteadyDecode(requests=2, tokens=8192), arms=("full-copy",))
    results = write_results(
        plan,
        {(0, "full-copy", 0): 1.0, (1, "full-copy", 0): 1.0},
        runs={
            (0, "full-copy", 0): {"stepbench_tokens_first": 75.0, "stepbench_tokens_last": 209.0},
            (1, "full-copy", 0): {
                "stepbench_tokens_first": 8203.0,
                "stepbench_tokens_last": 8337.0,
            },
        },
    )

    text = provenance(results)

    assert (
        "Sequences grow by 134 tokens while they are measured (the shortest from 75 to 209)."
        in text
    )
    assert "trace" not in text


@pytest.mark.parametrize("arms", [("full-copy", "incremental", "floor"), ("floor", "full-copy")])
def test_it_says_what_the_floor_is(write_results: WriteResults, arms: tuple[str, ...]):
    text = provenance(write_results(make_plan(arms=arms), ONE))

    assert (
        "`floor` is no arm but the bare cost of building the output objects in Python; x floor is "
        "an arm's time over the floor's, formed as a speedup is. "
    ) in text


def test_without_the_floor_it_is_not_explained(write_results: WriteResults):
    text = provenance(write_results(make_plan(arms=("full-copy", "batched", "incremental")), ONE))

    assert "floor" not in text


@pytest.mark.parametrize(
    ("noted", "sentence"),
    [
        ((20, 20), "Before that, the arms gave the same outputs in 20 random runs. "),
        ((1, 1), "Before that, the arms gave the same outputs in 1 random run. "),
        # Carried on with --no-verify, or measured by a version that did not verify.
        ((20, 0), "That the arms give the same outputs was not verified. "),
        ((20, None), "That the arms give the same outputs was not verified. "),
    ],
)
def test_it_says_whether_the_arms_were_verified(
    write_results: WriteResults, noted: tuple[int, int | None], sentence: str
):
    keys = [(0, "full-copy", 0), (0, "incremental", 0)]
    runs = {
        key: {} if number is None else {"stepbench_verified_runs": number}
        for key, number in zip(keys, noted, strict=True)
    }

    text = provenance(write_results(make_plan(), dict.fromkeys(keys, 1.0), runs=runs))

    assert sentence in text
    assert text.count("same outputs") == 1


@pytest.mark.parametrize("arms", [("full-copy",), ("floor",), ("full-copy", "floor")])
def test_an_arm_alone_has_nothing_to_be_verified_against(
    write_results: WriteResults, arms: tuple[str, ...]
):
    text = provenance(write_results(make_plan(arms=arms), {(0, arms[0], 0): 1.0}))

    assert "same outputs" not in text


def test_a_trace_has_its_own_sentence_and_no_growth(write_results: WriteResults):
    text = provenance(write_results(make_plan(TRACE), ONE))

    assert "its own stretch of the trace's steady part, the same for all arms." in text
    assert "Sequences grow" not in text


def test_steady_cells_that_were_never_reached_have_no_growth_to_tell(write_results: WriteResults):
    # Interrupted after the first process, which replays a trace.
    text = provenance(write_results(make_plan(TRACE, SMALL), ONE))

    assert "trace's steady part" in text
    assert "tokens per request" not in text


def test_the_paragraph_is_one_paragraph(write_results: WriteResults):
    text = provenance(write_results(make_plan(), ONE, metadata=KNOWN, machine=MACHINE))

    assert "\n" not in text
    assert re.search(r"[a-z]\.[A-Z]", text) is None


def test_it_says_where_arms_are_from_after_each_change(write_results: WriteResults):
    before = {"trtllm:x": "work tree of commit 1", "file:a.py": "a file by itself"}
    after = before | {"trtllm:x": "work tree of commit 2"}
    noted = {(0, "full-copy", 0): before, (0, "full-copy", 1): before, (0, "incremental", 0): after}
    results = write_results(
        make_plan(),
        dict.fromkeys(noted, 1.0),
        runs={key: {"stepbench_arms": json.dumps(value)} for key, value in noted.items()},
    )

    assert (
        " MB. `trtllm:x`: work tree of commit 1. `file:a.py`: a file by itself. "
        "`trtllm:x`: work tree of commit 2. That "
    ) in provenance(results)


@pytest.mark.parametrize("damaged", ["{", "[]", "3"])
def test_what_cannot_be_read_of_it_is_left_out(write_results: WriteResults, damaged: str):
    results = write_results(make_plan(), ONE, metadata={"stepbench_arms": damaged})

    assert " MB. That the arms give the same outputs was not verified. " in provenance(results)


def test_it_says_what_was_not_compared(write_results: WriteResults):
    words = "Not compared, since one side lacks them: block_hashes."
    metadata: dict[str, str | int | float] = {
        "stepbench_verified_runs": 20,
        "stepbench_not_compared": words,
    }
    results = write_results(make_plan(), ONE, metadata=metadata)

    same = "Before that, the arms gave the same outputs in 20 random runs."
    assert f" {same} {words} Each arm " in provenance(results)
