"""The table with a row for each cell and arm: more than two arms, or the floor among them."""

import math

import pytest

from reports.speedup.table import speedup_table
from scenarios.scenario import SteadyDecode, TraceReplay

from ..conftest import make_cell, make_summary

SPEEDUP = "Speedup (95 % interval)"
TIMES_FLOOR = "x floor (95 % interval)"
SMALL = SteadyDecode(requests=2, tokens=64)
WITH_FLOOR = make_cell(
    SMALL,
    {"full-copy": 2e-3, "incremental": 1e-3, "floor": 1e-5},
    {"incremental": (2.0, 1.9, 2.1)},
    times_floor={"full-copy": (200.0, 190.0, 210.0), "incremental": (100.0, 98.0, 102.0)},
)


def test_three_arms_have_a_row_each_and_the_cell_stands_in_the_first():
    times = {"full-copy": 2e-3, "incremental": 1e-3, "third": 4e-3}
    first = make_cell(
        SteadyDecode(requests=16, tokens=8_192),
        times,
        {"incremental": (2.0, 1.9, 2.1), "third": (0.5, 0.4, 0.6)},
        requests=16.0,
    )
    second = make_cell(
        SteadyDecode(requests=8, tokens=131_072),
        times,
        {"incremental": (1.1, 0.9, 1.3), "third": (3.0, 0.0, math.inf)},
        requests=8.0,
    )

    table = speedup_table(make_summary(first, second, arms=("full-copy", "incremental", "third")))

    assert table.titles == ("Requests", "Tokens per request", "Arm", "Time", SPEEDUP)
    assert table.texts == (
        ("16", "8,192", "full-copy", "2.00 ms", "1"),
        ("", "", "incremental", "1.00 ms", "2.00x (1.90 to 2.10)"),
        ("", "", "third", "4.00 ms", "0.50x (0.40 to 0.60) slower"),
        ("8", "131,072", "full-copy", "2.00 ms", "1"),
        ("", "", "incremental", "1.00 ms", "1.10x (0.90 to 1.30) no clear difference"),
        ("", "", "third", "4.00 ms", "3.00x (one process: no interval)"),
    )
    assert table.rows_per_cell == 3


def test_the_floor_adds_a_column_and_has_no_speedup_itself():
    table = speedup_table(make_summary(WITH_FLOOR, arms=("full-copy", "incremental", "floor")))

    assert table.titles == ("Requests", "Tokens per request", "Arm", "Time", SPEEDUP, TIMES_FLOOR)
    assert table.texts == (
        ("2", "64", "full-copy", "2.00 ms", "1", "200x (190 to 210)"),
        ("", "", "incremental", "1.00 ms", "2.00x (1.90 to 2.10)", "100x (98.0 to 102)"),
        ("", "", "floor", "10.0 us", "", "1"),
    )


def test_rows_stand_in_the_order_asked_for_and_a_leading_floor_is_no_base():
    table = speedup_table(make_summary(WITH_FLOOR, arms=("floor", "full-copy", "incremental")))

    assert table.texts == (
        ("2", "64", "floor", "10.0 us", "", "1"),
        ("", "", "full-copy", "2.00 ms", "1", "200x (190 to 210)"),
        ("", "", "incremental", "1.00 ms", "2.00x (1.90 to 2.10)", "100x (98.0 to 102)"),
    )


def test_manager_and_settings_stand_in_the_first_row_of_a_cell_as_well():
    times = {"full-copy": 2e-3, "floor": 1e-3}
    above = {"full-copy": (2.0, 1.9, 2.1)}
    v1 = SteadyDecode(requests=2, tokens=64, manager="v1", draft_tokens=3)
    trace = TraceReplay(path="/traces/azure.csv", max_batch=32)

    table = speedup_table(
        make_summary(
            make_cell(v1, times, {}, times_floor=above),
            make_cell(trace, times, {}, times_floor=above, requests=31.6, tokens=1234.4),
            arms=("full-copy", "floor"),
        )
    )

    assert table.titles[2:5] == ("Manager", "Settings", "Arm")
    assert [row[:5] for row in table.texts] == [
        ("2", "64", "V1", "draft=3", "full-copy"),
        ("", "", "", "", "floor"),
        ("32", "1,234 (mean)", "V2", "trace=azure batch=32", "full-copy"),
        ("", "", "", "", "floor"),
    ]


@pytest.mark.parametrize("arms", [("floor", "batched"), ("batched", "floor")])
def test_one_arm_beside_the_floor_has_nothing_to_be_faster_than(arms: tuple[str, str]):
    cell = make_cell(
        SMALL, {"floor": 1e-5, "batched": 3e-5}, {}, times_floor={"batched": (3.05, 2.98, 3.12)}
    )

    table = speedup_table(make_summary(cell, arms=arms))

    assert table.titles == ("Requests", "Tokens per request", "Arm", "Time", TIMES_FLOOR)
    assert {row[2:] for row in table.texts} == {
        ("floor", "10.0 us", "1"),
        ("batched", "30.0 us", "3.05x (2.98 to 3.12)"),
    }
    assert [row[2] for row in table.texts] == list(arms)
    assert table.rows_per_cell == 2


def test_the_floor_alone_has_times():
    table = speedup_table(make_summary(make_cell(SMALL, {"floor": 1e-5}, {}), arms=("floor",)))

    assert table.titles == ("Requests", "Tokens per request", "Arm", "Time")
    assert table.texts == (("2", "64", "floor", "10.0 us"),)
    assert table.rows_per_cell == 1


def test_a_time_below_the_floors_is_not_called_slower():
    cell = make_cell(
        SMALL, {"batched": 1e-5, "floor": 2e-5}, {}, times_floor={"batched": (0.5, 0.4, 0.6)}
    )

    table = speedup_table(make_summary(cell, arms=("batched", "floor")))

    assert table.texts[0] == ("2", "64", "batched", "10.0 us", "0.50x (0.40 to 0.60)")


@pytest.mark.parametrize(
    ("missing", "rows"),
    [
        (
            "full-copy",  # With the base, every speedup is missing.
            [
                ("full-copy", "not measured", "not measured", "not measured"),
                ("incremental", "1.00 ms", "not measured", "100x (98.0 to 102)"),
                ("floor", "10.0 us", "", "1"),
            ],
        ),
        (
            "incremental",
            [
                ("full-copy", "2.00 ms", "1", "200x (190 to 210)"),
                ("incremental", "not measured", "not measured", "not measured"),
                ("floor", "10.0 us", "", "1"),
            ],
        ),
        (
            "floor",
            [
                ("full-copy", "2.00 ms", "1", "not measured"),
                ("incremental", "1.00 ms", "2.00x (1.90 to 2.10)", "not measured"),
                ("floor", "not measured", "", "not measured"),
            ],
        ),
    ],
)
def test_what_was_not_measured_is_said_in_each_column(
    missing: str, rows: list[tuple[str, str, str, str]]
):
    times = {"full-copy": 2e-3, "incremental": 1e-3, "floor": 1e-5}
    speedups = {"incremental": (2.0, 1.9, 2.1)}
    above = {"full-copy": (200.0, 190.0, 210.0), "incremental": (100.0, 98.0, 102.0)}
    del times[missing]
    above.pop(missing, None)
    cell = make_cell(
        SMALL,
        times,
        speedups if missing == "floor" else {},
        times_floor={} if missing == "floor" else above,
    )

    table = speedup_table(make_summary(cell, arms=("full-copy", "incremental", "floor")))

    assert [row[2:] for row in table.texts] == rows
