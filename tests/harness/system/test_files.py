import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.system.files import read_document, write_atomically
from stepbench_core.errors import InputError


def test_the_file_holds_what_was_written_and_nothing_else_is_left(tmp_path: Path):
    file = tmp_path / "a.toml"
    write_atomically(file, lambda opened: opened.write("one\n"))
    write_atomically(file, lambda opened: opened.write("two\n"))

    assert file.read_text() == "two\n"
    assert list(tmp_path.iterdir()) == [file]


def test_the_old_file_stays_if_the_new_one_fails(tmp_path: Path):
    file = tmp_path / "a.toml"
    file.write_text("old\n")

    def fail(opened: object) -> None:
        opened.write("half")  # type: ignore[attr-defined]
        raise LookupError

    with pytest.raises(LookupError):
        write_atomically(file, fail)

    assert file.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_gone_is_one_clear_line(tmp_path: Path):
    file = tmp_path / "gone/results.json"
    with pytest.raises(InputError) as caught:
        write_atomically(file, lambda opened: opened.write("x"))
    assert str(caught.value) == f"{file}: cannot be written: No such file or directory"


def test_a_json_file(tmp_path: Path):
    (tmp_path / "x.json").write_text('{"a": [1]}')

    assert read_document(tmp_path / "x.json") == ('{"a": [1]}', {"a": [1]})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("{", "it is truncated: it ends within line 1"),
        ('{"a":\n["b', "it is truncated: it ends within line 2"),
        ('{"a": tr', "it is truncated: it ends within line 1"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]\n| a |", "found '| a |' at line 2, column 1"),
        ("1" * 5_000, "a number of more than 4,300 digits"),
        ("[NaN]", "NaN is no number in JSON"),
        ('{"a": -Infinity}', "-Infinity is no number in JSON"),
        ('{"a": 1, "b": 2, "a": 1}', "'a' stands twice in the same object"),
    ],
)
def test_what_is_no_json_is_named_in_plain_words(tmp_path: Path, text: str, words: str):
    file = tmp_path / "x.json"
    file.write_text(text)

    with pytest.raises(InputError) as caught:
        read_document(file)
    expected = "expected a results file of stepbench, in JSON"
    assert str(caught.value) == f"{file}: {expected}: {words}"


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.encode("utf-16"),
        lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
        lambda text: gzip.compress(text.encode("utf-8-sig"), mtime=0),
        lambda text: (
            gzip.compress(text[:4].encode(), mtime=0) + gzip.compress(text[4:].encode(), mtime=0)
        ),
        lambda text: text.replace("\n", "\r\n").encode(),
    ],
)
def test_a_document_is_the_same_in_all_encodings(tmp_path: Path, encode: Callable[[str], bytes]):
    (tmp_path / "x").write_bytes(encode('{"a":\n["\u00e9"]}'))

    assert read_document(tmp_path / "x") == ('{"a":\n["\u00e9"]}', {"a": ["\u00e9"]})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\xff\xfe\0", "it is not text, or not in UTF-8"),
        ("{}".encode("utf-16-le"), "it is not text, or not in UTF-8"),
        (gzip.compress(b"{}", mtime=0)[:-5], "a truncated gzip file"),
        (gzip.compress(b"{}", mtime=0)[:5], "a truncated gzip file"),
        (gzip.compress(b"{}", mtime=0) + b"more", "a damaged gzip file"),
        (
            gzip.compress(b" " * 2**26, mtime=0),
            "it holds more than 16 MiB, which is too much to be read",
        ),
    ],
    ids=["binary", "utf-16 without a mark", "cut", "no more than a head", "more", "bomb"],
)
def test_bytes_that_are_no_text_are_named(tmp_path: Path, content: bytes, words: str):
    (tmp_path / "x").write_bytes(content)

    with pytest.raises(InputError) as caught:
        read_document(tmp_path / "x")
    assert str(caught.value) == f"{tmp_path}/x: {words}"


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_name_of_gzip_is_written_as_gzip(tmp_path: Path, mode: str):
    text = '{"a": 1}' if mode == "w" else b'{"a": 1}'
    for name in ("one.json.gz", "two.json.gz", "x.json"):
        write_atomically(tmp_path / name, lambda file: file.write(text), mode)
        assert read_document(tmp_path / name)[1] == {"a": 1}

    one, two = ((tmp_path / f"{name}.json.gz").read_bytes() for name in ("one", "two"))
    assert gzip.decompress(one) == b'{"a": 1}'
    assert one == two
    assert (tmp_path / "x.json").read_bytes() == b'{"a": 1}'


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"none\.json: No such file"):
        read_document(tmp_path / "none.json")


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\ud800x"', '"\\udc00"', '["\\ud83d", "\\ude00"]'])
def test_half_of_a_character_is_no_text(tmp_path: Path, text: str):
    file = tmp_path / "x.json"
    file.write_text(text)

    with pytest.raises(InputError, match=r"x\.json: damaged: half of a character"):
        read_document(file)


def test_a_character_of_two_halves_is_one(tmp_path: Path):
    file = tmp_path / "x.json"
    whole = "\U0001f600 \U0001f601"
    file.write_text(json.dumps([whole, json.dumps(whole)]))

    assert read_document(file)[1] == [whole, json.dumps(whole)]
