"""Which imports of a source come from the surface, and what stays as it is."""

import importlib
import sys
from typing import Any

import pytest

from harness.arms.linking import Import, belongs_to_engine, find_imports, is_linked, link
from stubs.surface.placeholders import is_placeholder


def run(text: str, package: str = "stubs.surface.tensorrt_llm._torch.pyexecutor") -> dict[str, Any]:
    """Run a linked source in a package of the surface, and return its names."""
    names: dict[str, Any] = {"__package__": package, "__name__": "_stepbench_test_linked"}
    exec(compile(link(text, "somewhere/a.py"), "somewhere/a.py", "exec"), names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import os, sys.path\nfrom collections.abc import Set\nimport json as j\n", []),
        ("from __future__ import annotations\n", []),
        ("import torch\n", [Import("torch", "", 1)]),
        (
            "import torch, os, torch.cuda as c\n",
            [Import("torch", "", 1), Import("torch.cuda", "", 1, alias="c")],
        ),
        (
            "from tensorrt_llm.logger import (logger,\n  Logger as L)\n",
            [
                Import("tensorrt_llm.logger", "logger", 1),
                Import("tensorrt_llm.logger", "Logger", 1, alias="L"),
            ],
        ),
        ("from nvtx import *\n", [Import("nvtx", "*", 1)]),
        (
            "from . import a\nfrom .b import c\nfrom .. import d\nfrom ...e import f\n",
            [
                Import(".", "a", 1),
                Import(".b", "c", 2),
                Import("..", "d", 3),
                Import("...e", "f", 4),
            ],
        ),
        # Wherever it stands, in the order of the lines, each name once.
        (
            "def f():\n    import z\n\ntry:\n    import y\n"
            "except ImportError:\n    import z\nimport x\n",
            [
                Import("z", "", 2, is_linked=False),
                Import("y", "", 5, is_linked=False),
                Import("x", "", 8),
            ],
        ),
        (
            "class A:\n    from x import y\n\nasync def f():\n    import z\n",
            [Import("x", "y", 2), Import("z", "", 5, is_linked=False)],
        ),
        (
            "if TYPE_CHECKING:\n    import x\nelse:\n    import y\n",
            [Import("x", "", 2, types_only=True), Import("y", "", 4)],
        ),
        (
            "if typing.TYPE_CHECKING:\n    if a:\n        import x\n",
            [Import("x", "", 3, types_only=True)],
        ),
        ("if not TYPE_CHECKING:\n    import x\n", [Import("x", "", 2)]),
        ("if TYPE_CHECKING or a:\n    import x\n", [Import("x", "", 2)]),
        # Needed when it runs, whatever stands further up.
        (
            "if TYPE_CHECKING:\n    import x\ndef f():\n    import x\n",
            [Import("x", "", 4, is_linked=False)],
        ),
        ("import x\nif TYPE_CHECKING:\n    import x\n", [Import("x", "", 1)]),
        ("# import x\n'import y'\n", []),
    ],
)
def test_what_a_source_imports_that_is_not_real(text: str, imports: list[Import]):
    assert find_imports(text) == imports


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Import("torch.cuda", "", 1), "torch.cuda"),
        (Import("tensorrt_llm.logger", "logger", 1), "tensorrt_llm.logger.logger"),
        (Import("..llm_request", "LlmRequest", 1), "..llm_request.LlmRequest"),
        (Import(".", "a", 1), ".a"),
        (Import("...", "a", 1), "...a"),
        (Import("nvtx", "*", 1), "nvtx.*"),
    ],
)
def test_an_import_in_words_is_its_dotted_name(one: Import, words: str):
    assert str(one) == words


@pytest.mark.parametrize(
    ("text", "belongs"),
    [
        ("from tensorrt_llm.bindings import LlmRequestState\n", True),
        ("def f():\n    import tensorrt_llm\n", True),
        ("from ..llm_request import get_draft_token_length\n", True),
        ("from .data import RequestData\nimport torch\n", False),
        ("import tensorrt_llm_tools\n", False),
        ("", False),
        ("class (:\n", False),
        ("\0", False),
    ],
)
def test_a_source_belongs_to_the_engine_if_it_imports_from_it(text: str, belongs: bool):
    assert belongs_to_engine(text) is belongs


@pytest.mark.parametrize(
    ("module", "needed", "linked"),
    [
        *[("os", True, False), ("collections.abc", True, False), ("__future__", True, False)],
        # As the user of the code has it.
        *[("numpy", True, False), ("numpy.linalg", True, False), ("pytest", True, False)],
        *[("no_such_module", True, True), ("no_such_module", False, False)],
        # Installed or not: nothing here has a GPU, or is an engine.
        *[("torch", True, True), ("torch.cuda", False, True), ("tensorrt_llm", False, True)],
        # Ours is none of a checkout's.
        ("scenarios", False, True),
    ],
)
def test_what_comes_from_the_surface(module: str, needed: bool, linked: bool):
    assert is_linked(module, is_needed=needed) is linked


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nfound = torch.cuda.Stream\n",
        "import torch.cuda\nfound = torch.cuda.Stream\n",
        "import torch.cuda as c\nfound = c.Stream\n",
        "import os, torch.cuda as c, sys\nfound = c.Stream\nassert os.sep and sys.path\n",
        "from torch import cuda\nfound = cuda.Stream\n",
        "from torch.cuda import Stream as found\n",
        "def f():\n    from torch.cuda import Stream\n    return Stream\nfound = f()\n",
        "def f():\n    import torch.cuda\n    return torch.cuda.Stream\nfound = f()\n",
        "class A:\n    import torch\n    found = torch.cuda.Stream\nfound = A.found\n",
        "try:\n    from torch.cuda import Stream as found\nexcept ImportError:\n    found = None\n",
        "def f():\n    global torch\n    import torch\nf()\nfound = torch.cuda.Stream\n",
    ],
)
def test_however_it_is_imported_it_comes_from_the_surface(text: str):
    found = run(text)["found"]

    assert is_placeholder(found)
    assert found.__qualname__ == "torch.cuda.Stream"
    assert "torch" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        "import tensorrt_llm.logger\nfound = tensorrt_llm.logger\n",
        "import tensorrt_llm\nfound = tensorrt_llm.logger\n",
        "from tensorrt_llm import logger as found\n",
        "from tensorrt_llm import *\nfound = logger\n",
        "from tensorrt_llm.logger import logger as found\n",
        "from tensorrt_llm.logger import *\nfound = logger\n",
        "from ...logger import logger as found\n",
        "from ... import logger as found\n",
    ],
)
def test_the_logger_is_found_as_the_engine_has_it(text: str):
    from stubs.surface.tensorrt_llm.logger import logger

    assert run(text)["found"] is logger
    assert "tensorrt_llm" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        "from .llm_request import get_draft_token_length as found\n",
        "from . import llm_request\nfound = llm_request.get_draft_token_length\n",
        "import tensorrt_llm\n"
        "found = tensorrt_llm._torch.pyexecutor.llm_request.get_draft_token_length\n",
        "import tensorrt_llm._torch.pyexecutor.llm_request as module\n"
        "found = module.get_draft_token_length\n",
    ],
)
def test_a_module_of_the_surface_is_found_under_its_package(
    text: str, monkeypatch: pytest.MonkeyPatch
):
    # As if nobody had imported it yet.
    package = importlib.import_module("stubs.surface.tensorrt_llm._torch.pyexecutor")
    monkeypatch.delitem(sys.modules, f"{package.__name__}.llm_request", raising=False)
    monkeypatch.delattr(package, "llm_request", raising=False)
    found = run(text)["found"]

    assert not is_placeholder(found)
    assert (found.__module__, found.__name__) == ("connector.interfaces", "get_draft_token_length")


def test_what_is_real_is_the_real_one():
    import collections

    import numpy

    names = run("import numpy as np, collections.abc\nfrom numpy import int32\n")

    assert names["np"] is numpy
    assert names["int32"] is numpy.int32
    assert names["collections"] is collections


def test_lines_and_names_of_a_source_stay_as_they_are():
    names = run("import torch\n\n\ndef f():\n    import torch.y\n    raise KeyError\n")
    code = names["f"].__code__

    assert (code.co_filename, code.co_firstlineno) == ("somewhere/a.py", 4)
    with pytest.raises(KeyError) as caught:
        names["f"]()
    assert caught.traceback[-1].lineno == 5  # From 0.


def test_a_source_is_compiled_as_it_stands():
    # Not with the __future__ of the module that compiles it, and with its own.
    own = "class A:\n    size: int = 1\n"

    assert run(own)["A"].__annotations__ == {"size": int}
    future = "'''What it is.'''\nfrom __future__ import annotations\nimport torch\n"
    names = run(future + own)
    assert names["A"].__annotations__ == {"size": "int"}
    assert names["__doc__"] == "What it is."


@pytest.mark.parametrize("text", ["class (:\n", "return 1\n"])
def test_what_is_no_python_is_not_linked(text: str):
    with pytest.raises(SyntaxError) as caught:
        compile(link(text, "somewhere/a.py"), "somewhere/a.py", "exec")
    assert caught.value.filename == "somewhere/a.py"
