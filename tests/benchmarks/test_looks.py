"""The simulation of looks, on few runs."""

import looks
import pytest
from click.testing import CliRunner

from harness.duet import looks as counts
from harness.verdict import Rule


def test_looks_come_ever_more_seldom_and_keep_all_cores_busy():
    assert [*counts()][:12] == [6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 27, 30]
    assert [*counts(2)][9:13] == [24, 28, 32, 36]
    assert [*counts(4)][:3] == [8, 12, 16]
    assert all(look % 3 == 0 for look in counts(3))
    assert max(counts()) <= 240


@pytest.mark.parametrize("comparisons", [1, 12])
def test_what_a_run_errs_by_is_told(comparisons: int):
    ran = CliRunner().invoke(
        looks.main, ["--runs", "400", "--comparisons", f"{comparisons}", "--seed", "3"]
    )

    assert ran.exit_code == 0
    normal, heavy = ran.stdout.splitlines()[2:4]
    name, count, confidence, *cells = (word.strip() for word in normal.strip("|").split("|"))
    assert (name, count) == ("normal", f"{comparisons}")
    assert confidence == f"{Rule(comparisons=comparisons).confidence:.2%}"
    times = [float(cell.partition(" x")[0]) for cell in cells]
    # More looks err more often; up to 28 processes less than ten times, which the rule allows for.
    assert times == sorted(times)
    assert times[2] < 10
    assert heavy.startswith("| one process of ten far off |")
    # The same seed gives the same table.
    again = CliRunner().invoke(
        looks.main, ["--runs", "400", "--comparisons", f"{comparisons}", "--seed", "3"]
    )
    assert again.stdout == ran.stdout
