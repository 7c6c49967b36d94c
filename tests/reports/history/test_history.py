import csv
import io
import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("fsspec", reason="the history is an extra: pip install 'stepbench[history]'")

import pandas as pd

from harness.history.history import SCHEMA, Run, read_runs
from harness.speedup.plan import Protocol
from reports.history.export import (
    FORMATS,
    export_columns,
    figures_table,
    samples_table,
    write_export,
)
from reports.history.history import COLUMNS, run_of, write_runs
from reports.speedup.frame import samples_frame
from reports.speedup.summary import summarise
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError

from ...harness.histories import make_run, write
from ..conftest import WriteResults, make_plan

METADATA = {
    "stepbench_version": "1.2",
    "stepbench_machine": "0123456789ab",
    "stepbench_revision": "0123456789abcdef",
}
PLAN = make_plan(
    SteadyDecode(requests=2, tokens=64),
    SteadyDecode(requests=1, tokens=32),
    protocol=Protocol(processes=2, warmups=1, rounds=2, samples=3),
)
SAMPLES = {
    (cell, arm, process): [
        (1 + cell) * (1 + 0.1 * process) * (2 if arm == "full-copy" else 1) * value
        for value in (3.0, 1.0, 2.0, 6.0, 4.0, 5.0)
    ]
    for cell in (0, 1)
    for arm in ("full-copy", "incremental")
    for process in (0, 1)
}


@pytest.fixture
def run(write_results: WriteResults) -> Run:
    return run_of(write_results(PLAN, SAMPLES, metadata=METADATA))


def test_a_results_file_becomes_a_run(write_results: WriteResults):
    results = write_results(PLAN, SAMPLES, metadata=METADATA)

    run = run_of(results)

    assert run.date == datetime(2026, 3, 4, 5, 6, 0)
    assert (run.machine, run.host, run.cpu) == ("0123456789ab", "box", "Test CPU 9000")
    assert (run.python, run.provider, run.tool) == (
        "cpython 3.12.1 (64-bit)",
        PLAN.provider,
        "stepbench",
    )
    assert (run.version, run.revision, run.gc, run.round_size) == ("1.2", "0123456789ab", False, 3)
    assert run.metadata["stepbench_plan"] == PLAN.to_json()
    assert run.metadata["cpu_count"] == 8
    assert [(arm.cell, arm.arm) for arm in run.arms] == [
        ("v2-2x64", "full-copy"),
        ("v2-2x64", "incremental"),
        ("v2-1x32", "full-copy"),
        ("v2-1x32", "incremental"),
    ]
    cells = {cell.scenario.name: cell for cell in summarise(results).cells}
    for arm in run.arms:
        assert arm.seconds == cells[arm.cell].seconds[arm.arm]
        assert (arm.requests, arm.tokens) == (2.0, 65.0)
        assert arm.processes == (0, 1)
    assert run.arms[3].samples == (
        (6.0, 2.0, 4.0, 12.0, 8.0, 10.0),
        pytest.approx((6.6, 2.2, 4.4, 13.2, 8.8, 11.0)),
    )


def test_what_was_not_finished_is_not_there(write_results: WriteResults):
    some = {key: SAMPLES[key] for key in [(0, "full-copy", 0), (0, "full-copy", 1)]}

    (arm,) = run_of(write_results(PLAN, some)).arms

    assert (arm.cell, arm.arm, arm.processes) == ("v2-2x64", "full-copy", (0, 1))


def test_revisions_and_sources_are_told_apart(write_results: WriteResults):
    plan = make_plan(arms=("file:a.py",), gc=True, sources={"file:a.py": "5" * 64})
    revisions = [
        {"stepbench_revision": "a" * 40},
        {"stepbench_revision": "b" * 40, "stepbench_dirty": 1},
        {"stepbench_revision": "a" * 40},
    ]
    keys = [(0, "file:a.py", process) for process in range(3)]
    results = write_results(
        plan, dict.fromkeys(keys, 1.0), runs=dict(zip(keys, revisions, strict=True))
    )

    run = run_of(results)

    assert run.revision == f"{'a' * 12} and {'b' * 12} with local changes"
    assert (run.arms[0].source, run.gc, run.machine) == ("5" * 64, True, None)


def test_another_tool_is_named_without_its_version(write_results: WriteResults):
    tool = {"stepbench_tool": "pytest-benchmark 5.2.3"}

    assert run_of(write_results(PLAN, SAMPLES, metadata=tool)).tool == "pytest-benchmark"


def test_without_a_date_there_is_no_place_in_the_history(write_results: WriteResults):
    results = write_results(PLAN, SAMPLES)
    undated = replace(results, suite=SimpleNamespace(get_dates=lambda: None))

    with pytest.raises(InputError) as caught:
        run_of(undated)
    assert str(caught.value) == f"{results.path}: does not say when it was measured"


def _shown(address: Path, style: str) -> str:
    file = io.StringIO()
    write_runs(
        *read_runs(write(address, make_run(0), make_run(1, machine=None)), COLUMNS), style, file
    )
    return file.getvalue()


def test_runs_are_listed_oldest_first(tmp_path: Path):
    assert _shown(tmp_path, "markdown") == (
        "| Date | Machine | Revision | Cells | Arms | File |\n"
        "| :--- | :--- | :--- | :--- | :--- | :--- |\n"
        "| 2026-03-04 05:06 | 0123456789ab | 000000000000 | 1 | incremental "
        "| 20260304T050607-0000000000000000.parquet |\n"
        "| 2026-03-05 05:06 | unknown | 000000000001 | 1 | incremental "
        "| 20260305T050607-0000000000000001.parquet |\n"
    )
    assert "2026-03-05 05:06 " in _shown(tmp_path, "terminal")


def test_the_list_as_records(tmp_path: Path):
    document = json.loads(_shown(tmp_path, "json"))
    rows = list(csv.DictReader(io.StringIO(_shown(tmp_path, "csv"))))

    assert document["skipped"] == []
    assert document["runs"][1] == {
        "file": "20260305T050607-0000000000000001.parquet",
        "date": "2026-03-05T05:06:07",
        "machine": None,
        "python": "cpython 3.12.1 (64-bit)",
        "provider": "python",
        "revision": "000000000001",
        "cells": ["v2-2x64"],
        "arms": ["incremental"],
    }
    assert [row["machine"] for row in rows] == ["0123456789ab", ""]
    assert rows[0]["cells"] == "v2-2x64"


def _exported(address: Path, run: Run, style: str, *, samples: bool) -> pd.DataFrame:
    table, _ = read_runs(write(address, run), export_columns(samples=samples))
    file = io.BytesIO()
    write_export(samples_table(table) if samples else figures_table(table), style, file)
    file.seek(0)
    if style == "parquet":
        return pd.read_parquet(file)
    if style == "csv":
        frame = pd.DataFrame(csv.DictReader(io.TextIOWrapper(file)))
        numbers = {"seconds": float, "low": float, "high": float}
        counts = dict.fromkeys(("process", "processes", "round", "iteration"), int)
        known = {name: kind for name, kind in (numbers | counts).items() if name in frame}
        frame = frame.astype(known).assign(date=pd.to_datetime(frame["date"]))
        return frame if samples else frame.assign(gc=frame["gc"] == "true")
    frame = pd.DataFrame(json.load(file))
    return frame.assign(date=pd.to_datetime(frame["date"]))


@pytest.mark.parametrize("style", FORMATS)
def test_every_sample_is_exported_to_the_last_digit(
    tmp_path: Path, write_results: WriteResults, style: str
):
    results = write_results(PLAN, SAMPLES, metadata=METADATA)

    frame = _exported(tmp_path / "history", run_of(results), style, samples=True)

    keys = ["cell", "arm", "process", "round", "iteration"]
    expected = samples_frame(results).sort_values(keys).reset_index(drop=True)
    found = frame.sort_values(keys).reset_index(drop=True)
    assert found[[*keys, "seconds"]].to_dict("list") == expected[[*keys, "seconds"]].to_dict("list")
    assert set(found["date"]) == {pd.Timestamp(2026, 3, 4, 5, 6, 0)}
    assert set(found["machine"]) == {"0123456789ab"}


@pytest.mark.parametrize("style", FORMATS)
def test_figures_are_exported_with_what_tells_where_they_are_from(
    tmp_path: Path, run: Run, style: str
):
    frame = _exported(tmp_path / "history", run, style, samples=False)

    assert list(frame["arm"]) == ["full-copy", "incremental"] * 2
    assert list(frame["seconds"]) == [arm.seconds.value for arm in run.arms]
    assert list(frame["low"]) == [arm.seconds.low for arm in run.arms]
    assert list(frame["high"]) == [arm.seconds.high for arm in run.arms]
    assert list(frame["processes"]) == [2] * 4
    assert list(frame["python"]) == ["cpython 3.12.1 (64-bit)"] * 4
    assert list(frame["gc"]) == [False] * 4


def test_processes_of_unequal_length_keep_their_samples(tmp_path: Path):
    run = make_run(samples=[[1.0, 2.0, 3.0], [], [4.0]])

    table, _ = read_runs(write(tmp_path, run), SCHEMA.names)

    rows = samples_table(table).select(["process", "round", "iteration", "seconds"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, 0, 0, 1.0),
        (0, 0, 1, 2.0),
        (0, 1, 2, 3.0),
        (2, 0, 0, 4.0),
    ]


def test_no_row_is_an_empty_export(tmp_path: Path):
    table, _ = read_runs(write(tmp_path, make_run(samples=[])), export_columns(samples=True))
    file = io.BytesIO()

    write_export(samples_table(table), "json", file)

    assert json.loads(file.getvalue()) == []


@pytest.mark.parametrize("style", FORMATS)
def test_what_is_written_is_told(tmp_path: Path, style: str):
    run = make_run(samples=[[float(number) for number in range(12_345)]])
    table, _ = read_runs(write(tmp_path, run), export_columns(samples=True))
    told: list[int] = []

    write_export(samples_table(table), style, io.BytesIO(), told.append)

    assert sum(told) == 12_345
    assert len(told) == (1 if style == "parquet" else 2)
