"""Deliberately wrong arms: what the verification must catch.

Each is an arm of ``connector/`` with a small piece of its source replaced, so that the mistake
itself is all there is to read.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from dataclasses import dataclass, replace
from typing import cast

from harness.arms.loading import CLASS
from harness.arms.registry import SchedulerOutputManager, rank


@dataclass(frozen=True)
class WrongArm:
    """A mistake, and what makes the arm with it. Can be sent to another process.

    Attributes:
        module: the arm that it is made in.
        old: source that stands in that module exactly once.
        new: what stands there instead.
        more: further pairs of the same.
    """

    module: str
    old: str
    new: str
    more: tuple[tuple[str, str], ...] = ()

    def then(self, old: str, new: str) -> WrongArm:
        """Return the mistake with one more piece replaced."""
        return replace(self, more=(*self.more, (old, new)))

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        """Return an instance that has seen no request."""
        made = getattr(self.load(), CLASS)
        manager = made(enable_attention_dp=attention_dp, attention_dp_rank=rank(attention_dp))
        return cast(SchedulerOutputManager, manager)

    @functools.cache  # noqa: B019 - there are as many as stand below
    def load(self) -> types.ModuleType:
        """Return the module with the mistake, apart from the one without."""
        right = importlib.import_module(self.module)
        source = inspect.getsource(right)
        for old, new in ((self.old, self.new), *self.more):
            if source.count(old) != 1:
                raise ValueError(f"stands {source.count(old)} times in {self.module}: {old}")
            source = source.replace(old, new)
        wrong = types.ModuleType(f"{self.module}_wrong")
        wrong.__package__ = right.__package__
        exec(compile(source, f"<wrong {self.module}>", "exec"), wrong.__dict__)  # noqa: S102
        return wrong


_INCREMENTAL = "connector.incremental"
_NEW_OUTPUT = (
    "        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)\n"
)

WRONG_ARMS = {
    "count lowered on a shrink": WrongArm(
        _INCREMENTAL,
        "        self.tokens.extend(new_tokens)\n",
        "        self.tokens.extend(new_tokens)\n        del self.tokens[num_tokens:]\n",
    ),
    "length from the kept list": WrongArm(
        _INCREMENTAL,
        "            computed_position = num_tokens - 1\n",
        "            computed_position = len(self.tokens) - 1\n",
    ),
    "base off by one at a block boundary": WrongArm(
        _INCREMENTAL,
        "req.get_tokens_range(0, len(self.tokens), num_tokens)\n",
        "req.get_tokens_range(\n"
        "            0,\n"
        "            len(self.tokens)\n"
        "            + (num_tokens > len(self.tokens) > 0\n"
        "               and len(self.tokens) % kv_cache_manager.tokens_per_block == 0),\n"
        "            num_tokens,\n"
        "        )\n",
    ),
    "pages read every tokens_per_block iterations": WrongArm(
        "connector.page_growth",
        "        seen, grew = self.num_blocks, num_blocks > self.num_blocks\n",
        "        seen, grew = self.num_blocks, (\n"
        "            num_tokens % kv_cache_manager.tokens_per_block == 1 or self.num_tokens == 0\n"
        "        )\n",
    ),
    "mask applied to new pages relative to their begin": WrongArm(
        _INCREMENTAL,
        "            for seen, indices in zip(",
        "            page_indices = [\n"
        "                indices[: len(seen)]\n"
        "                + [-1] * min(indices.count(-1), len(indices) - len(seen))\n"
        "                + indices[len(seen) + indices.count(-1) :]\n"
        "                for seen, indices in zip(\n"
        "                    self.block_ids_by_layer_group, page_indices, strict=True\n"
        "                )\n"
        "            ]\n"
        "            for seen, indices in zip(",
    ),
    "state kept after reset_request": WrongArm(
        _INCREMENTAL, "        self.requests.pop(request_id, None)\n", ""
    ),
    "aliased lists": WrongArm(
        _INCREMENTAL,
        "        self.tokens.extend(new_tokens)\n",
        "        if self.tokens:\n"
        "            self.tokens.extend(new_tokens)\n"
        "        else:\n"
        "            self.tokens = new_tokens\n",
    ),
    "external load applied twice": WrongArm(
        _INCREMENTAL,
        "data.computed_position -= self.external_loads[req.request_id]",
        "data.computed_position -= 2 * self.external_loads[req.request_id]",
    ),
    "draft length ignored": WrongArm(_INCREMENTAL, "1 + get_draft_token_length(req)", "1"),
    "priorities for all blocks": WrongArm(
        _INCREMENTAL,
        "                    for block_id in new_block_ids\n",
        "                    for block_id in block_ids\n",
    ),
    "block hashes of new blocks only": WrongArm(
        _INCREMENTAL,
        "            new_block_ids = block_ids[len(self.block_ids) :]\n",
        "            block_hashes = block_hashes[len(self.block_ids) :]\n"
        "            new_block_ids = block_ids[len(self.block_ids) :]\n",
    ),
    "external loads kept after the report": WrongArm(
        _INCREMENTAL, "        self.external_loads = {}\n        return", "        return"
    ),
    "request being loaded is reported": WrongArm(
        _INCREMENTAL, "req.request_id in new_async_requests.loading_ids", "False"
    ),
    "dummies reported under attention DP": WrongArm(
        "connector.page_range",
        "            if skip_dummies and req.is_dummy_request:\n",
        "            if False:\n",
    ),
    "transfer taken for generation": WrongArm(
        _INCREMENTAL, "            LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS,\n", ""
    ),
    "new whenever the prompt starts": WrongArm(
        _INCREMENTAL,
        "is_new = req.request_id not in self.requests",
        "is_new = req.context_current_position == 0",
    ),
    "hash chain that only ever grows": WrongArm(
        "connector.page_range",
        "        hashes[valid:] = new_hashes\n",
        "        hashes += new_hashes\n",
    ),
    "hash chain handed out and written on": WrongArm(
        "connector.page_range", "            hashes.copy(),\n", "            hashes,\n"
    ),
    "hash chain written in place": WrongArm(
        _INCREMENTAL,
        "            block_hashes = kv_cache_manager.commit_and_get_block_hashes(req)\n",
        "            block_hashes = self.__dict__.setdefault('hashes', [])\n"
        "            block_hashes[:] = kv_cache_manager.commit_and_get_block_hashes(req)\n",
    ),
    "output used again": WrongArm(
        _INCREMENTAL,
        _NEW_OUTPUT,
        "        scheduler_output = self.__dict__.setdefault(\n"
        "            'output', SchedulerOutput(attention_dp_rank=self.attention_dp_rank)\n"
        "        )\n"
        "        scheduler_output.new_requests.clear()\n"
        "        scheduler_output.cached_requests.clear()\n",
    ),
    "list of new requests used again": WrongArm(
        _INCREMENTAL,
        _NEW_OUTPUT,
        f"{_NEW_OUTPUT}"
        "        scheduler_output.new_requests = self.__dict__.setdefault('new', [])\n"
        "        scheduler_output.new_requests.clear()\n",
    ),
    "request data used again": WrongArm(
        _INCREMENTAL,
        "        return RequestData(\n            req.request_id,\n",
        "        data = self.__dict__.setdefault('data', RequestData.__new__(RequestData))\n"
        "        data.__init__(\n            req.request_id,\n",
    ).then(
        "            new_block_ids_by_layer_group=new_block_ids_by_layer_group,\n        )\n",
        "            new_block_ids_by_layer_group=new_block_ids_by_layer_group,\n        )\n"
        "        return data\n",
    ),
    "one list for the hashes of all requests": WrongArm(
        _INCREMENTAL,
        "            block_hashes=block_hashes,\n",
        "            block_hashes=block_hashes or self.__class__.__dict__['no_hashes'],\n",
    ).then(
        "    def update_and_build_data(\n",
        "    no_hashes: list[int] = []\n\n    def update_and_build_data(\n",
    ),
    "record kept after reset_request": WrongArm(
        _INCREMENTAL, "        self.external_loads.pop(request_id, None)\n", ""
    ),
    "reset_request put off to the end of the report": WrongArm(
        _INCREMENTAL,
        "        self.requests.pop(request_id, None)\n",
        "        self.__dict__.setdefault('resets', []).append(request_id)\n",
    ).then(
        "        self.external_loads = {}\n        return",
        "        for request_id in self.__dict__.pop('resets', []):\n"
        "            self.requests.pop(request_id, None)\n"
        "        self.external_loads = {}\n        return",
    ),
    "records added up": WrongArm(
        _INCREMENTAL,
        "        self.external_loads[request.request_id] = num_new_matched_tokens\n",
        "        before = self.external_loads.get(request.request_id, 0)\n"
        "        self.external_loads[request.request_id] = before + num_new_matched_tokens\n",
    ),
    "first record kept": WrongArm(
        _INCREMENTAL,
        "        self.external_loads[request.request_id] = num_new_matched_tokens\n",
        "        self.external_loads.setdefault(request.request_id, num_new_matched_tokens)\n",
    ),
    "record for new requests alone": WrongArm(
        _INCREMENTAL,
        "            if req.request_id in self.external_loads:\n",
        "            if is_new and req.request_id in self.external_loads:\n",
    ),
}
