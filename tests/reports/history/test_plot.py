"""The plot of the history's trends."""

import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from matplotlib.figure import Figure

from harness.stats.estimates import Estimate
from reports.history.plot import plot
from reports.history.trends import ChangePoint, Line, Point, Trend
from reports.plots.style import LIGHT, render
from stepbench_core.errors import InputError

START = datetime(2026, 3, 4)


def make_trend(
    runs: int = 30, *changes: int, seconds: float = 1e-3, arm: str = "incremental"
) -> Trend:
    """A line whose time doubles at each change."""
    points = []
    for run in range(runs):
        value = seconds * 2 ** sum(run >= change for change in changes)
        points.append(
            Point(
                f"{run}.parquet",
                START + timedelta(days=run),
                f"{run:012x}",
                Estimate(value, value * 0.9, value * 1.1),
            )
        )
    return Trend(
        Line("v2-2x64", arm, "0123456789ab", "cpython 3.12.1", "python", "stepbench", False),
        tuple(points),
        tuple(
            ChangePoint(
                change,
                seconds * 2**number,
                seconds * 2 ** (number + 1),
                Estimate(2.0, 1.9, 2.1),
                5e-4,
            )
            for number, change in enumerate(changes)
        ),
    )


def drawn(*trends: Trend) -> Figure:
    return plot(trends).draw(LIGHT)


def test_a_panel_shows_times_intervals_and_where_they_changed():
    (axes,) = drawn(make_trend(30, 10, 20)).axes

    assert axes.get_title(loc="left") == "v2-2x64, incremental"
    assert axes.get_ylabel() == "ms"
    bars, times, *changes = axes.lines
    assert list(times.get_xdata()) == list(range(1, 31))
    assert list(times.get_ydata()) == pytest.approx([1.0] * 10 + [2.0] * 10 + [4.0] * 10)
    low, high, gap = bars.get_ydata().reshape(30, 3).T
    assert list(low) == pytest.approx(0.9 * times.get_ydata())
    assert list(high) == pytest.approx(1.1 * times.get_ydata())
    assert np.isnan(gap).all()
    assert list(bars.get_xdata()) == list(np.arange(1, 31).repeat(3))
    assert [line.get_xdata()[0] for line in changes] == [10.5, 20.5]
    assert [text.get_text() for text in axes.texts] == [
        "00000000000a +100.0 %",
        "000000000014 +100.0 %",
    ]
    levels = [collection.get_segments()[0].tolist() for collection in axes.collections]
    assert levels == [
        [[0.5, 1.0], [10.5, 1.0]],
        [[10.5, 2.0], [20.5, 2.0]],
        [[20.5, 4.0], [30.5, 4.0]],
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        f"{START + timedelta(days=day):%Y-%m-%d}" for day in (0, 6, 12, 17, 23, 29)
    ]


def test_a_change_is_told_by_more_than_its_colour():
    (axes,) = drawn(make_trend(30, 10)).axes

    _, times, change = axes.lines
    assert times.get_color() != change.get_color()
    assert (times.get_linestyle(), change.get_linestyle()) == ("None", "--")


def test_words_of_neighbours_do_not_lie_on_each_other():
    (axes,) = drawn(make_trend(30, 10, 13, 16)).axes

    assert len({text.xy[1] for text in axes.texts}) == 3


def test_each_line_has_a_panel_that_says_what_tells_it_from_the_others():
    here = make_trend(3)
    there = replace(here, line=replace(here.line, machine="another"))

    titles = [axes.get_title(loc="left") for axes in drawn(here, there).axes]

    assert titles == ["v2-2x64, incremental, 0123456789ab", "v2-2x64, incremental, another"]


def test_a_single_run_without_an_interval_is_a_point():
    trend = make_trend(1, seconds=5e-6)
    point = replace(trend.points[0], seconds=Estimate(5e-6, 0.0, math.inf))

    (axes,) = drawn(replace(trend, points=(point,))).axes

    assert axes.get_ylabel() == "us"
    bars, times = axes.lines
    assert np.isnan(bars.get_ydata()).all()
    assert list(times.get_ydata()) == pytest.approx([5.0])


def test_too_many_lines_are_refused():
    with pytest.raises(InputError, match=r"^--plot: 41 lines are too many .* --cell and --arm$"):
        plot([make_trend(1, arm=f"arm-{number}") for number in range(41)])


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_files_are_the_same_every_time(kind: str):
    found = plot([make_trend(30, 10)])

    first, second = render(found, LIGHT, kind), render(found, LIGHT, kind)

    assert first == second
    assert found.description == (
        "The time of each run with its 95 % interval, one run beside the other, 1 panel of one arm "
        "of one cell each, with 1 change point marked; the table has the figures."
    )
    if kind == "svg":
        assert ET.fromstring(first).tag.endswith("svg")  # noqa: S314 - written just now
    else:
        assert first.startswith(b"\x89PNG")
