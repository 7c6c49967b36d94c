"""What is found in the module of an arm."""

import json
from pathlib import Path

import pytest

from harness.arms.inspection import Answer, inspect_arm
from harness.arms.loading import Need
from harness.arms.sources import ArmSource, find_source
from reports.kinds.inspection import render_json, render_text
from stepbench_core.errors import InputError

from ..connectors import AFTER, FORK, OLD, changed

CLASS = "KvCacheConnectorSchedulerOutputManager"
REQUEST = "KvCacheConnectorSchedulerOutputRequest"
PACKAGE = "stubs.surface.tensorrt_llm._torch.pyexecutor"
PROVIDED, NO_OP, PLACEHOLDER = Answer.PROVIDED, Answer.NO_OP, Answer.PLACEHOLDER
TYPES_ONLY = Answer.TYPES_ONLY


def source(text: str, package: str = f"{PACKAGE}.connectors") -> ArmSource:
    return ArmSource("file:x.py", "x", "x.py", text, package, "a file by itself")


def test_what_a_module_imports_and_what_it_was_given():
    found = inspect_arm(source(AFTER))

    assert found.imports == (
        ("torch", 6, PLACEHOLDER),
        ("tensorrt_llm._utils.mpi_broadcast", 8, PLACEHOLDER),
        ("tensorrt_llm._utils.mpi_rank", 8, PLACEHOLDER),
        ("tensorrt_llm.bindings.LlmRequestState", 9, PROVIDED),
        ("tensorrt_llm.bindings.internal.batch_manager.KvCacheConnectorManager", 10, PROVIDED),
        ("tensorrt_llm.bindings.internal.batch_manager.LlmRequest", 11, PROVIDED),
        ("tensorrt_llm.llmapi.llm_args.TorchLlmArgs", 12, PLACEHOLDER),
        ("tensorrt_llm.logger.logger", 13, PROVIDED),
        ("..llm_request.get_draft_token_length", 15, PROVIDED),
        ("..scheduler.ScheduledRequests", 16, PROVIDED),
        ("..resource_manager.KVCacheManager", 19, TYPES_ONLY),
        (".kv_cache_layout.KvCacheLayout", 20, TYPES_ONLY),
        ("..kv_cache.kv_cache_manager_v2.KVCacheManagerV2", 63, PROVIDED),
    )


@pytest.mark.parametrize(
    ("line", "name", "answer"),
    [
        ("import tensorrt_llm.logger", "tensorrt_llm.logger", PROVIDED),
        ("from tensorrt_llm import logger", "tensorrt_llm.logger", PROVIDED),
        ("from tensorrt_llm.logger import *", "tensorrt_llm.logger.*", PROVIDED),
        ("from .. import llm_request", "..llm_request", PROVIDED),
        ("from . import kv_cache_layout", ".kv_cache_layout", PLACEHOLDER),
        ("from nvtx import *", "nvtx.*", NO_OP),
        ("import nvtx.colors", "nvtx.colors", NO_OP),
        ("import nvtx.colors\nfrom nvtx import colors", "nvtx.colors", NO_OP),
        ("def f():\n    import nvtx", "nvtx", NO_OP),
        ("import tensorrt_llm.bindings.internal", "tensorrt_llm.bindings.internal", PROVIDED),
        (
            "from tensorrt_llm.bindings import DataType",
            "tensorrt_llm.bindings.DataType",
            PLACEHOLDER,
        ),
    ],
)
def test_each_way_to_import_has_its_answer(line: str, name: str, answer: Answer):
    found = inspect_arm(
        source(f"{line}\nclass {CLASS}:\n    def build_scheduler_output(s, a, b): ...")
    )

    assert {(name, answer)} == {(one, own) for one, _, own in found.imports}


def test_the_entry_points_of_a_module_with_their_signatures():
    assert inspect_arm(source(AFTER)).entry_points == {
        CLASS: "(*, enable_attention_dp=False)",
        f"{CLASS}.build_scheduler_output": (
            "(self, scheduled_batch, new_async_requests, kv_cache_manager)"
        ),
        f"{CLASS}.record_new_matched_tokens": "(self, request, num_new_matched_tokens)",
        f"{CLASS}.reset_request": "(self, request_id)",
        REQUEST: "()",
    }
    assert inspect_arm(source(AFTER)).lacks == ()


def test_what_an_older_module_does_not_have():
    found = inspect_arm(source(OLD, PACKAGE))

    assert found.entry_points == {
        CLASS: "()",
        f"{CLASS}.build_scheduler_output": "(self, scheduled_batch, kv_cache_manager)",
        f"{CLASS}.record_new_matched_tokens": None,
        f"{CLASS}.reset_request": None,
        REQUEST: None,
    }
    assert found.lacks == (
        *(Need.ATTENTION_DP, Need.LOADS, Need.MATCHED_TOKENS),
        *(Need.RESET, Need.LAYER_GROUPS, Need.V2),
    )


@pytest.mark.parametrize(
    ("old", "new", "lacks"),
    [
        ("    def reset_request(", "    def forget_request(", (Need.RESET,)),
        ("    def record_new_matched_tokens(", "    def note(", (Need.MATCHED_TOKENS,)),
        ("new_async_requests, kv_cache_manager\n", "kv_cache_manager\n", (Need.LOADS,)),
        ("new_async_requests, kv_cache_manager\n", "loads, kv_cache_manager, more=1\n", ()),
        (
            "(self, *, enable_attention_dp: bool = False) -> None:",
            "(self, enable_attention_dp=False):",
            (),
        ),
        (
            "(self, *, enable_attention_dp: bool = False) -> None:\n",
            "(self):\n        enable_attention_dp = False\n",
            (Need.ATTENTION_DP,),
        ),
        ("manager.get_page_indices_by_layer_group(req)", "[[]]", (Need.V2,)),
        (
            "    new_block_ids_by_layer_group: List[List[int]] = field(default_factory=list)\n",
            "    groups: List[List[int]] = field(default_factory=list)\n",
            (Need.LAYER_GROUPS,),
        ),
    ],
)
def test_each_thing_that_a_module_may_lack(old: str, new: str, lacks: tuple[Need, ...]):
    assert inspect_arm(source(changed(AFTER, (old, new)))).lacks == lacks


def test_a_call_that_is_no_function_is_missing():
    text = changed(FORK, ("    def reset_request(", "    reset_request = 7\n\n    def other("))

    found = inspect_arm(source(text))
    assert found.entry_points[f"{CLASS}.reset_request"] is None
    assert found.lacks == (Need.RESET,)


def test_an_arm_of_this_project_imports_nothing_that_had_to_be_provided():
    found = inspect_arm(find_source("incremental"))

    assert found.imports == ()
    assert found.lacks == ()
    assert found.entry_points[f"{CLASS}.reset_request"] == "(self, request_id)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import torch\n", f"has no class {CLASS}"),
        ("class (:\n", "cannot be imported: SyntaxError: "),
        (f"class {CLASS}:\n    def __init__(self, size): ...\n", "cannot be made: TypeError: "),
        (f"class {CLASS}: ...\n", "has no method build_scheduler_output"),
    ],
)
def test_what_is_no_arm_is_bad_input(text: str, why: str):
    with pytest.raises(InputError) as caught:
        inspect_arm(source(text))
    assert str(caught.value).startswith(f"file:x.py: {why}")


def test_what_was_found_as_text_and_as_json(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(OLD)
    arm = find_source(f"file:{path}")
    found = inspect_arm(arm)

    assert (
        render_text(arm, found)
        == f"""\
file:{path}
  from {path}
  a file by itself
  sha256 {arm.digest}

Imports, provided:
  tensorrt_llm.bindings.LlmRequestState (line 4)
  tensorrt_llm.bindings.internal.batch_manager.LlmRequest (line 5)
  .llm_request.get_draft_token_length (line 7)

Found:
  {CLASS}()
  {CLASS}.build_scheduler_output(self, scheduled_batch, kv_cache_manager)
  {CLASS}.record_new_matched_tokens: missing
  {CLASS}.reset_request: missing
  {REQUEST}: missing

Lacks: attention data parallelism, knowledge of requests being loaded, record_new_matched_tokens, \
reset_request, several layer groups, the V2 KV cache manager.
"""
    )
    document = json.loads(render_json(arm, found))
    assert document["imports"][2] == {
        "name": ".llm_request.get_draft_token_length",
        "line": 7,
        "answer": "provided",
    }
    assert document["entry_points"] == found.entry_points
    assert document["lacks"][0] == "attention data parallelism"
    assert [document[key] for key in ("arm", "file", "origin", "sha256")] == [
        *(f"file:{path}", str(path), "a file by itself", arm.digest),
    ]
