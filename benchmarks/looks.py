"""How often a duet calls arms different that differ by just the threshold, in simulations.

A run of a duet is looked at again and again, and errs more often than an interval that is looked at
once. The rule of verdicts allows for ten times as often; this says how often it is.

    python benchmarks/looks.py
    python benchmarks/looks.py --runs 100000 --comparisons 12
"""

from __future__ import annotations

import click
import numpy as np

from harness.compare.run import looks
from harness.compare.verdict import Rule
from harness.stats.estimates import degrees_of, student_t, trimmed_mean
from reports.render.markdown import render_table
from reports.render.table import Table, figures

# Up to how many processes a run may have.
_UP_TO = (6, 12, 28, 60, 240)
# A share of the processes is so many standard deviations off, to either side.
_NOISES = {"normal": (0.0, 0.0), "one process of ten far off": (0.1, 5.0)}


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option(
    "--runs", type=click.IntRange(100), default=20_000, show_default=True, help="Simulated runs."
)
@click.option(
    "--comparisons",
    multiple=True,
    type=click.IntRange(1),
    default=(1, 2, 12, 100),
    show_default=True,
    help="Made together; can be given several times.",
)
@click.option(
    "--at-once",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Processes that run at once.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the noise.")
def main(runs: int, comparisons: tuple[int, ...], at_once: int, seed: int) -> None:
    """Print a table."""
    counts = [*looks(at_once)]
    # The last look within each.
    lengths = dict.fromkeys(
        max(count for count in counts if count <= most) for most in _UP_TO if most >= counts[0]
    )
    rows = []
    for name, noise in _NOISES.items():
        click.echo(f"noise: {name}", err=True)
        means = _means(runs, counts, seed, *noise)
        for count in comparisons:
            confidence = Rule(comparisons=count).confidence
            erring = np.zeros(runs, dtype=bool)
            cells = []
            for look, (middle, error) in means.items():
                erring |= middle > student_t(degrees_of(look), confidence) * error
                if look in lengths:
                    share = float(erring.mean())
                    times = share / ((1 - confidence) / 2)
                    cells.append(f"{times:.1f} x; {count * share**2:.2%}")
            rows.append((name, f"{count}", f"{confidence:.2%}", *cells))
    head = ("Noise", "Comparisons", "Confidence", *(f"up to {length}" for length in lengths))
    click.echo(render_table(Table.of(figures(*head), rows)))
    click.echo(
        f"\n{runs:,} runs, {at_once} at once: how much more often a run of up to so many "
        "processes errs to one side than its interval would at a single look, and how likely it "
        "is that both runs of any of the comparisons do. Of the typical step, which may do so with "
        "a chance of 1.25 %; the two means have as much between them."
    )


def _means(
    runs: int, counts: list[int], seed: int, share: float, far: float
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Return the trimmed means of simulated runs and their errors, for each look."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(runs, counts[-1]))
    effects += rng.choice([-far, far], effects.shape) * (rng.random(effects.shape) < share)
    found = {}
    for count in counts:
        means = [trimmed_mean(run) for run in effects[:, :count].tolist()]
        found[count] = tuple(
            np.array([getattr(mean, name) for mean in means]) for name in ("value", "error")
        )
    return found


if __name__ == "__main__":
    main()
