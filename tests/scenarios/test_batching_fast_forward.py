"""Finding the steady part of a trace."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.batching import ContinuousBatching, fast_forward
from scenarios.scenario import TraceReplay
from scenarios.traces import TraceRow
from stepbench_core.errors import InputError

# Two at a time, each for three iterations: one context chunk and two generation steps. They join
# in iterations 1, 4, 7, 10 and 13; two have left from iteration 4 on: ten steady iterations, 4-13.
PAIRS = TraceReplay(path="/traces/pairs.csv", max_batch=2, tokens_per_block=8, max_num_tokens=64)
PAIRS_ROWS = [TraceRow(8, 3)] * 10

LONG = TraceReplay(
    path="/traces/long.csv",
    max_batch=8,
    tokens_per_block=16,
    max_num_tokens=96,
    draft_tokens=2,
)
LONG_ROWS = [TraceRow(1 + (7 * index) % 90, 1 + (11 * index) % 40) for index in range(300)]


def state(batching: ContinuousBatching) -> tuple[object, ...]:
    known = [batching.known_tokens(slot) for slot in batching.generation.values()]
    return (
        batching.iteration,
        batching.left,
        list(batching.context.values()),
        list(batching.generation.values()),
        known,
        list(batching.waiting),
    )


def test_a_stretch_as_long_as_the_steady_part_starts_at_its_beginning():
    batching = fast_forward(PAIRS, PAIRS_ROWS, 10, "0")

    assert batching.iteration == 3
    assert batching.left == 0
    batching.step()
    assert batching.left == 2
    assert list(batching.context) == [2, 3]
    for _ in range(9):
        batching.step()
    assert list(batching.context) == [8, 9]
    assert not batching.waiting


def test_a_shorter_stretch_starts_at_every_place_where_it_fits():
    starts = {fast_forward(PAIRS, PAIRS_ROWS, 8, str(seed)).iteration for seed in range(50)}

    assert starts == {3, 4, 5}


def test_a_trace_that_is_too_short_is_refused_with_what_it_has():
    with pytest.raises(InputError) as caught:
        fast_forward(PAIRS, PAIRS_ROWS, 11, "0")

    assert str(caught.value) == (
        "/traces/pairs.csv: its 10 requests keep a batch of 2 steady for 10 iterations, "
        "but 11 are wanted: use a smaller --max-batch or a longer trace"
    )


def test_a_trace_that_never_fills_the_batch_has_no_steady_part():
    # All join in the first iteration, before anyone has left.
    with pytest.raises(InputError, match="its 2 requests keep a batch of 2 steady for 0 iterat"):
        fast_forward(PAIRS, PAIRS_ROWS[:2], 1, "0")


def test_large_numbers_are_grouped_by_thousands():
    with pytest.raises(InputError, match=r"its 1,500 requests keep .* for 2,245 iterations"):
        fast_forward(PAIRS, PAIRS_ROWS * 150, 3_000, "0")


def test_the_same_seed_gives_the_same_batches():
    one = fast_forward(LONG, LONG_ROWS, 50, "7")
    other = fast_forward(LONG, LONG_ROWS, 50, "7")

    for _ in range(51):
        assert state(one) == state(other)
        one.step()
        other.step()


def test_other_seeds_start_elsewhere():
    starts = [fast_forward(LONG, LONG_ROWS, 50, str(seed)).iteration for seed in range(20)]

    assert len(set(starts)) > 10


@given(st.integers(), st.integers(1, 100))
def test_the_stretch_lies_in_the_steady_part(seed: int, iterations: int):
    # Without drafts every run of the trace is the same, and the seed draws the start alone.
    scenario = replace(LONG, draft_tokens=0)
    whole = ContinuousBatching(scenario, LONG_ROWS, random.Random(0))
    steady = []
    while whole.waiting:
        whole.step()
        if whole.left >= scenario.max_batch:
            steady.append(whole.iteration)

    batching = fast_forward(scenario, LONG_ROWS, iterations, str(seed))

    assert steady[0] <= batching.iteration + 1
    assert batching.iteration + iterations <= steady[-1]
    replayed = ContinuousBatching(scenario, LONG_ROWS, random.Random(0))
    for _ in range(batching.iteration):
        replayed.step()
    assert state(batching) == state(replayed)
