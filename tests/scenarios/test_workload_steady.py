"""Workloads of steady decode."""

from itertools import pairwise
from typing import Any

import pytest

from connector import full_copy, incremental
from connector.interfaces import LlmRequestState
from scenarios.scenario import SteadyDecode
from scenarios.workload import SteadyDecodeWorkload
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup

TWO_GROUPS = (LayerGroup(), LayerGroup(window=8, sink_tokens=4))


def create(iterations: int = 100, seed: str = "0", **settings: Any) -> SteadyDecodeWorkload:  # noqa: ANN401
    return SteadyDecodeWorkload(SteadyDecode(**settings), iterations, seed)


def lengths(workload: SteadyDecodeWorkload) -> list[int]:
    return [request.get_num_tokens(0) for request in workload.batch.generation_requests]


def pages(workload: SteadyDecodeWorkload) -> list[list[list[int]]]:
    """Return the page indices of every request, one list for each layer group."""
    manager, requests = workload.manager, workload.batch.generation_requests
    if isinstance(manager, KVCacheManagerV2):
        return [manager.get_page_indices_by_layer_group(request) for request in requests]
    return [[manager.get_cache_indices(request)] for request in requests]


@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_all_requests_are_in_their_generation_phase_and_stay_there(manager: str):
    workload = create(requests=3, tokens=10, manager=manager)
    requests = list(workload.batch.generation_requests)

    for _ in range(5):
        workload.advance()

    assert workload.batch.generation_requests == requests
    assert [request.request_id for request in requests] == [0, 1, 2]
    assert {request.state for request in requests} == {LlmRequestState.GENERATION_IN_PROGRESS}
    assert [request.context_current_position for request in requests] == [10, 10, 10]
    assert workload.batch.context_requests == workload.batch.paused_requests == []
    assert workload.async_requests.loading_ids == workload.async_requests.saving_ids == set()
    assert isinstance(workload.manager, KVCacheManager if manager == "v1" else KVCacheManagerV2)


def test_aligned_prompts_have_one_length():
    assert lengths(create(requests=3, tokens=10)) == [10, 10, 10]


@pytest.mark.parametrize(
    ("requests", "tokens", "block", "expected"),
    [
        (4, 20, 8, [16, 18, 20, 22]),
        (8, 20, 4, [18, 18, 19, 19, 20, 20, 21, 21]),
        (3, 20, 8, [16, 18, 21]),
        (1, 20, 8, [16]),
        (3, 20, 1, [20, 20, 20]),
    ],
)
def test_staggered_prompts_spread_over_one_block(
    requests: int, tokens: int, block: int, expected: list[int]
):
    workload = create(
        requests=requests, tokens=tokens, tokens_per_block=block, boundaries="staggered"
    )

    assert lengths(workload) == expected


def new_pages(workload: SteadyDecodeWorkload, iterations: int) -> list[int]:
    """Return how many requests got a page in each of the next iterations."""
    counts = [sum(len(groups[0]) for groups in pages(workload))]
    for _ in range(iterations):
        workload.advance()
        counts.append(sum(len(groups[0]) for groups in pages(workload)))
    return [after - before for before, after in pairwise(counts)]


def test_aligned_requests_cross_a_block_boundary_together():
    workload = create(requests=3, tokens=8, tokens_per_block=4)

    assert new_pages(workload, 9) == [3, 0, 0, 0, 3, 0, 0, 0, 3]


@pytest.mark.parametrize("tokens", [64, 8, 1])
@pytest.mark.parametrize("manager", ["v1", "v2"])
def test_staggered_requests_give_every_iteration_its_share_of_crossings(tokens: int, manager: str):
    settings = {"tokens_per_block": 8, "boundaries": "staggered", "manager": manager}

    assert new_pages(create(requests=16, tokens=tokens, **settings), 24) == [2] * 24
    # 12 crossings in every 8 iterations.
    assert sorted(new_pages(create(requests=12, tokens=tokens, **settings), 8)) == [1] * 4 + [2] * 4


@pytest.mark.parametrize("draft_tokens", [0, 1, 3])
@pytest.mark.parametrize("overlap", [False, True])
def test_each_iteration_appends_what_the_forward_before_gave(draft_tokens: int, overlap: bool):
    workload = create(requests=8, tokens=10, draft_tokens=draft_tokens, overlap=overlap)
    steps = [lengths(workload)]
    for _ in range(40):
        workload.advance()
        steps.append(lengths(workload))
    gains = [
        {after - before for before, after in zip(one, two, strict=True)}
        for one, two in pairwise(steps)
    ]

    if overlap:  # The first output is built while the first forward still runs.
        assert gains.pop(0) == {0}
    assert set.union(*gains) == set(range(1, draft_tokens + 2))


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_draft_tokens_are_drawn_anew_for_every_iteration(draft_tokens: int):
    workload = create(requests=2, tokens=10, draft_tokens=draft_tokens)
    seen = []
    for _ in range(3):
        workload.advance()
        seen += [request.py_draft_tokens for request in workload.batch.generation_requests]

    if draft_tokens:
        assert [len(drafts) for drafts in seen if drafts is not None] == [3] * 6
        assert len({tuple(drafts) for drafts in seen if drafts is not None}) == 6
    else:
        assert seen == [None] * 6


@pytest.mark.parametrize("manager", ["v1", "v2"])
@pytest.mark.parametrize(
    ("settings", "tokens_held", "pages_held"),
    [
        # A block holds four tokens; without overlap the first iteration has 7 tokens.
        ({}, [7, 8, 9, 10, 11, 12, 13], [2, 2, 3, 3, 3, 3, 4]),
        # The forward that still runs may bring a token more.
        ({"overlap": True}, [6, 7, 8, 9, 10, 11, 12], [2, 2, 3, 3, 3, 3, 4]),
    ],
)
def test_there_are_pages_for_all_that_is_scheduled(
    settings: dict[str, Any], tokens_held: list[int], pages_held: list[int], manager: str
):
    workload = create(requests=2, tokens=6, tokens_per_block=4, manager=manager, **settings)

    for tokens, count in zip(tokens_held, pages_held, strict=True):
        workload.advance()
        assert lengths(workload) == [tokens, tokens]
        assert [[len(group) for group in groups] for groups in pages(workload)] == [[count]] * 2


@pytest.mark.parametrize("settings", [{"manager": "v1"}, {"layer_groups": TWO_GROUPS}])
@pytest.mark.parametrize("overlap", [False, True])
def test_drafts_need_room_as_well(settings: dict[str, Any], overlap: bool):
    workload = create(
        requests=3, tokens=6, tokens_per_block=4, draft_tokens=2, overlap=overlap, **settings
    )
    groups = len(settings.get("layer_groups", [None]))

    for _ in range(20):
        workload.advance()
        # Two drafts, and up to three tokens from a forward that still runs.
        held = [length + 2 + (3 if overlap else 0) for length in lengths(workload)]
        counts = [[len(group) for group in per_group] for per_group in pages(workload)]
        assert counts == [[(tokens + 3) // 4] * groups for tokens in held]


@pytest.mark.parametrize("overlap", [False, True])
def test_all_but_the_last_token_counts_as_computed(overlap: bool):
    workload = create(requests=2, tokens=6, overlap=overlap, draft_tokens=1)
    assert isinstance(workload.manager, KVCacheManagerV2)

    for _ in range(5):
        workload.advance()
        computed = [workload.manager.kv_cache_map[index].history_length for index in (0, 1)]
        assert computed == [length - 1 for length in lengths(workload)]


def test_blocks_that_the_window_has_passed_are_masked():
    workload = create(requests=2, tokens=32, tokens_per_block=4, layer_groups=TWO_GROUPS)
    workload.advance()

    # 33 tokens, 32 of them computed: nine blocks. The token to come sees those from 25 on, in
    # block 6, and the sink, which is block 0.
    masked = [[index == -1 for index in group] for group in pages(workload)[1]]
    assert masked[0] == [False] * 9
    assert masked[1] == [False] + [True] * 5 + [False] * 3


@pytest.mark.parametrize("backend", ["list", "generator"])
def test_page_indices_come_from_the_backend_asked_for(backend: str):
    workload = create(requests=1, tokens=6, page_backend=backend)
    assert isinstance(workload.manager, KVCacheManagerV2)

    indices = workload.manager.kv_cache_map[0].get_aggregated_page_indices(0)
    assert isinstance(indices, list) == (backend == "list")


def outputs(module: Any, seed: str, settings: dict[str, Any]) -> list[Any]:  # noqa: ANN401
    workload = create(50, seed, requests=4, tokens=20, tokens_per_block=4, **settings)
    arm = module.KvCacheConnectorSchedulerOutputManager()
    found = []
    for _ in range(50):
        workload.advance()
        found.append(
            arm.build_scheduler_output(workload.batch, workload.async_requests, workload.manager)
        )
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"manager": "v1"},
        {"layer_groups": TWO_GROUPS, "draft_tokens": 3},
        {"overlap": True, "boundaries": "staggered", "page_backend": "generator"},
    ],
)
def test_a_seed_decides_all_that_an_arm_reports(settings: dict[str, Any]):
    found = outputs(full_copy, "0", settings)

    assert outputs(full_copy, "0", settings) == found
    assert outputs(incremental, "0", settings) == found
    other = outputs(full_copy, "1", settings)
    assert [data.new_tokens for data in other[0].cached_requests] != [
        data.new_tokens for data in found[0].cached_requests
    ]


def test_two_requests_never_share_a_page():
    workload = create(requests=5, tokens=20, tokens_per_block=4, layer_groups=TWO_GROUPS)
    for _ in range(30):
        workload.advance()
        for group in (0, 1):
            held = [i for groups in pages(workload) for i in groups[group] if i != -1]
            assert len(set(held)) == len(held) > 0
