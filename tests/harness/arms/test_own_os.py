import ast
import os
import sys
from types import FunctionType

import pytest

from harness.arms.own_os import Reads, add_os, bind_os

OWN = "_stepbench_test_os"


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOO", "1")
    yield
    sys.modules.pop(OWN, None)


def run(text: str, variables: dict[str, str] | None = None, reads: Reads | None = None) -> dict:
    """The names of a module whose `os` is its own."""
    tree = ast.parse(text)
    assert bind_os(tree, OWN)
    add_os(OWN, variables or {}, reads)
    names: dict = {}
    exec(compile(tree, "a.py", "exec"), names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    "text",
    [
        "import os\nx = os.environ['FOO']",
        "import sys, os as o, re\nx = o.getenv('FOO')",
        "import os.path\nx = os.path.basename(os.environ.get('FOO'))",
        "from os import environ as e\nx = dict(e)['FOO']",
        "from os import getenvb\nx = getenvb(b'FOO').decode()",
        "def f():\n    import os\n    return os.environ['FOO']\nx = f()",
        "import importlib\nx = importlib.import_module('os').environ['FOO']",
    ],
)
def test_a_module_sees_its_own_value_and_the_process_keeps_its(text: str):
    assert run(text, {"FOO": "own"})["x"] == "own"
    assert (os.environ["FOO"], os.getenv("FOO")) == ("1", "1")


def test_but_for_the_environment_it_is_the_module_that_all_have():
    names = run("import os\nimport os.path as p\nfrom os import sep", {"FOO": "own"})

    own = names["os"]
    assert names["p"] is os.path
    assert names["sep"] == os.sep
    assert vars(own).keys() == vars(os).keys()
    assert type(own) is type(os)
    assert type(own.environ) is type(os.environ)
    differing = {name for name in vars(os) if getattr(own, name) is not getattr(os, name)}
    functions = {name for name in differing if isinstance(getattr(os, name), FunctionType)}
    assert differing - functions == {"__name__", "environ", "environb"}
    for name in functions:
        assert getattr(own, name).__code__ is getattr(os, name).__code__


def test_without_variables_it_is_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch):
    names = run("import os\nread = lambda: os.environ['FOO']\nos.environ['NEW'] = 'x'")

    monkeypatch.setenv("FOO", "2")
    assert names["read"]() == "2"
    assert os.environ.pop("NEW") == "x"


def test_reads_are_noted_with_the_value_that_was_found_first():
    reads = Reads()
    text = "from os import environ\na = environ['FOO'], 'GONE' in environ\nenviron['FOO'] = '2'"

    run(f"{text}\nenviron['MINE'] = '3'\na = environ['FOO'], environ['MINE']", reads=reads)

    assert (reads.values, reads.is_whole) == ({"FOO": "1", "GONE": None}, False)
    os.environ["FOO"] = "1"  # In the C library's view too, which the module wrote to.


def test_a_module_without_os_is_left_as_it_is():
    tree = ast.parse("import sys\nfrom . import os\nfrom .os import path\nimport osx")
    before = ast.dump(tree)

    assert not bind_os(tree, OWN)
    assert ast.dump(tree) == before
