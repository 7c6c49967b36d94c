"""Several copies of a package in one process."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from subjects.own.copies import Copies, Copy
from tests.own_project import write

NAME = "stepbench_copied"


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[tuple[Copies, Copy, Copy]]:
    """Two copies of a package that say which they are, and what of others is found."""
    for name in ("one", "two"):
        write(
            tmp_path / name,
            {
                f"{NAME}/__init__.py": "from .word import WORD\n",
                f"{NAME}/word.py": f"WORD = {name!r}\n",
                f"{NAME}/late.py": "from .word import WORD\n",
                f"{NAME}/users.py": (
                    "import importlib\n"
                    f"def absolute():\n    import {NAME}.late\n    return {NAME}.late.WORD\n"
                    "def relative():\n    from . import late\n    return late.WORD\n"
                    "def by_name():\n"
                    f"    return importlib.import_module('{NAME}.late').WORD\n"
                ),
            },
        )
    write(tmp_path / "two", {f"{NAME}/new.py": ""})
    write(tmp_path / "shared", {"stepbench_helper.py": f"import {NAME}\nWORD = {NAME}.WORD\n"})
    meta_path = list(sys.meta_path)
    found = Copies([NAME], [str(tmp_path / "shared")])
    both = tuple(Copy(found, name, [str(tmp_path / name)]) for name in ("one", "two"))
    yield found, *both
    found.activate(None)
    sys.meta_path[:] = meta_path


def test_each_copy_has_modules_of_its_own(copies: tuple[Copies, Copy, Copy]):
    _, one, two = copies
    one.activate()
    first = importlib.import_module(NAME)
    two.activate()
    second = importlib.import_module(NAME)

    assert (first.WORD, second.WORD) == ("one", "two")
    one.activate()
    assert importlib.import_module(NAME) is first
    assert sys.modules[f"{NAME}.word"].WORD == "one"


@pytest.mark.parametrize("way", ["absolute", "relative", "by_name"])
def test_what_is_imported_within_a_function_is_the_copys_own(
    copies: tuple[Copies, Copy, Copy], way: str
):
    words = []
    functions = []
    for copy in copies[1:]:
        copy.activate()
        functions.append(getattr(importlib.import_module(f"{NAME}.users"), way))
    for copy, function in zip(copies[1:], functions, strict=True):
        copy.activate()
        words.append(function())

    assert words == ["one", "two"]


def test_what_lies_beside_the_file_is_each_copys_own_as_well(copies: tuple[Copies, Copy, Copy]):
    words = []
    for copy in copies[1:]:
        copy.activate()
        words.append(importlib.import_module("stepbench_helper").WORD)

    assert words == ["one", "two"]


def test_what_a_copy_lacks_is_not_another_ones(copies: tuple[Copies, Copy, Copy]):
    _, one, two = copies
    two.activate()
    importlib.import_module(f"{NAME}.new")
    one.activate()

    with pytest.raises(ModuleNotFoundError, match=f"No module named '{NAME}.new' in one"):
        importlib.import_module(f"{NAME}.new")


def test_what_others_imported_under_the_name_is_back_where_no_copy_is_active(
    copies: tuple[Copies, Copy, Copy], monkeypatch: pytest.MonkeyPatch
):
    mark = type(sys)(NAME)
    monkeypatch.setitem(sys.modules, NAME, mark)
    found, one, _ = copies
    one.activate()
    assert importlib.import_module(NAME).WORD == "one"

    found.activate(None)

    assert sys.modules[NAME] is mark
    assert f"{NAME}.word" not in sys.modules


def test_the_standard_library_and_what_is_installed_is_shared(copies: tuple[Copies, Copy, Copy]):
    found = []
    for copy in copies[1:]:
        copy.activate()
        found.append((importlib.import_module("json"), importlib.import_module("click")))

    assert found[0] == found[1]
