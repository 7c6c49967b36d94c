import math

import pytest

from harness.stats.estimates import Estimate
from reports.render.numbers import format_ratio, format_speedup, format_time
from reports.render.table import Column, ColumnKind, Table, Value, figure, figures, names, words
from reports.speedup.table import speedup_table
from scenarios.scenario import SteadyDecode, TraceReplay
from stubs.kv_cache_v2 import LayerGroup

from ..conftest import make_cell, make_summary

TIMES = {"full-copy": 2e-3, "incremental": 4e-4}
FASTER = {"incremental": (5.0, 4.5, 5.5)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2.46e-3, "2.46 ms"),
        (12.34e-3, "12.3 ms"),
        (123.4e-3, "123 ms"),
        (1.2344, "1,234 ms"),
        (135e-6, "0.14 ms"),  # As in the table of the pull request.
        (1e-4, "0.10 ms"),
        (99.9e-6, "99.9 us"),
        (8.765e-6, "8.77 us"),
        (0.12e-6, "0.12 us"),
    ],
)
def test_times_have_three_digits_in_the_unit_that_suits(seconds: float, text: str):
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(9.997e-3, "10.0 ms"), (99.97e-3, "100 ms"), (9.997e-6, "10.0 us")]
)
def test_rounding_up_to_the_next_power_of_ten_gives_no_fourth_digit(seconds: float, text: str):
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(5.0, 4.5, 5.5), "5.00x (4.50 to 5.50)"),
        (Estimate(27.31, 26.0, 128.4), "27.3x (26.0 to 128)"),
        (Estimate(0.5, 0.4, 0.6), "0.50x (0.40 to 0.60) slower"),
        (Estimate(1.1, 0.9, 1.3), "1.10x (0.90 to 1.30) no clear difference"),
        (Estimate(0.9, 0.7, 1.2), "0.90x (0.70 to 1.20) no clear difference"),
        # An interval that touches 1 does not exclude it.
        (Estimate(1.1, 1.0, 1.3), "1.10x (1.00 to 1.30) no clear difference"),
        (Estimate(0.9, 0.8, 1.0), "0.90x (0.80 to 1.00) no clear difference"),
        (Estimate(12.6, 0.0, math.inf), "12.6x (one process: no interval)"),
    ],
)
def test_a_speedup_says_what_its_interval_says(estimate: Estimate, text: str):
    assert format_speedup(estimate) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(3.051, 2.98, 3.124), "3.05x (2.98 to 3.12)"),
        (Estimate(0.5, 0.4, 0.6), "0.50x (0.40 to 0.60)"),
        (Estimate(1.1, 0.9, 1.3), "1.10x (0.90 to 1.30)"),
        (Estimate(12.6, 0.0, math.inf), "12.6x (one process: no interval)"),
    ],
)
def test_a_ratio_is_not_judged(estimate: Estimate, text: str):
    assert format_ratio(estimate) == text


def test_what_a_column_holds_decides_its_side_and_whether_it_names_a_row():
    columns = [*names("Arm"), Column("Requests", ColumnKind.SIZE), *words("Verdict"), *figures("p")]

    assert [column.is_words for column in columns] == [True, False, True, False]
    assert [column.names_row for column in columns] == [True, True, False, False]


def test_values_are_made_of_texts_and_figures():
    table = Table.of(figures("a", "b"), [["x", Value("1.50 ms", 0.0015, "s")]])

    assert table == Table(
        (Column("a"), Column("b")), ((Value("x"), Value("1.50 ms", 0.0015, "s")),)
    )
    assert (table.titles, table.texts) == (("a", "b"), (("x", "1.50 ms"),))
    assert [figure("-", number).number for number in (None, math.nan, 0.0)] == [None, None, 0.0]


def test_the_times_and_ratios_of_the_table_are_known_by_their_numbers():
    (row,) = speedup_table(make_summary()).rows

    assert [(value.number, value.unit) for value in row] == [
        *((2.0, ""), (64, "")),
        *((1e-3, "s"), (2e-4, "s"), (5.0, "")),
    ]


def test_the_usual_table_is_the_pull_requests():
    table = speedup_table(
        make_summary(
            make_cell(SteadyDecode(requests=16, tokens=8_192), TIMES, FASTER, requests=16.0),
            make_cell(SteadyDecode(requests=8, tokens=131_072), TIMES, FASTER, requests=8.0),
        )
    )

    assert table.titles == (
        "Requests",
        "Tokens per request",
        "full-copy",
        "incremental",
        "Speedup (95 % interval)",
    )
    assert table.texts == (
        ("16", "8,192", "2.00 ms", "0.40 ms", "5.00x (4.50 to 5.50)"),
        ("8", "131,072", "2.00 ms", "0.40 ms", "5.00x (4.50 to 5.50)"),
    )
    assert table.rows_per_cell == 1


def test_the_manager_has_a_column_once_a_cell_is_not_v2():
    v1 = make_cell(SteadyDecode(requests=2, tokens=64, manager="v1"), TIMES, FASTER)
    v2 = make_cell(SteadyDecode(requests=2, tokens=64), TIMES, FASTER)

    mixed = speedup_table(make_summary(v2, v1))
    alone = speedup_table(make_summary(v1))

    assert mixed.titles[:3] == ("Requests", "Tokens per request", "Manager")
    assert [row[2] for row in mixed.texts] == ["V2", "V1"]
    assert [row[2] for row in alone.texts] == ["V1"]
    assert "Settings" not in mixed.titles


def test_settings_have_a_column_once_a_cell_has_any():
    plain = make_cell(SteadyDecode(requests=2, tokens=64), TIMES, FASTER)
    changed = make_cell(
        SteadyDecode(
            requests=2,
            tokens=64,
            tokens_per_block=16,
            layer_groups=(LayerGroup(), LayerGroup(window=4096, sink_tokens=64)),
            page_backend="generator",
            draft_tokens=3,
            overlap=True,
            boundaries="staggered",
        ),
        TIMES,
        FASTER,
    )

    table = speedup_table(make_summary(plain, changed))

    assert table.titles[:3] == ("Requests", "Tokens per request", "Settings")
    assert [row[2] for row in table.texts] == [
        "",
        "block=16 groups=full,window=4096:sink=64 pages=generator draft=3 overlap staggered",
    ]


def test_a_trace_shows_the_mean_of_what_was_scheduled():
    cell = make_cell(
        TraceReplay(path="/traces/azure.csv", max_batch=32),
        TIMES,
        FASTER,
        requests=31.6,
        tokens=1234.4,
    )

    (row,) = speedup_table(make_summary(cell)).texts

    assert row[:3] == ("32", "1,234 (mean)", "trace=azure batch=32")


def test_one_arm_alone_has_times_and_no_speedup():
    cell = make_cell(SteadyDecode(requests=2, tokens=64), {"full-copy": 2e-3}, {})

    table = speedup_table(make_summary(cell, arms=("full-copy",)))

    assert table.titles == ("Requests", "Tokens per request", "full-copy")
    assert table.texts == (("2", "64", "2.00 ms"),)


def test_what_was_not_measured_is_said_and_not_left_blank():
    cell = make_cell(SteadyDecode(requests=2, tokens=64), {"full-copy": 2e-3}, {})

    (row,) = speedup_table(make_summary(cell)).texts

    assert row == ("2", "64", "2.00 ms", "not measured", "not measured")
