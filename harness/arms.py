"""The arms: implementations that can take part in a measurement."""

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from connector.data import SchedulerOutput
from connector.interfaces import (
    AsyncRequests,
    KVCacheManager,
    KVCacheManagerV2,
    LlmRequest,
    ScheduledRequests,
)
from scenarios.errors import InputError, unknown

# Name -> module. The module's class KvCacheConnectorSchedulerOutputManager is the arm.
ARMS = {
    "full-copy": "connector.full_copy",
    "incremental": "connector.incremental",
}


class SchedulerOutputManager(Protocol):
    """What every arm offers, under upstream's names."""

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: KVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration."""

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note how many prompt tokens the connector will load."""

    def reset_request(self, request_id: int) -> None:
        """Forget a request."""


def check_arms(names: Sequence[str]) -> None:
    """Raise InputError unless ``names`` are one or more different arms."""
    if not names:
        raise InputError("no arm is named")
    for index, name in enumerate(names):
        if name not in ARMS:
            raise unknown("arm", name, ARMS)
        if name in names[:index]:
            raise InputError(f"arm {name!r} is named twice")


def create_arm(name: str) -> SchedulerOutputManager:
    """Return a fresh instance of an arm, which has seen no request. Raises InputError."""
    check_arms([name])
    module = importlib.import_module(ARMS[name])
    return cast(SchedulerOutputManager, module.KvCacheConnectorSchedulerOutputManager())


def describe_arm(name: str) -> str:
    """Return the first line of an arm's docstring, without the words that name it."""
    doc = importlib.import_module(ARMS[name]).__doc__ or ""
    return doc.partition("\n")[0].partition(": ")[2]
