"""The arms against each other, and against what a report must add up to, in random runs."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.data import RequestData
from connector.interfaces import LlmRequestState
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2, LayerGroup
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

from .driving import ARMS, Manager, cut, extend, start_generation

THREE_GROUPS = (LayerGroup(), LayerGroup(window=6), LayerGroup(window=9, sink_tokens=3))

RUN_MANAGERS: dict[str, Callable[[], Manager]] = {
    "v1": lambda: KVCacheManager(500, tokens_per_block=4, rng=random.Random(1)),
    "v2": lambda: KVCacheManagerV2(500, tokens_per_block=4, rng=random.Random(1)),
    "v2-windows": lambda: KVCacheManagerV2(
        500,
        tokens_per_block=4,
        layer_groups=THREE_GROUPS,
        page_backend="generator",
        rng=random.Random(1),
    ),
}


class Run:
    """Requests that join, compute, generate, rewind, are replayed and leave, at random.

    Attributes:
        marks: the most tokens and blocks of each request at any report since it was new.
    """

    def __init__(self, manager: Manager, rng: random.Random) -> None:
        self.manager = manager
        self.rng = rng
        attention_dp = rng.random() < 0.3
        self.arms = [
            module.KvCacheConnectorSchedulerOutputManager(
                enable_attention_dp=attention_dp, attention_dp_rank=2
            )
            for module in ARMS.values()
        ]
        self.live: dict[int, LlmRequest] = {}
        self.joined = 0
        self.marks: dict[int, tuple[int, int]] = {}

    def step(self) -> None:
        rng = self.rng
        if len(self.live) < 4 and rng.random() < 0.6:
            self._join()
        batch, loads = ScheduledRequests(), AsyncRequests()
        for request in rng.sample(list(self.live.values()), len(self.live)):
            self._move(request, batch, loads)
        first, *others = [
            arm.build_scheduler_output(batch, loads, self.manager) for arm in self.arms
        ]
        for other in others:
            assert other == first
        for data in first.new_requests:
            assert data.request_id not in self.marks
        for data in first.new_requests + first.cached_requests:
            self._check(data)

        for request in batch.context_requests:
            if request.request_id not in loads.loading:
                request.move_to_next_context_chunk()
                if request.context_remaining_length == 0:
                    start_generation(request)

    def _move(self, request: LlmRequest, batch: ScheduledRequests, loads: AsyncRequests) -> None:
        action = self.rng.random()
        if action < 0.05:  # It leaves.
            self._forget(request)
            del self.live[request.request_id]
        elif action < 0.1:  # It sits this iteration out.
            return
        elif action < 0.15:  # Its allocation is destroyed; it is replayed later.
            request.pause(self.rng.randint(1, 60))
            self._forget(request)
            self.manager.resize(request, request.prompt_len)
        elif request.state is LlmRequestState.CONTEXT_INIT:
            self._compute(request, loads)
            batch.reset_context_requests([*batch.context_requests, request])
        else:
            self._generate(request)
            batch.generation_requests.append(request)

    def _join(self) -> None:
        rng = self.rng
        config = KvCacheRetentionConfig(
            [TokenRangeRetention(4, rng.choice([None, 12]), 80)], decode_priority=20
        )
        first = 1000 * self.joined
        request = LlmRequest(
            self.joined,
            range(first, first + rng.randint(1, 30)),
            draft_tokens=rng.choice([None, [], [1, 2, 3]]),
            retention_config=config if rng.random() < 0.3 else None,
            cache_salt=rng.choice([None, "salt"]),
            is_dummy_request=rng.random() < 0.2,
        )
        self.live[self.joined] = request
        self.joined += 1
        self.manager.resize(request, request.prompt_len)

    def _compute(self, request: LlmRequest, loads: AsyncRequests) -> None:
        rng = self.rng
        if rng.random() < 0.2:
            matched = rng.randint(1, 4)
            for arm in self.arms:
                arm.record_new_matched_tokens(request, matched)
        if rng.random() < 0.2:
            loads.loading[request.request_id] = request
        request.context_chunk_size = rng.randint(1, 16)
        self.manager.update_history(request, request.context_current_position)

    def _generate(self, request: LlmRequest) -> None:
        rng = self.rng
        length = request.get_num_tokens(0)
        if rng.random() < 0.1 and length > 1:
            cut(request, max(1, length - rng.randint(1, 9)))
        extend(request, *(rng.randrange(1000) for _ in range(rng.randint(0, 4))))
        length = request.get_num_tokens(0)
        self.manager.update_history(request, length - 1)
        self.manager.resize(request, length + rng.randint(0, 3))

    def _forget(self, request: LlmRequest) -> None:
        for arm in self.arms:
            arm.reset_request(request.request_id)
        self.manager.free_resources(request)
        self.marks.pop(request.request_id, None)

    def _check(self, data: RequestData) -> None:
        """Check that what passes the marks was reported, once, and nothing else."""
        request = self.live[data.request_id]
        tokens = request.get_tokens(0)
        if isinstance(self.manager, KVCacheManager):
            lists, deltas = [self.manager.get_cache_indices(request)], [data.new_block_ids]
        else:
            lists = self.manager.get_page_indices_by_layer_group(request)
            deltas = data.new_block_ids_by_layer_group
        old_tokens, old_blocks = self.marks.get(data.request_id, (0, 0))
        assert data.new_tokens == tokens[old_tokens:]
        assert deltas == [blocks[old_blocks:] for blocks in lists]
        self.marks[data.request_id] = (
            max(old_tokens, len(tokens)),
            max(old_blocks, len(lists[0])),
        )


@pytest.mark.parametrize("create", RUN_MANAGERS.values(), ids=list(RUN_MANAGERS))
@given(rng=st.randoms(use_true_random=False), iterations=st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_the_arms_agree(create: Callable[[], Manager], rng: random.Random, iterations: int):
    run = Run(create(), rng)
    for _ in range(iterations):
        run.step()


@pytest.mark.parametrize("create", RUN_MANAGERS.values(), ids=list(RUN_MANAGERS))
def test_the_arms_agree_in_a_long_run(create: Callable[[], Manager]):
    run = Run(create(), random.Random(11))
    for _ in range(600):
        run.step()
    assert run.joined > 50
