"""What is asked about a workload before and while it runs."""

import re
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from connector.full_copy import KvCacheConnectorSchedulerOutputManager
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import (
    SteadyDecodeWorkload,
    TraceReplayWorkload,
    batch_shape,
    check_feasible,
    create_workload,
    peak_bytes,
)
from stepbench_core.errors import InputError
from stubs.batch import ScheduledRequests
from stubs.kv_cache_v2 import LayerGroup
from stubs.request import LlmRequest

from .conftest import WriteTrace

# What an arm keeps of a token for good: a list entry and the int that it points to. The request
# has four bytes more.
KEPT_PER_TOKEN = 8 + 28 + 4


def test_a_scenario_gets_the_workload_of_its_kind(write_trace: WriteTrace):
    steady = SteadyDecode(requests=2, tokens=3)
    replay = TraceReplay(path=write_trace([(8, 2)] * 40), max_batch=2)

    assert isinstance(create_workload(steady, 1, "0"), SteadyDecodeWorkload)
    assert isinstance(create_workload(replay, 1, "0"), TraceReplayWorkload)


def test_a_shape_counts_the_requests_and_tokens_of_a_batch():
    prompts = [[1] * length for length in (2, 30, 400, 5_000)]
    chunking, last, generating, paused = (LlmRequest(i, p) for i, p in enumerate(prompts))
    generating.add_new_token(7, 0)
    batch = ScheduledRequests([chunking], [last], [generating], [paused])

    assert batch_shape(batch) == (3, 2 + 30 + 401)
    assert batch_shape(ScheduledRequests()) == (0, 0)


def test_the_shape_of_a_workload_grows_with_its_sequences():
    workload = create_workload(SteadyDecode(requests=4, tokens=100), 3, "0")
    shapes = []
    for _ in range(3):
        workload.advance()
        shapes.append(batch_shape(workload.batch))

    assert shapes == [(4, 404), (4, 408), (4, 412)]


@pytest.mark.parametrize(
    "more",
    [
        {"requests": 65},
        {"tokens": 2_049},
        {"tokens_per_block": 16},
        {"layer_groups": (LayerGroup(), LayerGroup(64))},
    ],
)
def test_more_of_anything_needs_more_memory(more: dict[str, Any]):
    scenario = SteadyDecode(requests=64, tokens=2_048)

    assert peak_bytes(replace(scenario, **more), 145) > peak_bytes(scenario, 145)


def test_more_iterations_need_more_memory():
    scenario = SteadyDecode(requests=64, tokens=2_048)

    # 64 tokens an iteration, each in the request, in a kept list and in one on its way.
    assert peak_bytes(scenario, 1_145) - peak_bytes(scenario, 145) > 64 * 1_000 * 80


def test_a_larger_batch_of_a_trace_needs_more_memory(write_trace: WriteTrace):
    path = write_trace([(1_000, 50), (100, 5), (5_000, 200), (10, 10)] * 10)

    needed = [peak_bytes(TraceReplay(path=path, max_batch=size), 1) for size in (1, 4, 10, 40)]
    assert needed == sorted(set(needed))
    # At most the longest that fit one batch count: ten of 5,200 tokens, 100 bytes each at least.
    assert needed[2] - needed[1] > 6 * 5_200 * 100 / 2
    assert needed[2] < 100e6


@pytest.mark.parametrize(
    "settings",
    [
        {"requests": 4, "tokens": 50_000},
        {"requests": 1, "tokens": 200_000, "manager": "v1"},
        {"requests": 2, "tokens": 20_000, "tokens_per_block": 1},
        {"requests": 100, "tokens": 2_000, "layer_groups": (LayerGroup(), LayerGroup(64))},
    ],
)
def test_the_memory_foretold_is_enough_and_not_far_too_much(settings: dict[str, Any]):
    scenario = SteadyDecode(**settings)
    foretold = peak_bytes(scenario, 4) - peak_bytes(SteadyDecode(requests=1, tokens=1), 4)

    tracemalloc.start()
    try:
        run_arm(scenario, 4)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert used < foretold < 4 * used


def run_arm(scenario: SteadyDecode | TraceReplay, iterations: int) -> int:
    """Return how many tokens the arm has kept after ``iterations``."""
    workload = create_workload(scenario, iterations, "0")
    arm = KvCacheConnectorSchedulerOutputManager()
    for _ in range(iterations):
        workload.advance()
        arm.build_scheduler_output(workload.batch, workload.async_requests, workload.manager)
    return sum(len(state.tokens) for state in arm.requests.values())


def test_the_memory_foretold_covers_what_is_generated_meanwhile():
    # Far more is generated than there was at the start: up to 257 tokens an iteration.
    scenario = SteadyDecode(requests=60, tokens=1, draft_tokens=256)
    kept = run_arm(scenario, 145)

    assert kept > 1_000_000
    with pytest.raises(InputError, match="would not fit the memory"):
        check_feasible(scenario, 145, "0", kept * KEPT_PER_TOKEN)


def test_the_memory_foretold_covers_the_requests_that_left(write_trace: WriteTrace):
    # An arm forgets no request, and here all of the batch is replaced in every iteration.
    scenario = TraceReplay(
        path=write_trace([(250, 1)] * 9_000), max_batch=256, max_num_tokens=65_536
    )
    kept = run_arm(scenario, 25)

    assert kept == 25 * 256 * 250
    with pytest.raises(InputError, match="would not fit the memory"):
        check_feasible(scenario, 25, "0", kept * KEPT_PER_TOKEN)


def test_what_fits_the_memory_is_feasible():
    scenario = SteadyDecode(requests=64, tokens=2_048)

    check_feasible(scenario, 145, "0", peak_bytes(scenario, 145))


def test_a_scenario_beyond_the_memory_is_refused_with_what_it_needs():
    scenario = SteadyDecode(requests=256, tokens=131_072, manager="v1")

    with pytest.raises(InputError) as caught:
        check_feasible(scenario, 145, "0", 1_000_000_000)

    # 33.6 million tokens at some 40 to 100 bytes.
    found = re.fullmatch(
        r"v1-256x131072 would not fit the memory: it needs up to (\d\.\d) GB, "
        r"and 1\.0 GB are available",
        str(caught.value),
    )
    assert found is not None
    assert 1.3 < float(found[1]) < 4.0


def test_a_trace_is_checked_for_its_length_once_the_memory_would_do(write_trace: WriteTrace):
    scenario = TraceReplay(path=write_trace([(8, 3)] * 10), max_batch=2)

    with pytest.raises(InputError, match="its 10 requests keep a batch of 2 steady for 10 iter"):
        check_feasible(scenario, 11, "0", 10**9)
    with pytest.raises(InputError, match=r"^v2-trace=trace-batch=2 would not fit the memory: "):
        check_feasible(scenario, 10, "0", 0)
    check_feasible(scenario, 10, "0", 10**9)


def test_a_trace_that_cannot_be_read_is_no_question_of_memory():
    with pytest.raises(InputError, match=r"^/none\.csv: No such file or directory$"):
        check_feasible(TraceReplay(path="/none.csv"), 1, "0", 0)
    with pytest.raises(InputError, match=r"^/none\.csv: No such file or directory$"):
        peak_bytes(TraceReplay(path="/none.csv"), 1)
