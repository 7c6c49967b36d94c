"""The engine's side of a random run: operations applied to the stand-ins."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from connector.interfaces import LlmRequestState
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2
from stubs.providers import DEFAULT_PROVIDER, load_provider
from stubs.request import KvCacheRetentionConfig, LlmRequest, TokenRangeRetention

from .operations import FINISHED, MAX_REQUESTS, PAUSED, RESET, Operation, Setting
from .orders import Orders


class Observer(Protocol):
    """What an arm is told between reports."""

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Take in how many prompt tokens the connector will load."""

    def reset_request(self, request_id: int) -> None:
        """Take in that a request's allocation was destroyed."""


@dataclass
class _Live:
    """A request that has joined.

    Attributes:
        request: the stand-in.
        unread: tokens generated and, under overlap, not yet appended.
        scheduled: whether it is in the batch of this iteration.
        shrunk: whether its token list has got shorter, and not longer since.
    """

    request: LlmRequest
    unread: int = 0
    scheduled: bool = False
    shrunk: bool = False

    @property
    def in_context(self) -> bool:
        return self.request.state is LlmRequestState.CONTEXT_INIT


class World:
    """Requests, their pages and the batch of the current iteration.

    Args:
        setting: what stays the same.
        observers: the arms, which are told of resets and of external loads.
        provider: name of what plays the native side; the run is the same on each.

    Raises:
        ProviderError: there is no such provider, or it is absent.

    Attributes:
        manager, batch, async_requests: what an arm reads when a report is built.
        reached: how often each operation had something to act on, and each notable state arose.
    """

    def __init__(
        self, setting: Setting, observers: Sequence[Observer], provider: str = DEFAULT_PROVIDER
    ) -> None:
        self.setting = setting
        self.reached: Counter[str] = Counter()
        self.batch = ScheduledRequests()
        self.async_requests = AsyncRequests()
        self._observers = observers
        self._orders = Orders()
        self._live: dict[int, _Live] = {}
        self._used: set[int] = set()
        self._next_token = 1_000
        # Draft tokens and chunks look ahead by less than three blocks or eight tokens.
        blocks = MAX_REQUESTS * ((setting.max_context + 8) // setting.tokens_per_block + 3)
        rng = random.Random(blocks)
        self._provider = load_provider(provider)
        self.manager: KVCacheManager | KVCacheManagerV2
        if setting.manager == "v1":
            self.manager = self._provider.KVCacheManager(
                blocks, tokens_per_block=setting.tokens_per_block, rng=rng
            )
        else:
            self.manager = self._provider.KVCacheManagerV2(
                blocks,
                tokens_per_block=setting.tokens_per_block,
                layer_groups=setting.layer_groups,
                page_backend=setting.page_backend,
                rng=rng,
            )

    def apply(self, operation: Operation) -> bool:
        """Carry out an operation; return whether a report is due now."""
        if operation.name == "report":
            self._schedule()
            return True
        getattr(self, operation.name)(*operation.numbers)
        return False

    # Operations

    def join(
        self, prompt: int, cached: int, draft: int, retention: int, salt: int, dummy: int
    ) -> None:
        """Admit a request, with the lowest id that nobody has and a prefix that is cached."""
        if len(self._live) == MAX_REQUESTS:
            return
        request_id = next(n for n in range(MAX_REQUESTS) if n not in self._live)
        request = self._provider.LlmRequest(
            request_id,
            self._tokens(prompt),
            draft_tokens=list(range(draft)) if draft else None,
            retention_config=_RETENTION if retention else None,
            cache_salt="salt" if salt else None,
            is_dummy_request=bool(dummy),
        )
        self._live[request_id] = _Live(request)
        self._note("join", "id reused" if request_id in self._used else None)
        self._note("dummy" if dummy else None, "cache salt" if salt else None)
        self._note(*self._orders.joined(request_id))
        self._used.add(request_id)
        self._allocate(request)
        if 0 < cached < prompt:
            request.context_current_position = cached
            self._hold(request, cached)
            self.manager.update_history(request, cached)
            self._note("prefix cached")

    def leave(self, number: int, told: int) -> None:
        """Let a request leave; upstream's arms need not be told, and then keep its state."""
        live = self._pick(number, lambda live: not live.scheduled)
        if live is not None:
            self._leave(live, bool(told))

    def chunk(self, number: int, size: int) -> None:
        """Schedule a chunk of a prompt."""
        live = self._pick(number, lambda live: live.in_context and not live.scheduled)
        if live is None:
            return
        live.request.context_chunk_size = size
        self._hold(live.request, live.request.context_current_position + size)
        live.scheduled = True
        self._note("chunk")

    def generate(self, number: int, count: int) -> None:
        """Append what the forward before gave, 0 to 4 tokens, and schedule the next one."""
        live = self._pick(number, _waits_to_generate)
        if live is None:
            return
        request = live.request
        count, live.unread = (live.unread, count) if self.setting.overlap else (count, 0)
        count = max(0, min(count, self.setting.max_context - request.get_num_tokens(0)))
        for token in self._tokens(count):
            request.add_new_token(token, 0)
        length = request.get_num_tokens(0)
        self.manager.update_history(request, length - 1)
        self._hold(request, length + len(request.py_draft_tokens or ()))
        live.scheduled = True
        self._note("generate", f"{count} new tokens", "late token" if live.unread else None)
        if live.shrunk and count:
            self._note("regrow")
            live.shrunk = False

    def shrink(self, number: int, count: int, freed: int) -> None:
        """Drop tokens from the end of a sequence, with or without the pages that they filled."""
        live = self._pick(number, _waits_to_generate)
        if live is None:
            return
        request, state = live.request, live.request.state
        length = max(1, request.get_num_tokens(0) - count)
        request.pause(length)
        request.state = state
        request.context_current_position = length
        if freed:
            self.manager.resize(request, length)
        live.shrunk = True
        self._note("shrink", "shrink with pages" if freed else None)

    def rewind(self, number: int, count: int) -> None:
        """Free the last pages of a request, as the rejection of draft tokens does."""
        live = self._pick(number, _waits_to_generate)
        if live is not None:
            self.manager.resize(live.request, max(1, live.request.get_num_tokens(0) - count))
            self._note("rewind")

    def reset(self, number: int) -> None:
        """Destroy a request's allocation, tell the arms, and let it start over."""
        live = self._pick(number, lambda live: not live.scheduled)
        if live is not None:
            self._reset(live)

    def pause(self, number: int) -> None:
        """Destroy a request's allocation without telling the arms, and let it start over."""
        live = self._pick(number, lambda live: not live.scheduled)
        if live is not None:
            self._pause(live)

    def draft(self, number: int, count: int) -> None:
        """Give a request another number of draft tokens."""
        live = self._pick(number, lambda live: not live.scheduled)
        if live is not None:
            live.request.py_draft_tokens = list(range(count)) if count else None
            self._note("draft")

    def transfer(self, number: int, receiving: int) -> None:
        """Show a scheduled request in the middle of a transfer, for one iteration."""
        live = self._pick(number, lambda live: live.scheduled and not live.in_context)
        if live is None:
            return
        live.request.state = (
            LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS
            if receiving
            else LlmRequestState.DISAGG_CONTEXT_TRANS_IN_PROGRESS
        )
        self._note("transfer in" if receiving else "transfer out")

    def external(self, number: int, count: int) -> None:
        """Let the connector offer to load tokens of a scheduled prompt."""
        live = self._pick(number, _is_prompt)
        if live is not None:
            self._record(live, count, loaded=False)
            self._note("external")

    def load(self, number: int, count: int | None = None) -> None:
        """Let the connector load tokens of a scheduled prompt aside: the report skips it.

        Without a count the arms are not told, as before there was such a call.
        """
        live = self._pick(number, _is_prompt)
        if live is None:
            return
        self.async_requests.loading[live.request.request_id] = live.request
        if count is not None:
            self._record(live, count, loaded=True)
        self._note("load")

    def readmit(self, number: int, size: int) -> None:
        """Reset a scheduled prompt, and admit and schedule it again in the same iteration."""
        live = self._pick(number, _is_prompt)
        if live is not None:
            self._reset(live)
            live.request.context_chunk_size = size
            self._hold(live.request, size)
            self._note("readmit")

    def withdraw(self, number: int, how: int) -> None:
        """Take a prompt out of the batch for good: reset, paused, gone and told, or gone untold."""
        live = self._pick(number, _is_prompt)
        if live is None:
            return
        live.scheduled = False
        if how == RESET:
            self._reset(live)
        elif how == PAUSED:
            self._pause(live)
        else:
            self._leave(live, told=how == FINISHED)
        self._note("withdraw")

    def trim(self, number: int, whole: int) -> None:
        """Take a prompt out of the scheduled batch, or halve its chunk."""
        live = self._pick(number, _is_prompt)
        if live is None:
            return
        if whole:
            live.scheduled = False
        else:
            live.request.context_chunk_size = (live.request.context_chunk_size + 1) // 2
        self._note("trim whole" if whole else "trim chunk")

    # Iterations

    def finish_iteration(self) -> None:
        """Account for the forward after a report."""
        for live in self._live.values():
            request = live.request
            loading = request.request_id in self.async_requests.loading
            if live.scheduled and live.in_context and not loading:
                request.move_to_next_context_chunk()
                self.manager.update_history(request, request.context_current_position)
                if request.context_remaining_length == 0:
                    request.state = LlmRequestState.GENERATION_IN_PROGRESS
                    live.unread = 1
            elif not live.in_context:
                request.state = LlmRequestState.GENERATION_IN_PROGRESS
            live.scheduled = False
        self.async_requests = AsyncRequests()

    def _schedule(self) -> None:
        scheduled = [live for live in self._live.values() if live.scheduled]
        self.batch = ScheduledRequests(
            generation_requests=[live.request for live in scheduled if not live.in_context]
        )
        self.batch.reset_context_requests(live.request for live in scheduled if live.in_context)
        loading = self.async_requests.loading
        reported = {
            live.request.request_id
            for live in scheduled
            if not (live.in_context and live.request.request_id in loading)
            and not (self.setting.attention_dp and live.request.is_dummy_request)
        }
        self._note(*self._orders.reported(reported, loading))

    def _pick(self, number: int, suits: Callable[[_Live], bool]) -> _Live | None:
        suiting = [live for live in self._live.values() if suits(live)]
        return suiting[number % len(suiting)] if suiting else None

    def _record(self, live: _Live, count: int, *, loaded: bool) -> None:
        for observer in self._observers:
            observer.record_new_matched_tokens(live.request, count)
        self._note(*self._orders.recorded(live.request.request_id, loaded=loaded))

    def _reset(self, live: _Live) -> None:
        self._start_over(live)
        self._tell_reset(live.request.request_id)
        self._note("reset", *self._orders.reset(live.request.request_id))

    def _pause(self, live: _Live) -> None:
        self._start_over(live)
        self._note("pause", *self._orders.paused(live.request.request_id))

    def _leave(self, live: _Live, told: bool) -> None:
        request_id = live.request.request_id
        self.manager.free_resources(live.request)
        del self._live[request_id]
        if told:
            self._tell_reset(request_id)
        self._note("leave told" if told else "leave untold")
        self._note(*self._orders.left(request_id, told=told))

    def _start_over(self, live: _Live) -> None:
        self.manager.free_resources(live.request)
        live.request.pause(live.request.get_num_tokens(0))
        live.unread = 0
        self._allocate(live.request)

    def _allocate(self, request: LlmRequest) -> None:
        """Admit a request to the manager: V1 allocates its whole prompt, V2 chunk by chunk."""
        self.manager.resize(request, request.prompt_len if self.setting.manager == "v1" else 0)

    def _hold(self, request: LlmRequest, capacity: int) -> None:
        """Hold blocks for at least ``capacity`` tokens of what V1 has allocated already."""
        if self.setting.manager == "v1":
            capacity = max(capacity, request.prompt_len)
        self.manager.resize(request, capacity)

    def _tell_reset(self, request_id: int) -> None:
        for observer in self._observers:
            observer.reset_request(request_id)

    def _tokens(self, count: int) -> range:
        """Return tokens that no other sequence has, so that a mixed-up one shows."""
        self._next_token += count
        return range(self._next_token - count, self._next_token)

    def _note(self, *names: str | None) -> None:
        self.reached.update(name for name in names if name is not None)


def _waits_to_generate(live: _Live) -> bool:
    return not live.in_context and not live.scheduled


def _is_prompt(live: _Live) -> bool:
    """Return whether a prompt is scheduled that is no dummy: those only pad a batch."""
    return live.in_context and live.scheduled and not live.request.is_dummy_request


_RETENTION = KvCacheRetentionConfig(
    [TokenRangeRetention(0, 4, 80), TokenRangeRetention(4, None, 20)], decode_priority=50
)
