"""What a source would miss, before it runs."""

import pytest

from harness.arms.foresight import foresee
from harness.arms.handed_over import reads_mapping
from harness.arms.sources import ArmSource

from ..connectors import AFTER, FORK, OLD, changed

PACKAGE = "stubs.surface.tensorrt_llm._torch.pyexecutor.connectors"
BODY = "        length = req.get_num_tokens(0)\n"


def missing(text: str, package: str = PACKAGE) -> dict[str, tuple[int, ...]]:
    return foresee(ArmSource("file:x.py", "x", "x.py", text, package))[0]


@pytest.mark.parametrize("text", [AFTER, FORK, OLD])
def test_what_runs_here_misses_nothing(text: str):
    assert missing(text) == {}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("torch.zeros(torch.int8)", ["torch.zeros", "torch.int8"]),
        ("x = [r.py_id for r in manager.batch]", ["KVCacheManager.batch"]),
        ("again = req\n        again.is_child", ["LlmRequest.is_child"]),
        ("helper(req)", ["LlmRequest.py_lora"]),
        ("isinstance(req, torch.Tensor)", []),
        ("x: torch.Tensor = None", []),
        ("getattr(req, 'py_id', 3)", []),
        ("self.tokenz", []),
    ],
)
def test_what_the_code_uses_is_found_through_the_calls_of_the_module(code: str, names: list[str]):
    helper = "\n\ndef helper(of):\n    return of.py_lora\n\n\ndef unused(tensor):\n"
    helper += "    return torch.ones(tensor)\n"
    text = changed(AFTER, (BODY, f"        {code}\n{BODY}")) + helper

    assert list(missing(text)) == names


def test_of_an_arm_of_this_project_the_stand_ins_alone_matter():
    text = "from .data import RequestData\nclass KvCacheConnectorSchedulerOutputManager:\n"
    text += "    def build_scheduler_output(self, batch, loads, manager):\n"
    text += "        for request in batch.generation_requests[1:]:\n            request.nothing\n"

    assert missing(text, "connector") == {"LlmRequest.nothing": (5,)}


@pytest.mark.parametrize(
    ("code", "is_mapping"),
    [
        ("for g, ids in manager.get_page_indices_by_layer_group(req).items(): ...", True),
        ("pages = manager.get_page_indices_by_layer_group(req)\n    pages.values()", True),
        ("for g in (pages := m.get_page_indices_by_layer_group(r)):\n        pages[g]", True),
        ("helper(manager.get_page_indices_by_layer_group(req))", True),
        ("for g, ids in enumerate(manager.get_page_indices_by_layer_group(req)): ...", False),
        ("for ids in manager.get_page_indices_by_layer_group(req): ids[-1]", False),
        ("self.kept.items()", False),
    ],
)
def test_whether_pages_are_read_as_a_mapping(code: str, is_mapping: bool):
    helper = "def helper(by_group):\n    return dict(by_group.items())\n\n"

    assert reads_mapping(f"{helper}def f(self, manager, req):\n    {code}\n") is is_mapping


def test_what_is_no_python_reads_none():
    assert not reads_mapping("class (:\n")
