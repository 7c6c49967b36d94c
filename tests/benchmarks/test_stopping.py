"""The simulation of the rule that ends a table, on few runs."""

import stopping
from click.testing import CliRunner


def run(*arguments: str) -> list[list[str]]:
    """Return the rows of the table."""
    ran = CliRunner().invoke(stopping.main, ["--seed", "3", *arguments])
    assert ran.exit_code == 0
    lines = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    return [[word.strip() for word in line.strip("|").split("|")] for line in lines[2:]]


def test_intervals_hold_the_truth_as_often_as_they_say():
    rows = run("--runs", "3000")

    assert len(rows) == 14
    shares = [float(row[2].rstrip("%")) for row in rows]
    # Of 3,000 runs at 95 %, one in a thousand would fall below 93.8 %.
    assert min(shares) > 93.8
    # At a plain 95 % they do not where it takes several looks.
    assert min(float(row[4].rstrip("%")) for row in rows) < 93.8


def test_more_noise_takes_more_processes_up_to_the_most():
    counts = [float(row[3]) for row in run("--runs", "200", "--most", "9")][:7]

    assert counts[0] == 4.0
    assert counts == sorted(counts)
    assert counts[-1] > 8.5
