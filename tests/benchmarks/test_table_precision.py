"""The script that holds the table against the way it was measured before."""

import math

import pytest
import table_precision
from click.testing import CliRunner

from harness.speedup.plan import Job, Plan, Protocol
from harness.stats.estimates import Estimate
from scenarios.scenario import SteadyDecode

CELL = SteadyDecode(requests=2, tokens=64)


@pytest.mark.thorough
def test_both_ways_are_measured_for_real():
    ran = CliRunner().invoke(
        table_precision.main, ["--cells", "2x64", "--times", "2", "--seconds", "1", "--hog"]
    )

    assert ran.exit_code == 0, ran.output
    assert "Taking turns, " in ran.stdout
    assert "One after the other, " in ran.stdout
    rows = [line for line in ran.stdout.splitlines() if line.startswith("| v2-2x64 | ")]
    assert [row.count("x (") for row in rows] == [2, 2]
    assert "beside a process that was busy now and then on another core" in ran.stdout
    assert ran.stderr.splitlines() == [
        f"run {number} of 2, {way}"
        for number in (1, 2)
        for way in ("taking turns", "one after the other")
    ]


def test_rounds_are_paired_only_where_they_followed_each_other():
    plan = Plan((CELL,), ("a", "b"), Protocol(processes=2, rounds=3, samples=1))
    # Half as fast in other rounds of either arm, as where it is measured at another time.
    runs = {
        Job(CELL, "a", process): times
        for process, times in enumerate(([4.0, 4.0, 8.0], [4.0, 4.0, 8.0]))
    } | {
        Job(CELL, "b", process): times
        for process, times in enumerate(([1.0, 2.0, 2.0], [1.0, 2.0, 2.0]))
    }

    turns = table_precision._ratios(plan, runs, is_looked_at=True)
    alone = table_precision._ratios(plan, runs, is_looked_at=False)

    assert turns["v2-2x64"].value == pytest.approx(4.0)
    assert alone["v2-2x64"].value == pytest.approx(2.0)


def test_how_runs_agree_is_counted():
    narrow, wide = Estimate(2.0, 1.95, 2.05), Estimate(2.2, 1.5, 3.2)
    plan = Plan((CELL,), ("a", "b"), seconds=10.0)

    text = table_precision._report("taking turns", plan, [{"x": narrow}, {"x": wide}], [9.0, 11.2])

    assert "Taking turns, 9 to 11 s a run of 10 s:" in text
    assert f"±{100 * (3.2 / 2.2 - 1):.3g} %" in text
    assert "1 of 2 intervals are within ±5 %" in text
    # The narrow one does not hold 2.2; the wide one holds 2.
    assert "50% lie in the interval of another one" in text
    assert math.isclose(table_precision.reach(narrow), 0.025)
