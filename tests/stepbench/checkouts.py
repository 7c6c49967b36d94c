"""Git repositories shaped like a checkout of the engine, with connector modules made for tests."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

BASE, WORK = "trtllm:engine@base", "trtllm:engine"
PLACE = "tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py"
OLDER_PLACE = "tensorrt_llm/_torch/pyexecutor/connector.py"

_BEFORE = """\
        tokens = req.get_tokens(0)
        length, new_tokens = len(tokens), tokens[self.tokens :]
"""
_AFTER = """\
        length = req.get_num_tokens(0)
        new_tokens = req.get_tokens_range(0, self.tokens, length)
"""

# As small as a module can be that reports all that the engine's does.
AFTER = """\
from collections import defaultdict
from dataclasses import dataclass, field

import torch

from tensorrt_llm._utils import mpi_rank
from tensorrt_llm.bindings import LlmRequestState
from tensorrt_llm.bindings.internal.batch_manager import LlmRequest

from ..llm_request import get_draft_token_length

CONTEXT = (LlmRequestState.CONTEXT_INIT, LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS)


@dataclass
class RequestData:
    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int]
    computed_position: int
    num_scheduled_tokens: int
    block_hashes: list[int] = field(default_factory=list)
    priorities: list[int] | None = None
    cache_salt: str | None = None
    new_block_ids_by_layer_group: list[list[int]] = field(default_factory=list)


@dataclass
class SchedulerOutput:
    new_requests: list[RequestData] = field(default_factory=list)
    cached_requests: list[RequestData] = field(default_factory=list)
    attention_dp_rank: int | None = None


class Seen:
    def __init__(self):
        self.tokens = 0
        self.pages = defaultdict(int)

    def report(self, req: LlmRequest, manager) -> RequestData:
        from ..kv_cache.kv_cache_manager_v2 import KVCacheManagerV2

        is_v2 = isinstance(manager, KVCacheManagerV2)
        groups, hashes = [], []
        if is_v2:
            lists = manager.get_page_indices_by_layer_group(req)
        else:
            lists = [manager.get_cache_indices(req)]
            hashes = manager.commit_and_get_block_hashes(req)
        for index, pages in enumerate(lists):
            groups.append(pages[self.pages[index] :])
            self.pages[index] += len(groups[-1])
        pages = groups[0] if len(groups) == 1 else []
        length = req.get_num_tokens(0)
        new_tokens = req.get_tokens_range(0, self.tokens, length)
        self.tokens += len(new_tokens)
        if req.state in CONTEXT:
            position = req.context_current_position
            scheduled = min(req.context_remaining_length, req.context_chunk_size)
        else:
            position, scheduled = length - 1, 1 + get_draft_token_length(req)
        priorities = None
        if req.kv_cache_retention_config is not None and not is_v2:
            priorities = [manager.get_priority_by_block_id(page) for page in pages]
        return RequestData(
            *(req.request_id, new_tokens, pages, position, scheduled, hashes, priorities),
            *(req.cache_salt, groups if is_v2 else []),
        )


class KvCacheConnectorSchedulerOutputManager:
    def __init__(self, *, enable_attention_dp: bool = False) -> None:
        self.enable_attention_dp = enable_attention_dp
        self.requests, self.loads = {}, {}

    def build_scheduler_output(self, batch, new_async_requests, manager) -> SchedulerOutput:
        output = SchedulerOutput()
        for req in batch.context_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            if req.request_id in new_async_requests.loading_ids:
                continue
            is_new = req.request_id not in self.requests
            data = self.requests.setdefault(req.request_id, Seen()).report(req, manager)
            data.computed_position -= self.loads.get(req.request_id, 0)
            (output.new_requests if is_new else output.cached_requests).append(data)
        for req in batch.generation_requests:
            if self.enable_attention_dp and req.is_dummy_request:
                continue
            data = self.requests.setdefault(req.request_id, Seen()).report(req, manager)
            output.cached_requests.append(data)
        self.loads = {}
        return output

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        self.loads[request.request_id] = num_new_matched_tokens

    def reset_request(self, request_id: int) -> None:
        self.requests.pop(request_id, None)
        self.loads.pop(request_id, None)

    def device(self) -> torch.device:
        return torch.device(mpi_rank())
"""


def changed(text: str, old: str, new: str) -> str:
    """The text with its one ``old`` replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)


BEFORE = changed(AFTER, _AFTER, _BEFORE)
# The line with which a report begins.
NEW_OUTPUT = "        output = SchedulerOutput()\n"
# A draft token is no longer scheduled.
DIFFERS = changed(AFTER, "1 + get_draft_token_length(req)", "1")
# A message in it that would end a cell of a table, were it shown in one.
RAISES = changed(
    AFTER,
    "            position, scheduled = length",
    "            if self.tokens > 1:\n"
    "                raise IndexError('past | the end')\n"
    "            position, scheduled = length",
)

# Before there were layer groups, loads that a build is told of, or anything to reset.
OLDER = """\
from dataclasses import dataclass, field

from tensorrt_llm.bindings.internal.batch_manager import LlmRequest


@dataclass
class RequestData:
    request_id: int
    new_tokens: list[int]
    new_block_ids: list[int]


@dataclass
class SchedulerOutput:
    new_requests: list[RequestData] = field(default_factory=list)
    cached_requests: list[RequestData] = field(default_factory=list)


class KvCacheConnectorSchedulerOutputManager:
    def __init__(self):
        self.seen = {}

    def build_scheduler_output(self, batch, manager):
        output = SchedulerOutput()
        for req in batch.context_requests + batch.generation_requests:
            is_new = req.request_id not in self.seen
            tokens, pages = self.seen.setdefault(req.request_id, (0, 0))
            new_tokens = req.get_tokens(0)[tokens:]
            new_pages = manager.get_cache_indices(req)[pages:]
            self.seen[req.request_id] = (tokens + len(new_tokens), pages + len(new_pages))
            data = RequestData(req.request_id, new_tokens, new_pages)
            (output.new_requests if is_new else output.cached_requests).append(data)
        return output

    def record_new_matched_tokens(self, request: LlmRequest, num_tokens: int):
        pass
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def line_of(text: str, words: str, times: int = 1) -> int:
    """The number of the line in which these words stand for the n-th time."""
    lines = enumerate(text.splitlines(), start=1)
    return [number for number, line in lines if words in line][times - 1]


class Checkout:
    """A repository whose tag ``base`` is the module before the change, and HEAD that after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent.parent))
        self.folder = folder
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch", "main")
        self.base = self.commit(BEFORE)
        git(folder, "tag", "base")
        self.head = self.commit(AFTER)
        # Looks changed until it is read.
        os.utime(folder / PLACE, (1_000_000_000, 1_000_000_000))

    def write(self, text: str, place: str = PLACE) -> None:
        file = self.folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self, text: str, place: str = PLACE) -> str:
        self.write(text, place)
        git(self.folder, "add", ".")
        git(self.folder, "commit", "--quiet", "--no-gpg-sign", "-m", "Change it")
        return git(self.folder, "rev-parse", "HEAD")

    def commit_older(self) -> str:
        """Commit the module of an older revision, where it was then."""
        (self.folder / PLACE).unlink()
        return self.commit(OLDER, OLDER_PLACE)

    def state(self) -> tuple[str, str, dict[str, bytes]]:
        """All that a command must leave as it is."""
        # Not so much as what a mere look brings up to date.
        files = {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        status = git(self.folder, "--no-optional-locks", "status", "--porcelain")
        return status, git(self.folder, "worktree", "list"), files


def from_base(checkout: Checkout) -> str:
    """Where ``BASE`` is from, as below tables."""
    return f"`{BASE}`: commit {checkout.base}, sha256 {_digest(BEFORE)}"


def from_work_tree(checkout: Checkout, state: str, text: str) -> str:
    """Where ``WORK`` is from, if the module is in this state."""
    where = f"work tree of commit {checkout.head}, the module {state}"
    return f"`{WORK}`: {where}, sha256 {_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
