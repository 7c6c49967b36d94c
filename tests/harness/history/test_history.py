import math
import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("fsspec", reason="the history is an extra: pip install 'stepbench[history]'")

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.history import SCHEMA, file_name, find_folder, list_names, read_runs, write_run
from harness.stats.estimates import Estimate
from stepbench_core.errors import InputError, NoBaselineError

from ..histories import START, make_run, write, write_some

ALL = SCHEMA.names


@pytest.fixture
def memory():
    """An address in the memory of this process, empty before and after."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield "memory://bucket/history"
    system.store.clear()


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path):
    times = {("v2-2x64", "full-copy"): 2e-3, ("v2-2x64", "incremental"): 1e-3}
    run = make_run(0, times, source="d" * 64)

    table, problems = read_runs(write(tmp_path / "history", run), ALL)

    assert problems == []
    assert table.schema.names == ALL
    first, second = table.to_pylist()
    assert first == {
        "file": f"20260304T050607-{'0' * 16}.parquet",
        "date": START,
        "machine": "0123456789ab",
        "host": "box",
        "cpu": "Test CPU 9000",
        "python": "cpython 3.12.1 (64-bit)",
        "provider": "python",
        "tool": "stepbench",
        "gc": False,
        "version": "0.1",
        "revision": "000000000000",
        "round_size": 2,
        "cell": "v2-2x64",
        "arm": "full-copy",
        "source": "d" * 64,
        "requests": 2.0,
        "tokens": 65.5,
        "seconds": 2e-3,
        "low": 2e-3 * 0.99,
        "high": 2e-3 * 1.01,
        "processes": [0, 1],
        "samples": [[0.5, 1.5], [2.5, 3.5]],
    }
    assert (second["arm"], second["seconds"]) == ("incremental", 1e-3)


def test_what_is_unknown_stays_unknown(tmp_path: Path):
    run = make_run(machine=None)
    (arm,) = run.arms
    arm = replace(arm, seconds=Estimate(1e-3, 0.0, math.inf))

    table, _ = read_runs(write(tmp_path, replace(run, arms=(arm,))), ALL)

    (row,) = table.to_pylist()
    assert [row[name] for name in ("machine", "source", "low", "high")] == [None] * 4


def test_a_file_holds_what_the_results_file_noted_of_all_processes(tmp_path: Path):
    folder = write(tmp_path, make_run(metadata={"cpu_count": 8, "stepbench_plan": "{}"}))

    (name,) = list_names(folder)
    notes = pq.read_schema(tmp_path / name).metadata

    assert notes[b"stepbench_metadata"] == b'{"cpu_count": 8, "stepbench_plan": "{}"}'


def test_runs_come_in_the_order_of_their_dates(tmp_path: Path):
    folder = write(tmp_path, make_run(2), make_run(0), make_run(1))

    table, _ = read_runs(folder, ["date"])

    assert table["date"].to_pylist() == [START + timedelta(days=day) for day in range(3)]


def test_the_name_tells_date_and_content():
    assert file_name(make_run(), "abcdef" * 10) == "20260304T050607-abcdefabcdefabcd.parquet"


def test_a_column_that_is_not_asked_for_is_not_read(tmp_path: Path):
    # Nothing that compression could notice is wrong with one of them.
    generator = random.Random(0)
    folder = write(tmp_path, make_run(samples=[[generator.random() for _ in range(2_000)]]))
    (name,) = list_names(folder)
    # Spoil the samples, which stand in a part of the file that is theirs alone.
    columns = pq.ParquetFile(tmp_path / name).metadata.row_group(0)
    samples = columns.column(columns.num_columns - 1)
    assert samples.path_in_schema.startswith("samples.")
    data = bytearray((tmp_path / name).read_bytes())
    middle = samples.data_page_offset + samples.total_compressed_size // 2
    data[middle] ^= 0xFF
    (tmp_path / name).write_bytes(data)

    figures, problems = read_runs(folder, ["cell", "seconds"])
    assert (len(figures), problems) == (1, [])
    spoilt, problems = read_runs(folder, ["samples"])
    assert len(spoilt) == 0
    assert len(problems) == 1
    assert f"{tmp_path}/{name}: skipped: damaged: " in problems[0]


def _truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _without_its_end(data: bytes) -> bytes:
    return data[:-1]


@pytest.mark.parametrize(
    "spoil",
    [_truncated, _without_its_end, lambda _: b"", lambda _: b"PAR1", lambda _: b"text\n" * 100],
)
def test_a_damaged_file_is_named_and_skipped(tmp_path: Path, spoil):  # noqa: ANN001
    folder = write(tmp_path, make_run(0), make_run(1), make_run(2))
    _, damaged, _ = list_names(folder)
    (tmp_path / damaged).write_bytes(spoil((tmp_path / damaged).read_bytes()))

    table, problems = read_runs(folder, ["date"])

    assert table["date"].to_pylist() == [START, START + timedelta(days=2)]
    (problem,) = problems
    assert problem.startswith(f"{tmp_path}/{damaged}: skipped: damaged: ")
    assert "\n" not in problem


def test_foreign_files_are_named_and_skipped(tmp_path: Path):
    folder = write(tmp_path, make_run())
    (own,) = list_names(folder)
    schema = pq.read_schema(tmp_path / own)
    later = {**schema.metadata, b"stepbench_history_format": b"2"}
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    pq.write_table(
        pq.read_table(tmp_path / own).replace_schema_metadata(later), tmp_path / "b.parquet"
    )
    other = pa.table({"cell": [1]}).replace_schema_metadata(schema.metadata)
    pq.write_table(other, tmp_path / "c.parquet")
    (tmp_path / "notes.txt").write_text("not a run")
    (tmp_path / "d.parquet").mkdir()

    table, problems = read_runs(folder, ["cell"])

    assert table.to_pylist() == [{"cell": "v2-2x64"}]
    assert problems[:3] == [
        f"{tmp_path}/a.parquet: skipped: not a file of `stepbench history`",
        f"{tmp_path}/b.parquet: skipped: written by another stepbench: format 2, this one reads 1",
        f"{tmp_path}/c.parquet: skipped: damaged: its columns are others",
    ]
    assert len(problems) == 4
    assert problems[3].startswith(f"{tmp_path}/d.parquet: skipped: damaged: ")


def test_a_column_that_is_missing_is_damage(tmp_path: Path):
    folder = write(tmp_path, make_run())
    (own,) = list_names(folder)
    without = pq.read_table(tmp_path / own).drop_columns(["seconds"])
    pq.write_table(without, tmp_path / own)

    table, problems = read_runs(folder, ["cell", "seconds"])

    assert len(table) == 0
    assert problems[0].startswith(f"{tmp_path}/{own}: skipped: damaged: ")


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path):
    address = str(tmp_path / "history")
    # Each day by two of them.
    shares = [range(30), range(20, 50), range(40, 50), range(20)]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(shares), mp_context=spawn) as pool:
        list(pool.map(write_some, [address] * len(shares), shares))

    table, problems = read_runs(find_folder(address), ["date", "samples"])

    assert problems == []
    assert table["date"].to_pylist() == [START + timedelta(days=day) for day in range(50)]
    assert [row[0][0] for row in table["samples"].to_pylist()] == list(map(float, range(50)))
    assert len(list(Path(address).iterdir())) == 50


def test_an_address_that_is_no_folder_of_this_machine(memory: str):
    folder = find_folder(memory)
    assert list_names(folder) == []

    write(memory, make_run(1), make_run(0))
    fsspec.filesystem("memory").pipe_file("/bucket/history/x.parquet", b"half")
    table, problems = read_runs(folder, ["date", "samples"])

    assert table["date"].to_pylist() == [START, START + timedelta(days=1)]
    assert table["samples"].to_pylist() == [[[0.5, 1.5], [2.5, 3.5]]] * 2
    (problem,) = problems
    assert problem.startswith("memory://bucket/history/x.parquet: skipped: damaged: ")


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as caught:
        write(tmp_path / "history", make_run())

    assert str(caught.value).endswith(".parquet: cannot be written: No space left on device")
    assert list((tmp_path / "history").iterdir()) == []


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(_file: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "history", make_run())

    assert list((tmp_path / "history").iterdir()) == []


def test_what_a_killed_writer_leaves_is_no_run(tmp_path: Path):
    folder = write(tmp_path, make_run())
    (tmp_path / ".20260304T050607-00.parquet").write_bytes(b"half")
    (tmp_path / ".20260304T050607-00.parquet.k2x9").write_bytes(b"half")

    assert len(list_names(folder)) == 1
    assert read_runs(folder, ["cell"])[1] == []


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError) as caught:
        write(tmp_path / "file" / "history", make_run())

    assert str(caught.value).startswith(f"{tmp_path}/file/history/20260304T050607-")
    assert str(caught.value).endswith(".parquet: Not a directory")


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path):
    folder = tmp_path / "history"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):
        pytest.skip("this user may write to every folder")

    with pytest.raises(InputError, match=r"\.parquet: cannot be written: Permission denied$"):
        write(folder, make_run())


def test_a_store_that_fails_is_one_clear_line(memory: str, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: object, **_others: object) -> None:
        raise RuntimeError("An error occurred (403):\n  Forbidden")

    for method in ("pipe_file", "ls"):
        monkeypatch.setattr(fsspec.filesystem("memory"), method, refuse)

    with pytest.raises(InputError) as caught:
        write_run(find_folder(memory), "x.parquet", make_run())
    assert str(caught.value) == f"{memory}/x.parquet: An error occurred (403): Forbidden"
    with pytest.raises(InputError) as caught:
        list_names(find_folder(memory))
    assert str(caught.value) == f"{memory}: An error occurred (403): Forbidden"


def test_no_folder_and_an_empty_one_hold_no_history(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(NoBaselineError) as caught:
            read_runs(find_folder(str(tmp_path / name)), ["cell"])
        assert str(caught.value) == (
            f"{tmp_path}/{name}: no history: no such folder, or no run in it"
        )


@pytest.mark.parametrize(
    ("address", "text"),
    [("nonsense://x", "nonsense://x: Protocol not known: nonsense"), ("a\0b", "a\0b: ")],
)
def test_an_address_that_none_can_be_is_refused(address: str, text: str):
    with pytest.raises(InputError) as caught:
        list_names(find_folder(address))
    assert str(caught.value).startswith(text)


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "x").write_text("")

    with pytest.raises(InputError) as caught:
        list_names(find_folder(str(tmp_path / "x")))
    assert str(caught.value) == f"{tmp_path}/x: a file, not a folder"
