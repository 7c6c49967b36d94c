"""Deliberately wrong arms: what the verification must catch.

Each is an arm of ``connector/`` with a small piece of its source replaced, so that the mistake
itself is all there is to read.
"""

import importlib
import importlib.util
import inspect
import types
from dataclasses import dataclass


@dataclass(frozen=True)
class WrongArm:
    """A mistake.

    Attributes:
        module: the arm that it is made in.
        old: source that stands in that module exactly once.
        new: what stands there instead.
    """

    module: str
    old: str
    new: str

    def load(self) -> types.ModuleType:
        """Return the module with the mistake, apart from the one without."""
        right = importlib.import_module(self.module)
        source = inspect.getsource(right)
        if source.count(self.old) != 1:
            raise ValueError(f"stands {source.count(self.old)} times in {self.module}: {self.old}")
        wrong = types.ModuleType(f"{self.module}_wrong")
        wrong.__package__ = right.__package__
        code = compile(source.replace(self.old, self.new), f"<wrong {self.module}>", "exec")
        exec(code, wrong.__dict__)  # noqa: S102
        return wrong


_INCREMENTAL = "connector.incremental"

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
}


def create(name: str, attention_dp: bool) -> object:
    """Return a fresh wrong arm."""
    wrong = WRONG_ARMS[name].load()
    return wrong.KvCacheConnectorSchedulerOutputManager(
        enable_attention_dp=attention_dp, attention_dp_rank=3
    )
