import json
from pathlib import Path

import pytest

from harness.files import read_document, write_atomically
from scenarios.errors import InputError


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


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "| a |"])
def test_what_is_no_json_is_named(tmp_path: Path, text: str):
    file = tmp_path / "x.json"
    file.write_text(text)

    with pytest.raises(InputError, match=r"x\.json: truncated, or not a results file"):
        read_document(file)


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
