from pathlib import Path

import pytest

from harness.files import write_atomically
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
