"""The page pool of a workload never runs out."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import SteadyDecodeWorkload, TraceReplayWorkload
from stubs.kv_cache_v2 import LayerGroup

from .conftest import WriteTrace

lengths = st.tuples(st.integers(1, 40), st.integers(1, 12))
groups_of_v2 = st.lists(
    st.one_of(st.just(LayerGroup()), st.builds(LayerGroup, st.integers(1, 20), st.integers(0, 20))),
    min_size=1,
    max_size=3,
).map(tuple)
managers = st.one_of(
    st.just({"manager": "v1"}), st.fixed_dictionaries({"layer_groups": groups_of_v2})
)


@given(
    manager=managers,
    requests=st.integers(1, 6),
    tokens=st.integers(1, 40),
    tokens_per_block=st.sampled_from([1, 2, 3, 16, 64]),
    draft_tokens=st.sampled_from([0, 0, 1, 5]),
    overlap=st.booleans(),
    boundaries=st.sampled_from(["aligned", "staggered"]),
    iterations=st.integers(0, 30),
    seed=st.integers(0, 9).map(str),
)
def test_the_pages_of_steady_decode_last_as_long_as_promised(
    manager: dict[str, Any],
    iterations: int,
    seed: str,
    **settings: Any,  # noqa: ANN401
):
    workload = SteadyDecodeWorkload(SteadyDecode(**manager, **settings), iterations, seed)

    for _ in range(iterations):
        workload.advance()  # Raises OutOfPagesError if they do not.

    shortest = min(r.get_num_tokens(0) for r in workload.batch.generation_requests)
    assert shortest >= iterations


# One file a test run is enough: each example writes it anew.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    # Requests that are all alike need most: the pool is made for the longest that fit one batch.
    rows=st.one_of(
        st.lists(lengths, min_size=40, max_size=60),
        lengths.map(lambda row: [row] * 60),
    ),
    manager=managers,
    block=st.sampled_from([1, 3, 16]),
    max_batch=st.integers(1, 4),
    draft_tokens=st.integers(0, 3),
    overlap=st.booleans(),
)
def test_the_pages_of_a_trace_last_as_long_as_promised(
    write_trace: WriteTrace,
    rows: list[tuple[int, int]],
    manager: dict[str, Any],
    block: int,
    max_batch: int,
    draft_tokens: int,
    overlap: bool,
):
    scenario = TraceReplay(
        path=write_trace(rows),
        tokens_per_block=block,
        max_batch=max_batch,
        draft_tokens=draft_tokens,
        overlap=overlap,
        **manager,
    )
    workload = TraceReplayWorkload(scenario, 10, "0")

    for _ in range(10):
        workload.advance()  # Raises OutOfPagesError if they do not.
        size = len(workload.batch.context_requests) + len(workload.batch.generation_requests)
        assert size <= max_batch
