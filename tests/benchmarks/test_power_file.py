"""The file of the power study: what is in it after anything that can happen to it."""

from pathlib import Path

import power_file
import pytest

from stepbench_core.errors import InputError

RUN = {
    "machine": "abc",
    "budget": 10.0,
    "cpus": "0,1",
    "python": "3",
    "provider": "p",
    "date": "d",
    "revision": "r",
}
PARTS = ("one", "two")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.jsonl"


def load(path: Path) -> list[tuple[str, int, str]]:
    return [(t["part"], t["index"], t["machine"]) for t in power_file.load_trials(path, PARTS)]


def test_without_a_file_there_are_no_trials(path: Path):
    assert load(path) == []


def test_a_trial_has_what_its_run_is_described_by(path: Path):
    for line in (RUN, {"part": "one", "index": 3}, {**RUN, "machine": "d"}, {"part": "two"}):
        power_file.add_line(path, {"index": 0, **line} if "part" in line else line)

    assert load(path) == [("one", 3, "abc"), ("two", 0, "d")]


def test_a_line_that_was_cut_short_is_left_out_and_written_over(path: Path):
    power_file.add_line(path, RUN)
    power_file.add_line(path, {"part": "one", "index": 0})
    with path.open("a") as file:
        file.write('{"part":"one","ind')

    assert load(path) == [("one", 0, "abc")]
    power_file.add_line(path, {"part": "two", "index": 1})
    assert load(path) == [("one", 0, "abc"), ("two", 1, "abc")]
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "line", ["3", "no JSON", '{"part":"three","index":0}', '{"part":"one"}', "{}", ""]
)
def test_a_line_that_is_no_trial_is_named(path: Path, line: str):
    power_file.add_line(path, RUN)
    with path.open("a") as file:
        file.write(line + "\n")

    with pytest.raises(InputError, match=r"t\.jsonl, line 2: no trial of this study, "):
        load(path)


def test_a_trial_of_no_run_is_refused(path: Path):
    power_file.add_line(path, {"part": "one", "index": 0})

    with pytest.raises(InputError, match="line 1: no trial"):
        load(path)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be written: "):
        power_file.add_line(tmp_path / "gone" / "t.jsonl", RUN)
    with pytest.raises(InputError, match="Is a directory"):
        power_file.add_line(tmp_path, RUN)
