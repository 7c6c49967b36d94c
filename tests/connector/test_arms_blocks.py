"""Blocks, hashes and priorities that every arm reports."""

import random

import pytest

from connector import log
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup, PageBackend
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

from .driving import MANAGERS, Arm, ListedV1, ListedV2, build, build_one, extend, start_generation

PROMPT = range(100, 108)


def test_v1_reports_new_blocks_flat(arm: Arm):
    manager = ListedV1([5, 3])
    request = LlmRequest(1, PROMPT)
    reported = []
    for blocks in ([5, 3], [5, 3], [5, 3, 9, 4], [5, 3, 9, 4]):
        manager.blocks = blocks
        data = build_one(arm, manager, request)
        reported.append(data.new_block_ids)
        assert data.new_block_ids_by_layer_group == []
    assert reported == [[5, 3], [], [9, 4], []]


def test_v2_with_one_group_reports_its_pages_in_both_fields(arm: Arm):
    manager = ListedV2([5, 3])
    request = LlmRequest(1, PROMPT)
    reported = []
    for pages in ([5, 3], [5, 3], [5, 3, 9, 4]):
        manager.pages = [pages]
        data = build_one(arm, manager, request)
        reported.append((data.new_block_ids, data.new_block_ids_by_layer_group))
        assert data.block_hashes == []
    # An iteration without a new page has an empty delta, not none.
    assert reported == [([5, 3], [[5, 3]]), ([], [[]]), ([9, 4], [[9, 4]])]


def test_v2_with_several_groups_reports_pages_by_group_only(arm: Arm):
    manager = ListedV2([5], [8, 2], [])
    request = LlmRequest(1, PROMPT)
    data = build_one(arm, manager, request)
    assert (data.new_block_ids, data.new_block_ids_by_layer_group) == ([], [[5], [8, 2], []])
    manager.pages = [[5, 6], [8, 2], [1]]
    data = build_one(arm, manager, request)
    assert (data.new_block_ids, data.new_block_ids_by_layer_group) == ([], [[6], [], [1]])


@pytest.mark.parametrize("groups", [1, 3])
def test_v2_with_a_request_that_holds_no_cache(arm: Arm, groups: int):
    manager = ListedV2(*[[]] * groups)
    data = build_one(arm, manager, LlmRequest(1, PROMPT))
    assert data.new_block_ids == []
    assert data.new_block_ids_by_layer_group == [[]] * groups


def test_a_block_that_is_masked_after_its_report_is_not_reported_again(arm: Arm):
    manager = ListedV2([5, 3, 9])
    request = LlmRequest(1, PROMPT)
    build_one(arm, manager, request)
    manager.pages = [[-1, -1, 9]]
    assert build_one(arm, manager, request).new_block_ids == []
    manager.pages = [[-1, -1, -1, 4]]
    assert build_one(arm, manager, request).new_block_ids == [4]


def test_a_block_that_is_masked_before_its_report_stands_as_minus_one(arm: Arm):
    manager = ListedV2([-1, -1, 9])
    data = build_one(arm, manager, LlmRequest(1, PROMPT))
    assert data.new_block_ids == [-1, -1, 9]
    assert data.new_block_ids_by_layer_group == [[-1, -1, 9]]


def test_a_page_list_that_shrinks_reports_nothing_until_it_passes_its_old_length(arm: Arm):
    reported: dict[str, list[list[int]]] = {"v1": [], "v2": []}
    # A rewind frees pages; other pages take their place, and only what is longer is new.
    for blocks in ([5, 3, 9], [5], [5, 7], [5, 7, 8], [5, 7, 8, 2], [], [5, 7, 8, 2, 6]):
        manager = ListedV1(blocks)
        reported["v1"].append(build_one(arm, manager, LlmRequest(1, PROMPT)).new_block_ids)
        pages = ListedV2(blocks)
        reported["v2"].append(build_one(arm, pages, LlmRequest(2, PROMPT)).new_block_ids)
    assert reported["v1"] == [[5, 3, 9], [], [], [], [2], [], [6]]
    assert reported["v2"] == reported["v1"]


def test_groups_shrink_and_grow_on_their_own(arm: Arm):
    request = LlmRequest(1, PROMPT)
    deltas = []
    for groups in ([[5, 3], [8]], [[5], [8, 2]], [[5, 4, 6], [8, 2]]):
        deltas.append(build_one(arm, ListedV2(*groups), request).new_block_ids_by_layer_group)
    assert deltas == [[[5, 3], [8]], [[], [2]], [[6], []]]


def test_v1_passes_all_block_hashes_through_every_time(arm: Arm):
    manager = ListedV1([5, 3], hashes=[2**64 - 1, 7])
    request = LlmRequest(1, PROMPT)
    assert build_one(arm, manager, request).block_hashes == [2**64 - 1, 7]
    assert build_one(arm, manager, request).block_hashes == [2**64 - 1, 7]
    manager.hashes = [2**64 - 1, 7, 6]
    assert build_one(arm, manager, request).block_hashes == [2**64 - 1, 7, 6]


def test_each_manager_is_called_once_a_request_and_iteration(arm: Arm):
    first = LlmRequest(1, PROMPT)
    second = start_generation(LlmRequest(2, PROMPT), 1)
    v1 = ListedV1([5], hashes=[7])
    for count in (1, 2):
        build(arm, v1, context=[first], generation=[second])
        assert sorted(v1.calls) == sorted(
            ["indices of 1", "hashes of 1", "indices of 2", "hashes of 2"] * count
        )


def test_v2_is_called_once_a_request_and_iteration(arm: Arm):
    request = LlmRequest(1, PROMPT)
    manager = ListedV2([5])
    for count in (1, 2):
        build_one(arm, manager, request)
        assert manager.calls == ["pages of 1"] * count


def test_v1_reads_a_priority_per_new_block(arm: Arm):
    manager = ListedV1([5, 3])
    manager.priorities = {5: 80, 3: 10, 9: 35}
    request = LlmRequest(1, PROMPT, retention_config=KvCacheRetentionConfig())
    assert build_one(arm, manager, request).priorities == [80, 10]
    assert build_one(arm, manager, request).priorities == []
    manager.blocks.append(9)
    assert build_one(arm, manager, request).priorities == [35]
    assert [call for call in manager.calls if call.startswith("priority")] == [
        "priority of 5",
        "priority of 3",
        "priority of 9",
    ]


def test_without_a_retention_config_there_are_no_priorities(arm: Arm):
    manager = ListedV1([5, 3])
    assert build_one(arm, manager, LlmRequest(1, PROMPT)).priorities is None
    assert manager.calls == ["indices of 1", "hashes of 1"]


def test_v2_warns_of_a_retention_config_once_and_reports_no_priorities(
    arm: Arm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(log, "_seen", set())
    manager = ListedV2([5])
    build_one(arm, manager, LlmRequest(0, PROMPT))
    assert caplog.messages == []
    for request_id in (1, 2, 1):
        config = KvCacheRetentionConfig([TokenRangeRetention(0, None, 80)])
        data = build_one(arm, manager, LlmRequest(request_id, PROMPT, retention_config=config))
        assert data.priorities is None
    assert caplog.messages == [
        "the V2 KV cache manager honours no retention config: priorities stay unset"
    ]


def test_v1_stand_in(arm: Arm):
    manager = MANAGERS["v1"]()
    config = KvCacheRetentionConfig([TokenRangeRetention(0, 4, 80)], decode_priority=55)
    request = LlmRequest(1, PROMPT, retention_config=config)
    manager.resize(request, 8)
    first = build_one(arm, manager, request)
    start_generation(request)
    reported = [first]
    # The sequence passes into its third block with the token at position 8.
    for token in (1, 2, 3, 4, 5):
        extend(request, token)
        manager.resize(request, request.get_num_tokens(0))
        reported.append(build_one(arm, manager, request))
    blocks = manager.get_cache_indices(request)
    hashes = manager.commit_and_get_block_hashes(request)
    assert [data.new_block_ids for data in reported] == [
        blocks[:2],
        blocks[2:3],
        [],
        [],
        [],
        blocks[3:],
    ]
    assert [data.priorities for data in reported] == [[80, 35], [55], [], [], [], [55]]
    assert [len(data.block_hashes) for data in reported] == [2, 2, 2, 2, 3, 3]
    assert reported[-1].block_hashes == hashes
    assert reported[0].block_hashes == hashes[:2]


@pytest.mark.parametrize("backend", ["list", "generator"])
def test_v2_stand_in_with_sliding_windows(arm: Arm, backend: PageBackend):
    manager = KVCacheManagerV2(
        100,
        tokens_per_block=4,
        layer_groups=[LayerGroup(), LayerGroup(window=4)],
        page_backend=backend,
        rng=random.Random(1),
    )
    request = LlmRequest(1, range(12))
    manager.resize(request, 12)
    full, sliding = manager.get_page_indices_by_layer_group(request)
    assert build_one(arm, manager, request).new_block_ids_by_layer_group == [full, sliding]

    start_generation(request)
    deltas = []
    for token in range(5):
        extend(request, token)
        manager.update_history(request, request.get_num_tokens(0) - 1)
        manager.resize(request, request.get_num_tokens(0))
        deltas.append(build_one(arm, manager, request).new_block_ids_by_layer_group)
    full, sliding = manager.get_page_indices_by_layer_group(request)
    assert deltas == [
        [full[3:4], sliding[3:4]],
        [[], []],
        [[], []],
        [[], []],
        [full[4:], sliding[4:]],
    ]
    # Blocks that went stale meanwhile stand in the lists, and were not reported again.
    assert sliding[:3] == [-1, -1, -1]
