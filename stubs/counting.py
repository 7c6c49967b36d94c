"""Counting wrappers: the stand-ins' interface, with every crossing into the native side counted.

They stand in for the batch, its requests and the KV cache manager in a pass of its own that nobody
times. An arm cannot tell them from what they wrap; what the stand-ins do among themselves is not
counted.
"""

from __future__ import annotations

import enum
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from connector import interfaces
from connector.data import RequestData

from .batch import AsyncRequests, ScheduledRequests
from .kv_cache_v1 import KVCacheManager
from .kv_cache_v2 import KVCacheManagerV2
from .request import LlmRequest

# Code of the stand-ins that the engine has in Python as well; all else in them plays native code.
ENGINE_PYTHON = (
    "KVCacheManager.commit_and_get_block_hashes",
    "KVCacheManagerV2.get_page_indices_by_layer_group",
    "MappingManagerV2.get_page_indices_by_layer_group",
    "KvCache.get_aggregated_page_indices.<locals>.<genexpr>",
    "engine_stale_range",
)

# What the numbers in the value of a native call are, by the call's name. The batch calls return
# parallel lists; those that are no more than bookkeeping (lengths, valid hashes) are not named.
_TOKENS, _PAGES, _HASHES, _PRIORITIES = "tokens", "page_indices", "hashes", "priorities"
MARSHALLED = (_TOKENS, _PAGES, _HASHES, _PRIORITIES)
_VALUES: dict[str, str] = {
    "get_token": _TOKENS,
    "get_tokens": _TOKENS,
    "get_tokens_range": _TOKENS,
    "get_page_indices_by_layer_group": _PAGES,
    "get_page_indices_range": _PAGES,
    "get_cache_indices": _PAGES,
    "get_cache_indices_range": _PAGES,
    "commit_and_get_block_hashes": _HASHES,
    "get_block_hashes_after": _HASHES,
    "get_priority_by_block_id": _PRIORITIES,
}
_BATCH_VALUES = {
    "v1": (None, _TOKENS, _PAGES, None, _HASHES),
    "v2": (None, _TOKENS, _PAGES),
}


class Crossings:
    """What crossed into Python.

    Attributes:
        calls: how often each native method was called and each native attribute read, by name; a
            method's ends in ``()``.
        marshalled: how many tokens, page indices, hashes and priorities were handed over.
        arguments: numbers handed to native calls, alone or in lists.
        objects: Python objects that were built for it: containers, numbers and by-value copies.
            Numbers that CPython shares, the small ones, are counted as well.
        kept: lists and data of requests among them, kept alive so that they can be told from others
            by identity.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.marshalled: Counter[str] = Counter(dict.fromkeys(MARSHALLED, 0))
        self.arguments = 0
        self.objects = 0
        self.kept: list[Any] = []

    def called(self, name: str, kind: str | None, value: Any) -> None:  # noqa: ANN401
        """Take in a native call.

        Args:
            name: the call.
            kind: ``v1`` or ``v2`` for a manager's; None for a request's.
            value: what it returned.
        """
        self._count(f"{name}()")
        self._built(value)
        if name == "get_batch_updates" and kind is not None:
            for what, part in zip(_BATCH_VALUES[kind], value, strict=True):
                if what is not None:
                    self.marshalled[what] += _numbers(part)
        elif name == "get_block_hashes_after":
            self.marshalled[_HASHES] += _numbers(value[1])
        elif name in _VALUES:
            self.marshalled[_VALUES[name]] += _numbers(value)

    def read(self, name: str, value: object) -> None:
        """Take in the read of a native attribute."""
        self._count(name)
        self._built(value)

    def built_data(
        self,
        kind: str | None,
        value: tuple[list[RequestData], list[RequestData], bool],
        reports: CountingReports,
    ) -> None:
        """Take in a native call that has built the data of a batch.

        Args:
            kind: ``v1`` or ``v2``.
            value: what it returned.
            reports: what it was told of earlier reports.
        """
        self._count("build_request_data()")
        *both, _ignored = value
        self.objects += 1 + len(both)
        self.kept += both
        for data in itertools.chain(*both):
            groups = data.new_block_ids_by_layer_group
            # By identity: the list of a single layer group stands in two places.
            lists = [data.new_tokens, data.new_block_ids, groups, *groups]
            lists += [] if data.priorities is None else [data.priorities]
            distinct = {id(each): each for each in lists}
            # The numbers of a chain are built once, whatever lists they stand in.
            before = reports.chains.get(data.request_id, [])
            hashes = len(data.block_hashes) - sum(map(operator.is_, data.block_hashes, before))
            reports.chains[data.request_id] = data.block_hashes
            # Itself, its lists, its three numbers, and what stands in the lists.
            self.objects += 2 + len(distinct) + 3 + hashes
            self.objects += sum(map(_numbers_in, distinct.values()))
            self.kept += [data, data.block_hashes, *distinct.values()]
            self.marshalled[_TOKENS] += len(data.new_tokens)
            self.marshalled[_PAGES] += _numbers(groups if kind == "v2" else data.new_block_ids)
            self.marshalled[_HASHES] += hashes
            self.marshalled[_PRIORITIES] += len(data.priorities or ())

    def _count(self, name: str) -> None:
        # With += a Counter runs Python code for a name that is missing, which counted as the arm's.
        self.calls[name] = self.calls.get(name, 0) + 1

    def _built(self, value: object) -> None:
        if isinstance(value, list | tuple):
            self.objects += 1
            if isinstance(value, list):
                self.kept.append(value)
            if value and isinstance(value[0], int) and not isinstance(value, tuple):
                self.objects += len(value)
            else:
                for item in value:
                    self._built(item)
        elif value is not None and not isinstance(value, bool | enum.Enum):
            self.objects += 1


class CountingRequest:
    """A request whose calls and native attributes are counted.

    Args:
        request: the request.
        crossings: where to count.
    """

    # Python attributes of upstream's class: reading one crosses nothing.
    _PYTHON = frozenset({"py_draft_tokens", "cache_salt"})

    def __init__(self, request: interfaces.LlmRequest, crossings: Crossings) -> None:
        self._request = request
        self._crossings = crossings

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        value = getattr(self._request, name)
        if callable(value):
            return _counted(name, None, value, self._crossings)
        if name not in self._PYTHON:
            self._crossings.read(name, value)
        return value


class CountingReports:
    """What of each request was reported, as an arm holds it.

    Args:
        reports: the native side's.

    Attributes:
        chains: the hash chain that each request was reported with last, by its id.
    """

    def __init__(self, reports: interfaces.ReportedRequests) -> None:
        self._reports = reports
        self.chains: dict[int, list[int]] = {}

    def forget(self, request_id: int) -> None:
        """Forget a request."""
        self.chains.pop(request_id, None)
        self._reports.forget(request_id)


class CountingManager:
    """What the counting wrappers of both managers have in common.

    Args:
        manager: the manager.
        crossings: where to count.
        kind: ``v1`` or ``v2``.
    """

    # Python attributes of upstream's classes, as of the request's.
    _PYTHON = frozenset({"tokens_per_block"})

    def __init__(
        self, manager: KVCacheManager | KVCacheManagerV2, crossings: Crossings, kind: str
    ) -> None:
        self._manager = manager
        self._crossings = crossings
        self._kind = kind

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        # Not __getattr__: the V2 wrapper inherits from the interface, whose methods would be found.
        if name.startswith("_"):
            return super().__getattribute__(name)
        crossings: Crossings = super().__getattribute__("_crossings")
        value = getattr(self._manager, name)
        if callable(value):
            return _counted(name, self._kind, value, crossings)
        if name not in self._PYTHON:
            crossings.read(name, value)
        return value


class CountingManagerV1(CountingManager):
    """A V1 manager."""


class CountingManagerV2(CountingManager, interfaces.KVCacheManagerV2):
    """A V2 manager, to be told from V1 by ``isinstance``."""


class CountingBatch:
    """A batch whose lists hold counting requests.

    Args:
        batch: the batch.
        crossings: where to count.
    """

    def __init__(self, batch: ScheduledRequests, crossings: Crossings) -> None:
        self._crossings = crossings
        self.context_requests_chunking = _wrap(batch.context_requests_chunking, crossings)
        self.context_requests_last_chunk = _wrap(batch.context_requests_last_chunk, crossings)
        self.generation_requests = _wrap(batch.generation_requests, crossings)
        self.paused_requests = _wrap(batch.paused_requests, crossings)

    @property
    def context_requests(self) -> list[CountingRequest]:
        """Chunking requests, then those in their last chunk: a new list at every access."""
        self._crossings.objects += 1
        return self.context_requests_chunking + self.context_requests_last_chunk


class CountingAsyncRequests:
    """Asynchronous requests whose sets of ids are counted when they are built.

    Args:
        requests: the asynchronous requests.
        crossings: where to count.
    """

    def __init__(self, requests: AsyncRequests, crossings: Crossings) -> None:
        self._requests = requests
        self._crossings = crossings
        self.saving = requests.saving
        self.loading = requests.loading

    @property
    def saving_ids(self) -> set[int]:
        """Ids of the requests being saved: a new set at every access."""
        self._crossings.objects += 1
        return self._requests.saving_ids

    @property
    def loading_ids(self) -> set[int]:
        """Ids of the requests being loaded: a new set at every access."""
        self._crossings.objects += 1
        return self._requests.loading_ids


def counting_manager(
    manager: KVCacheManager | KVCacheManagerV2, crossings: Crossings
) -> CountingManager:
    """Return the counting wrapper of a manager, which is of V2's kind if the manager is."""
    if isinstance(manager, interfaces.KVCacheManagerV2):
        return CountingManagerV2(manager, crossings, "v2")
    return CountingManagerV1(manager, crossings, "v1")


def _wrap(requests: Iterable[LlmRequest], crossings: Crossings) -> list[CountingRequest]:
    return [CountingRequest(request, crossings) for request in requests]


def _counted(
    name: str, kind: str | None, call: Callable[..., Any], crossings: Crossings
) -> Callable[..., Any]:
    def counted(*arguments: object, **named: object) -> Any:  # noqa: ANN401
        value = call(
            *map(_unwrapped, arguments), **{key: _unwrapped(item) for key, item in named.items()}
        )
        given = (*arguments, *named.values())
        crossings.arguments += sum(map(_numbers_in, given))
        reports = next((one for one in given if isinstance(one, CountingReports)), None)
        if reports is not None:
            crossings.built_data(kind, value, reports)
        else:
            crossings.called(name, kind, value)
        return CountingReports(value) if name == "create_reported_requests" else value

    return counted


def _unwrapped(argument: object) -> object:
    """Return what a wrapper wraps, also inside a list, so that what is within is not counted."""
    if isinstance(argument, CountingRequest):
        return argument._request
    if isinstance(argument, CountingReports):
        return argument._reports
    if isinstance(argument, list | tuple) and argument:
        return [_unwrapped(item) for item in argument]
    return argument


def _numbers_in(argument: object) -> int:
    """Return how many numbers an argument of a native call holds."""
    if isinstance(argument, dict):
        return sum(map(_numbers_in, (*argument, *argument.values())))
    if isinstance(argument, list | tuple):
        return sum(map(_is_number, argument))
    return _is_number(argument)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _numbers(value: object) -> int:
    """Return how many numbers a value holds, in lists of whatever depth."""
    if isinstance(value, list):
        if value and not isinstance(value[0], list):
            return len(value)
        return sum(map(_numbers, value))
    return 1
