"""Sources as Python takes them, from files and out of git, through the commands."""

import sys
from pathlib import Path

import pytest

from ..harness.connectors import AFTER
from .checkouts import Checkout, git
from .conftest import Run, assert_refused

CAFE = f'# coding: latin-1\nNAME = "caf\u00e9"\nassert len(NAME) == 4\n{AFTER}'
TAKEN = {
    "a byte order mark": b"\xef\xbb\xbf" + AFTER.encode(),
    "an encoding cookie": CAFE.encode("latin-1"),
    "carriage returns and line feeds": AFTER.replace("\n", "\r\n").encode(),
    "carriage returns": AFTER.replace("\n", "\r").encode(),
    "form feeds, and no end of the last line": AFTER.replace("\n\n\n", "\n\x0c\n\n").encode()[:-1],
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_python_takes_is_taken(run_here: Run, tmp_path: Path, name: str):
    (tmp_path / "arm.py").write_bytes(TAKEN[name])

    ran = run_here("verify", "file:arm.py", "--runs", "2", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Same: `file:arm.py` ")


def test_so_it_is_out_of_git(run_here: Run, checkout: Checkout):
    place = checkout.folder / "tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py"
    for data in (TAKEN["an encoding cookie"], TAKEN["a byte order mark"]):
        place.write_bytes(data)
        git(checkout.folder, "commit", "--quiet", "--no-gpg-sign", "-am", "Save it so")

    ran = run_here("verify", "trtllm:engine@HEAD~1", "--against", "trtllm:engine@HEAD", "--runs=1")

    assert (ran.code, ran.out[:6]) == (0, "Same: ")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = 1\n# caf\xe9\n", "it is not text in utf-8 (line 2); name its encoding in line 1"),
        (b"# coding: no-such\n", "it is not Python source: unknown encoding: no-such"),
        (b"x = 1\ny = '\0'\n", "it is not Python source: a null byte in line 2"),
        (AFTER.encode("utf-16"), "it is not text in utf-8 (line 1)"),
    ],
)
def test_what_python_does_not_take_is_bad_input(
    run_here: Run, tmp_path: Path, data: bytes, words: str
):
    (tmp_path / "arm.py").write_bytes(data)

    assert_refused(run_here("verify", "file:arm.py", "-q"), f"arm.py: {words}")


@pytest.mark.parametrize(
    ("code", "version", "what"),
    [
        ("type Ids = list[int]\n", (3, 12), "a type statement in line {}"),
        ("def first[T](every: list[T]) -> T: ...\n", (3, 12), "type parameters in line {}"),
        ('x = f"{chr(1).join(["a"])}"\n', (3, 12), "an f-string with its own quotes in braces in"),
        ("class Kept[T = int]: ...\n", (3, 13), "a default of a type parameter in line {}"),
        ("try: ...\nexcept KeyError, OSError: ...\n", (3, 14), "several exceptions without paren"),
        ('x = t"{1}"\n', (3, 14), "a template string in line {}"),
        ("from typing import override\n", (3, 12), "it imports typing.override in line {}"),
        (
            "def f(x: Later): ...\nclass Later: ...\n",
            (3, 14),
            "an annotation in line {} names Later",
        ),
    ],
)
def test_a_newer_python_is_asked_for(
    run_here: Run, tmp_path: Path, code: str, version: tuple[int, int], what: str
):
    if sys.version_info >= version:
        pytest.skip("this Python takes it")
    (tmp_path / "arm.py").write_text(AFTER + code)

    ran = run_here("verify", "file:arm.py", "-q")

    line = AFTER.count("\n") + 1
    assert_refused(ran, f"this needs Python {version[0]}.{version[1]}: {what.format(line)}")
    assert ran.err.endswith(f"; this is Python {sys.version_info[0]}.{sys.version_info[1]}\n")


@pytest.mark.parametrize("code", ["x = = 1\n", 'x = "abc\n', "def f[: ...\n", 'print "x"\n'])
def test_what_no_python_takes_asks_for_none(run_here: Run, tmp_path: Path, code: str):
    (tmp_path / "arm.py").write_text(AFTER + code)

    ran = run_here("verify", "file:arm.py", "-q")

    assert_refused(ran, "file:arm.py: cannot be imported: SyntaxError: ")
