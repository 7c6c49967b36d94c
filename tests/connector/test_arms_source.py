"""The two arms differ in the token copy and in nothing else."""

import ast
import difflib
import inspect
import textwrap

import pytest

from .driving import ARMS


def code_lines(name: str) -> list[str]:
    """Return an arm's code as Python understands it: no comments, and no module docstring."""
    tree = ast.parse(inspect.getsource(ARMS[name]))
    assert ast.get_docstring(tree)
    del tree.body[0]
    return ast.unparse(tree).splitlines()


def test_the_statements_that_fetch_tokens_are_all_that_differs():
    difference = list(difflib.ndiff(code_lines("full-copy"), code_lines("incremental")))
    only = {mark: [line[2:].strip() for line in difference if line[0] == mark] for mark in "-+"}
    assert only["-"] == [
        "tokens = req.get_tokens(0)",
        "num_tokens = len(tokens)",
        "new_tokens = tokens[len(self.tokens):]",
    ]
    assert only["+"] == [
        "num_tokens = req.get_num_tokens(0)",
        "new_tokens = req.get_tokens_range(0, len(self.tokens), num_tokens)",
    ]


@pytest.mark.parametrize("name", ARMS)
def test_the_import_at_every_call_is_kept(name: str):
    method = ARMS[name].KvCacheConnectorSchedulerOutputRequest.update_and_build_data
    function = ast.parse(textwrap.dedent(inspect.getsource(method)))
    imports = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == ["from .interfaces import KVCacheManagerV2"]


@pytest.mark.parametrize("name", ARMS)
def test_each_arm_is_named_by_its_docstring(name: str):
    assert (ARMS[name].__doc__ or "").startswith(f"Arm ``{name}``: ")
