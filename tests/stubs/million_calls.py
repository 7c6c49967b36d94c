"""A million calls of the native stand-ins, to be run as a process of its own.

It prints by how much two things grew that a leak would let grow: the blocks of Python's allocator,
and the resident memory in bytes. With ``--without-numpy`` it leaves the view out, whose import is
never freed, so that a leak checker has nothing to report.
"""

import functools
import gc
import random
import sys
from collections.abc import Callable
from pathlib import Path

from connector.data import RequestData
from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import load_provider
from stubs.request import KvCacheRetentionConfig, TokenRangeRetention

CALLS = 1_000_000
PAGE = 4096


def list_calls(with_numpy: bool) -> list[Callable[[], object]]:
    """Return calls of every kind, each of which could forget to free a value or an error."""
    provider = load_provider("nanobind")
    config = KvCacheRetentionConfig([TokenRangeRetention(0, None, 80)])
    request = provider.LlmRequest(5, range(1000, 1010), retention_config=config)
    v1 = provider.KVCacheManager(9, tokens_per_block=4, rng=random.Random(1))
    v2 = provider.KVCacheManagerV2(
        9, tokens_per_block=4, layer_groups=[LayerGroup(), LayerGroup(2)], rng=random.Random(1)
    )
    for manager in (v1, v2):
        manager.resize(request, 10)
        manager.update_history(request, 9)
    kv_cache = v2.kv_cache_map[5]
    reported = [
        each.create_reported_requests(maker, False)
        for each in (v1, v2)
        for maker in (RequestData, int)  # The second refuses what it is called with.
    ]

    def report(number: int) -> None:
        manager = (v1, v2)[number // 2]
        batch = [], [request], []
        try:
            manager.build_request_data(reported[number], *batch, {}, {5: 3})
        except TypeError:
            assert number % 2
        reported[number].forget(5)

    def grow_and_shrink() -> None:
        request.add_new_token(7, 0)
        request.pause(10)

    def reallocate() -> None:
        for manager in (v1, v2):
            manager.free_resources(request)
            manager.resize(request, 10)
        v2.kv_cache_map[5].history_length = 9

    def refused(*arguments: object) -> None:
        try:
            request.get_tokens(*arguments)
        except (IndexError, TypeError):
            return
        raise AssertionError

    calls = [
        lambda: request.get_tokens(0),
        request.get_tokens,
        lambda: request.get_token(0, 3),
        lambda: request.get_num_tokens(0),
        lambda: request.get_tokens_range(0, 2, 9),
        lambda: request.state,
        lambda: setattr(request, "state", request.state),
        lambda: request.kv_cache_retention_config.ranges[0].priority,
        lambda: v1.get_cache_indices(request),
        lambda: v1.commit_and_get_block_hashes(request),
        lambda: v1.get_block_hashes_after(request, 0, 0),
        lambda: v1.get_batch_updates([request], [0], [0], [0], [0]),
        lambda: v2.get_page_indices_range(request, 0),
        lambda: v2.get_batch_updates([request], [0], [0]),
        *(functools.partial(report, number) for number in range(4)),
        lambda: v2.create_reported_requests(RequestData, True),
        lambda: kv_cache.get_aggregated_page_indices(0, valid_only=True),
        lambda: kv_cache.tables,
        grow_and_shrink,
        reallocate,
        lambda: refused(2),
        lambda: refused("0"),
        lambda: provider.LlmRequest(6, [1, 2, 3], retention_config=config),
    ]
    return [*calls, lambda: request.get_tokens_view(0)] if with_numpy else calls


def allocated() -> tuple[int, int]:
    """Return the blocks of Python's allocator and the resident memory in bytes."""
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    return sys.getallocatedblocks(), resident * PAGE


def main() -> None:
    """Call, and print what grew."""
    calls = list_calls(with_numpy="--without-numpy" not in sys.argv)

    def run(times: int) -> tuple[int, int]:
        for call in calls:
            for _ in range(times):
                call()
        return allocated()

    run(2000)
    blocks, resident = run(2000)
    blocks_after, resident_after = run(CALLS // len(calls) + 1)
    print(blocks_after - blocks, resident_after - resident)


if __name__ == "__main__":
    main()
