import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("fsspec", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("ruptures", reason="the history is an extra: pip install 'stepbench[history]'")

from harness.history.history import Run, read_runs
from harness.stats.estimates import Estimate
from reports.history.tables import write_trends
from reports.history.trends import COLUMNS, Trend, find_trends

from ...harness.histories import START, make_run, write

CELL, OTHER = ("v2-2x64", "incremental"), ("v2-1x32", "full-copy")


def step(count: int, at: int, factor: float = 1.05, seed: int = 0) -> list[float]:
    """The times of so many runs, which take longer from one of them on."""
    noise = np.random.default_rng(seed).normal(0.0, 0.005, count)
    return [1e-3 * (factor if run >= at else 1.0) * math.exp(noise[run]) for run in range(count)]


def trends_of(address: Path, *runs: Run, cell: str = "*", arm: str = "*") -> list[Trend]:
    table, _ = read_runs(write(address, *runs), COLUMNS)
    return find_trends(table, cell, arm)[0]


def test_a_step_is_found_with_its_revision_and_size(tmp_path: Path):
    times = step(40, at=25)

    (trend,) = trends_of(tmp_path, *(make_run(day, {CELL: s}) for day, s in enumerate(times)))

    assert (trend.line.cell, trend.line.arm) == CELL
    assert [point.seconds.value for point in trend.points] == times
    (change,) = trend.changes
    assert trend.points[change.run].revision == f"{25:012x}"
    assert trend.points[change.run - 1].revision == f"{24:012x}"
    assert trend.points[change.run].date.day == START.day + 25
    assert change.ratio.value == pytest.approx(1.05, abs=0.005)
    assert change.ratio.low < 1.05 < change.ratio.high
    assert change.before == pytest.approx(1.00e-3, rel=0.003)
    assert change.after == pytest.approx(1.05e-3, rel=0.003)
    assert change.p <= 0.001


def test_a_single_run_is_a_trend_without_changes(tmp_path: Path):
    (trend,) = trends_of(tmp_path, make_run())

    assert len(trend.points) == 1
    assert trend.changes == ()
    assert trend.points[0].seconds == Estimate(1e-3, 1e-3 * 0.99, 1e-3 * 1.01)


@pytest.mark.parametrize(
    "other",
    [
        {"machine": "another"},
        {"python": "cpython 3.13.0 (64-bit)"},
        {"provider": "nanobind"},
        {"tool": "pytest-benchmark"},
        {"gc": True},
    ],
)
def test_times_that_may_differ_for_other_reasons_are_never_in_one_trend(
    tmp_path: Path, other: Mapping[str, Any]
):
    # Together they would have a step where the one is put behind the other.
    here = [make_run(day, {CELL: seconds}) for day, seconds in enumerate(step(12, at=12))]
    there = [
        make_run(20 + day, {CELL: 2 * seconds}, **other)
        for day, seconds in enumerate(step(12, at=12, seed=1))
    ]

    trends = trends_of(tmp_path, *here, *there)

    assert [len(trend.points) for trend in trends] == [12, 12]
    assert [trend.changes for trend in trends] == [(), ()]
    ((name, value),) = other.items()
    assert getattr(trends[0].line, name) != value
    assert getattr(trends[1].line, name) == value


def test_runs_of_two_machines_in_turn_are_put_in_order_for_each(tmp_path: Path):
    runs = [
        make_run(day, {CELL: 1e-3 * (1 + day % 2)}, machine=f"machine{day % 2}")
        for day in (5, 2, 3, 0, 1, 4)
    ]

    trends = trends_of(tmp_path, *runs)

    days = [[point.date.day - START.day for point in trend.points] for trend in trends]
    assert days == [[0, 2, 4], [1, 3, 5]]


def test_a_run_without_a_fingerprint_is_in_no_trend(tmp_path: Path):
    table, _ = read_runs(write(tmp_path, make_run(0), make_run(1, machine=None)), COLUMNS)

    trends, unknown = find_trends(table)

    assert [len(trend.points) for trend in trends] == [1]
    assert unknown == ["20260305T050607-0000000000000001.parquet"]


def test_runs_of_the_same_time_are_in_the_order_of_their_names(tmp_path: Path):
    (trend,) = trends_of(tmp_path, *(make_run(revision=f"r{number}") for number in range(3)))

    assert [point.revision for point in trend.points] == ["r0", "r1", "r2"]


def test_runs_of_the_same_second_are_in_the_order_of_their_dates(tmp_path: Path):
    late, soon = (START + timedelta(microseconds=moment) for moment in (2, 1))

    (trend,) = trends_of(
        tmp_path, make_run(date=late, revision="late"), make_run(date=soon, revision="soon")
    )

    assert [point.revision for point in trend.points] == ["soon", "late"]


@pytest.mark.parametrize(
    ("cell", "arm", "found"),
    [
        ("*", "*", [CELL, OTHER]),
        ("v2-2*", "*", [CELL]),
        ("*", "full-*", [OTHER]),
        ("v2-?x*", "in*", [CELL]),
        ("V2-2x64", "*", []),
        ("v2-2x64", "full-copy", []),
    ],
)
def test_cells_and_arms_are_chosen_by_globs(
    tmp_path: Path, cell: str, arm: str, found: Sequence[tuple[str, str]]
):
    trends = trends_of(tmp_path, make_run(0, {CELL: 1.0, OTHER: 2.0}), cell=cell, arm=arm)

    assert [(trend.line.cell, trend.line.arm) for trend in trends] == found


def test_a_source_from_elsewhere_is_part_of_the_revision(tmp_path: Path):
    (trend,) = trends_of(tmp_path, make_run(source="5" * 64))

    assert trend.points[0].revision == "000000000000, source 555555555555"


def test_a_single_process_has_no_interval(tmp_path: Path):
    run = make_run()
    arm = replace(run.arms[0], seconds=Estimate(1e-3, 0.0, math.inf))

    (trend,) = trends_of(tmp_path, replace(run, arms=(arm,)))

    assert trend.points[0].seconds == Estimate(1e-3, 0.0, math.inf)


@pytest.fixture
def stepped(tmp_path: Path) -> list[Trend]:
    """One arm with a step, and another without."""
    quiet = step(30, at=30, seed=3)
    return trends_of(
        tmp_path,
        *(
            make_run(day, {CELL: seconds, OTHER: quiet[day]})
            for day, seconds in enumerate(step(30, at=18))
        ),
    )


def _written(trends: Sequence[Trend], style: str, notes: Sequence[str] = ()) -> str:
    file = io.StringIO()
    write_trends(trends, notes, "history", style, file)
    return file.getvalue()


def test_the_tables(stepped: list[Trend]):
    blocks = _written(stepped, "markdown", ["A note."]).split("\n\n")

    assert blocks[0] == (
        "30 runs in `history`; machine 0123456789ab, Python cpython 3.12.1 (64-bit), provider "
        "python, tool stepbench, collector off:"
    )
    lines = blocks[1].splitlines()
    assert lines[0] == "| Cell | Arm | Runs | From | To | First | Last | Changes |"
    assert lines[1] == "| :--- | :--- | ---: | :--- | :--- | ---: | ---: | ---: |"
    assert lines[2].startswith("| v2-2x64 | incremental | 30 | 2026-03-04 | 2026-04-02 | ")
    assert [line.split(" | ")[-1] for line in lines[2:]] == ["1 |", "0 |"]
    assert blocks[2] == "Change points:"
    head, _, row = blocks[3].splitlines()
    assert head == (
        "| Cell | Arm | Date | Revision | Revision before | Before | After "
        "| Ratio (95 % interval) | p |"
    )
    assert row.startswith(
        "| v2-2x64 | incremental | 2026-03-22 | 000000000012 | 000000000011 | 1.00 ms | 1.05 ms "
        "| 1.0"
    )
    assert row.endswith(" | 0.0005 |")
    assert blocks[4] == "A note."
    assert blocks[5].startswith("A time is the median of the round medians of a run.")


def test_a_terminal_has_the_same(stepped: list[Trend]):
    text = _written(stepped, "terminal")

    assert "30 runs in 'history'" in text
    assert "000000000012" in text
    assert "|" not in text


def test_what_differs_has_a_column_and_what_does_not_has_none(tmp_path: Path):
    trends = trends_of(tmp_path, make_run(0), make_run(1, machine="another", gc=True))

    introduction, table, nothing, _ = _written(trends, "markdown").split("\n\n")

    assert introduction.startswith("2 runs in `history`; Python ")
    assert "machine" not in introduction
    lines = table.splitlines()
    assert lines[0].startswith("| Cell | Arm | Machine | Collector | Runs |")
    assert lines[2].startswith("| v2-2x64 | incremental | 0123456789ab | off | 1 |")
    assert lines[3].startswith("| v2-2x64 | incremental | another | on | 1 |")
    assert nothing == "No change point."


def test_json_has_every_run_and_every_change(stepped: list[Trend]):
    document = json.loads(_written(stepped, "json", ["A note."]))

    assert document["history"] == "history"
    assert document["notes"] == ["A note."]
    first, second = document["trends"]
    assert (first["cell"], first["arm"], first["gc"]) == (*CELL, False)
    assert len(first["runs"]) == len(second["runs"]) == 30
    assert first["runs"][0] == {
        "file": f"20260304T050607-{'0' * 16}.parquet",
        "date": "2026-03-04T05:06:07",
        "revision": "000000000000",
        "seconds": {
            "value": stepped[0].points[0].seconds.value,
            "low": stepped[0].points[0].seconds.low,
            "high": stepped[0].points[0].seconds.high,
        },
    }
    (change,) = first["changes"]
    assert change["run"] == 18
    assert (change["revision"], change["revision_before"]) == (f"{18:012x}", f"{17:012x}")
    assert change["file"] == first["runs"][18]["file"]
    assert change["after_seconds"] / change["before_seconds"] == pytest.approx(
        change["ratio"]["value"]
    )
    assert second["changes"] == []


def test_csv_has_a_row_for_a_change_and_for_a_line_without(stepped: list[Trend]):
    rows = list(csv.DictReader(io.StringIO(_written(stepped, "csv"))))

    assert [(row["cell"], row["arm"], row["runs"]) for row in rows] == [
        (*CELL, "30"),
        (*OTHER, "30"),
    ]
    assert rows[0]["revision"] == f"{18:012x}"
    assert float(rows[0]["ratio"]) == stepped[0].changes[0].ratio.value
    assert (rows[1]["revision"], rows[1]["ratio"]) == ("", "")
