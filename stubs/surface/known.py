"""What an engine's module path provides, under whatever path the engine has had it.

Classes that an arm tells apart by type have to be one class, wherever they are imported from.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Self

from connector import data, interfaces

from ..batch import AsyncRequests, ScheduledRequests
from .logger import Logger, logger
from .not_provided import NotProvidedError

ENGINE = "tensorrt_llm"
_BAD_PAGE_INDEX = -1


class _Nominal(abc.ABC):  # noqa: B024 - what it asks for is a name, and no methods
    """A class that the stand-ins of every provider belong to by their name, and nothing makes."""

    # What counts the calls of such a stand-in, or what else belongs here.
    also: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *_arguments: object, **_named: object) -> Self:
        """Refuse to make one; what a module derives from it, it may make."""
        if _Nominal in cls.__bases__:
            raise NotProvidedError(cls.__name__)
        return super().__new__(cls)

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        """Return whether a class is a stand-in for this one; else Python decides."""
        names = {cls.__name__, *cls.also}
        found = any(
            base.__name__ in names and base.__module__.partition(".")[0] in _STAND_INS
            for base in other.__mro__
        )
        return found or NotImplemented


_STAND_INS = ("stubs", "stepbench_native")


class LlmRequest(_Nominal):
    """The request, of whatever provider."""

    also = ("CountingRequest",)


class KvCacheRetentionConfig(_Nominal):
    """How long blocks should stay, of whatever provider."""


class KVCacheManager(_Nominal):
    """The V1 manager, of whatever provider."""

    also = ("CountingManagerV1",)


class BaseResourceManager(_Nominal):
    """What both managers are."""

    also = ("KVCacheManager", "KVCacheManagerV2", "CountingManager", "MappingManagerV2")


class KvCacheConnectorManager:
    """The native base class of the connector's manager; takes no arguments, as upstream's."""


KNOWN: Mapping[str, object] = MappingProxyType(
    {
        "AsyncRequests": AsyncRequests,
        "BaseResourceManager": BaseResourceManager,
        "BAD_PAGE_INDEX": _BAD_PAGE_INDEX,
        "KVCacheManager": KVCacheManager,
        "KVCacheManagerV2": interfaces.KVCacheManagerV2,
        "KvCacheConnectorManager": KvCacheConnectorManager,
        "KvCacheConnectorManagerCpp": KvCacheConnectorManager,
        "KvCacheRetentionConfig": KvCacheRetentionConfig,
        "LlmRequest": LlmRequest,
        "LlmRequestState": interfaces.LlmRequestState,
        "Logger": Logger,
        "RequestData": data.RequestData,
        "ScheduledRequests": ScheduledRequests,
        "SchedulerOutput": data.SchedulerOutput,
        "get_draft_token_length": interfaces.get_draft_token_length,
        "get_logger": lambda *_name: logger,
        "init_logger": lambda *_name: logger,
        "logger": logger,
    }
)
