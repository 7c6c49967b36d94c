"""Connector modules as checkouts have them, small and written for the tests."""

# Where they are in a checkout: now, and in older trees.
PLACE = "tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py"
OLD_PLACE = "tensorrt_llm/_torch/pyexecutor/connector.py"

AFTER = """\
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Dict, List, Optional

import torch

from tensorrt_llm._utils import mpi_broadcast, mpi_rank
from tensorrt_llm.bindings import LlmRequestState
from tensorrt_llm.bindings.internal.batch_manager import KvCacheConnectorManager as Native
from tensorrt_llm.bindings.internal.batch_manager import LlmRequest
from tensorrt_llm.llmapi.llm_args import TorchLlmArgs
from tensorrt_llm.logger import logger

from ..llm_request import get_draft_token_length
from ..scheduler import ScheduledRequests

if TYPE_CHECKING:
    from ..resource_manager import KVCacheManager
    from .kv_cache_layout import KvCacheLayout


@dataclass
class RequestData:
    request_id: int
    new_tokens: List[int]
    new_block_ids: List[int]
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: List[int] = field(default_factory=list)
    priorities: Optional[List[int]] = None
    cache_salt: Optional[str] = None
    new_block_ids_by_layer_group: List[List[int]] = field(default_factory=list)


@dataclass
class SchedulerOutput:
    new_requests: List[RequestData] = field(default_factory=list)
    cached_requests: List[RequestData] = field(default_factory=list)
    attention_dp_rank: Optional[int] = None


class Worker(ABC):
    def __init__(self, llm_args: TorchLlmArgs, requests: Dict[int, LlmRequest]) -> None:
        self.requests = requests

    @abstractmethod
    def load(self, tensor: torch.Tensor, stream: torch.cuda.Stream) -> Callable[[], Native]: ...


class Leader(Native):
    def __init__(self) -> None:
        super().__init__()
        self.rank = mpi_rank


class KvCacheConnectorSchedulerOutputRequest:
    def __init__(self) -> None:
        self.tokens, self.blocks = [], []
        self.groups = defaultdict(list)

    def update_and_build_data(self, req: LlmRequest, manager: "KVCacheManager") -> RequestData:
        from ..kv_cache.kv_cache_manager_v2 import KVCacheManagerV2

        v2 = isinstance(manager, KVCacheManagerV2)
        length = req.get_num_tokens(0)
        tokens = req.get_tokens_range(0, len(self.tokens), length)
        self.tokens += tokens
        hashes, groups = [], []
        if v2:
            for number, pages in enumerate(manager.get_page_indices_by_layer_group(req)):
                groups.append(pages[len(self.groups[number]):])
                self.groups[number] += groups[-1]
            blocks = groups[0] if len(groups) == 1 else []
        else:
            blocks = manager.get_cache_indices(req)[len(self.blocks):]
            hashes = manager.commit_and_get_block_hashes(req)
        self.blocks += blocks
        position, scheduled = length - 1, 1 + get_draft_token_length(req)
        if req.state in (
            LlmRequestState.CONTEXT_INIT, LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS
        ):
            position = req.context_current_position
            scheduled = min(req.context_remaining_length, req.context_chunk_size)
        priorities = None
        if req.kv_cache_retention_config is not None:
            if v2:
                logger.warning_once("no priorities in V2", key="tests-of-checkouts")
            else:
                priorities = [manager.get_priority_by_block_id(block) for block in blocks]
        return RequestData(
            req.request_id, tokens, blocks, position, scheduled, hashes, priorities,
            req.cache_salt, groups,
        )


class KvCacheConnectorSchedulerOutputManager:
    def __init__(self, *, enable_attention_dp: bool = False) -> None:
        self.enable_attention_dp = enable_attention_dp
        self.requests = defaultdict(KvCacheConnectorSchedulerOutputRequest)
        self.external_loads = {}

    def build_scheduler_output(
        self, scheduled_batch: ScheduledRequests, new_async_requests, kv_cache_manager
    ) -> SchedulerOutput:
        output = SchedulerOutput()
        for req in scheduled_batch.context_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            if req.request_id in new_async_requests.loading_ids:
                continue
            known = req.request_id in self.requests
            data = self.requests[req.request_id].update_and_build_data(req, kv_cache_manager)
            data.computed_position -= self.external_loads.get(req.request_id, 0)
            (output.cached_requests if known else output.new_requests).append(data)
        for req in scheduled_batch.generation_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            data = self.requests[req.request_id].update_and_build_data(req, kv_cache_manager)
            output.cached_requests.append(data)
        self.external_loads = {}
        return output

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        self.external_loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        self.requests.pop(request_id, None)
        self.external_loads.pop(request_id, None)
"""


def changed(text: str, *pairs: tuple[str, str]) -> str:
    """Return a text with pieces replaced that each stand in it once."""
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"stands {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return text


# Before the change: the whole sequence at every call.
BEFORE = changed(
    AFTER,
    (
        "        length = req.get_num_tokens(0)\n"
        "        tokens = req.get_tokens_range(0, len(self.tokens), length)\n",
        "        every = req.get_tokens(0)\n"
        "        length, tokens = len(every), every[len(self.tokens):]\n",
    ),
)

# A mistake: what was scheduled for drafts is forgotten.
WRONG = changed(AFTER, ("1 + get_draft_token_length(req)", "1"))

# An older tree: V1 alone, nobody loads or resets, and the per-request part in the call itself.
OLD = """\
from dataclasses import dataclass, field
from typing import List, Optional

from tensorrt_llm.bindings import LlmRequestState
from tensorrt_llm.bindings.internal.batch_manager import LlmRequest

from .llm_request import get_draft_token_length


@dataclass
class RequestData:
    request_id: int
    new_tokens: List[int]
    new_block_ids: List[int]
    computed_position: int
    num_scheduled_tokens: int


@dataclass
class SchedulerOutput:
    new_requests: List[RequestData] = field(default_factory=list)
    cached_requests: List[RequestData] = field(default_factory=list)


class KvCacheConnectorSchedulerOutputManager:
    def __init__(self):
        self.seen = {}

    def build_scheduler_output(self, scheduled_batch, kv_cache_manager):
        output = SchedulerOutput()
        for req in scheduled_batch.context_requests:
            known = req.request_id in self.seen
            (output.cached_requests if known else output.new_requests).append(
                self.data_of(req, kv_cache_manager)
            )
        for req in scheduled_batch.generation_requests:
            output.cached_requests.append(self.data_of(req, kv_cache_manager))
        return output

    def data_of(self, req: LlmRequest, kv_cache_manager):
        tokens, blocks = req.get_tokens(0), kv_cache_manager.get_cache_indices(req)
        old_tokens, old_blocks = self.seen.get(req.request_id, (0, 0))
        self.seen[req.request_id] = max(len(tokens), old_tokens), max(len(blocks), old_blocks)
        position, scheduled = len(tokens) - 1, 1 + get_draft_token_length(req)
        if req.state in (
            LlmRequestState.CONTEXT_INIT, LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS
        ):
            position = req.context_current_position
            scheduled = min(req.context_remaining_length, req.context_chunk_size)
        return RequestData(
            req.request_id, tokens[old_tokens:], blocks[old_blocks:], position, scheduled
        )
"""

# A fork: token by token, pages and hashes at block boundaries alone, and no shrink allowed.
FORK = changed(
    AFTER,
    (
        "        tokens = req.get_tokens_range(0, len(self.tokens), length)\n",
        "        if length < len(self.tokens):\n"
        "            raise AssertionError(f'{len(self.tokens)} tokens became {length}')\n"
        "        tokens = [req.get_token(0, at) for at in range(len(self.tokens), length)]\n"
        "        size = manager.tokens_per_block\n"
        "        begin = (len(self.tokens) + size - 1) // size\n"
        "        crossed = not self.tokens or (length + size - 1) // size > begin\n",
    ),
    (
        "        hashes, groups = [], []\n        if v2:\n",
        (
            "        hashes, groups, blocks = None, [], []\n"
            "        if not crossed:\n"
            "            pass\n"
            "        elif v2:\n"
        ),
    ),
)
