"""The simulation of looks, on few runs."""

import looks
import pytest
from click.testing import CliRunner

from harness.compare.run import looks as counts
from harness.compare.verdict import Rule


def test_looks_come_ever_more_seldom_and_keep_all_cores_busy():
    assert [*counts()][:12] == [6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 27, 30]
    assert [*counts(2)][9:13] == [24, 28, 32, 36]
    assert [*counts(4)][:3] == [8, 12, 16]
    assert all(look % 3 == 0 for look in counts(3))
    assert max(counts()) <= 240


def run(*arguments: str) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of the table."""
    ran = CliRunner().invoke(looks.main, ["--seed", "3", *arguments])
    assert ran.exit_code == 0
    lines = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    head, _, *rows = ([word.strip() for word in line.strip("|").split("|")] for line in lines)
    return head, rows


@pytest.mark.parametrize(
    ("at_once", "lengths"),
    [("1", [6, 12, 27, 57, 229]), ("2", [6, 12, 28, 58, 220]), ("4", [12, 28, 56, 232])],
)
def test_the_table_has_the_last_look_within_each_length(at_once: str, lengths: list[int]):
    head, rows = run("--runs", "100", "--at-once", at_once)

    assert head[3:] == [f"up to {length}" for length in lengths]
    assert {len(row) for row in rows} == {len(head)}


@pytest.mark.thorough
def test_what_a_run_errs_by_is_told():
    arguments = ("--runs", "1000", "--comparisons", "2")
    _, rows = run(*arguments)

    (name, count, confidence, *cells), heavy = rows
    assert (name, count) == ("normal", "2")
    assert confidence == f"{Rule(comparisons=2).confidence:.2%}"
    times = [float(cell.partition(" x")[0]) for cell in cells]
    # A single look errs about as often as its interval says, and more looks more often: up to 28
    # processes less than ten times, which the rule allows for.
    assert 0.3 < times[0] < 2.5
    assert 1.5 * times[0] < times[2] < 10
    assert heavy[0] == "one process of ten far off"


def test_a_seed_gives_the_same_table_again():
    assert run("--runs", "100") == run("--runs", "100")
