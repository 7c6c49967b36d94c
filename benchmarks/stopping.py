"""How often an interval of the speedup table holds the truth, in simulations.

Processes of a cell are added until the interval of its ratio is narrow enough. It may be so by
luck: then it is too narrow. So it is computed for a higher confidence than the 95 % that it is
called by; this says how often it holds the truth, beside one that is computed for just 95 %.

    python benchmarks/stopping.py
    python benchmarks/stopping.py --runs 100000 --precision 15% --least 3
"""

from __future__ import annotations

import click
import numpy as np

from harness.speedup.plan import DEFAULT, PRECISION
from harness.speedup.precision import CONFIDENCE, CONFIDENCE_OF_LOOKS
from harness.stats.estimates import student_t
from reports.render.markdown import render_table
from reports.render.table import Table, figures
from stepbench.options import share

# Standard deviation of what a process says, as a share.
_NOISES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)


@click.command(help=__doc__.replace("\n\n    ", "\n\n\b\n    "))
@click.option(
    "--runs", type=click.IntRange(100), default=20_000, show_default=True, help="Simulated runs."
)
@click.option(
    "--precision", default=f"{PRECISION:.0%}", show_default=True, help="That is narrow enough."
)
@click.option(
    "--least",
    type=click.IntRange(2, 100),
    default=DEFAULT.processes,
    show_default=True,
    help="Processes in any case.",
)
@click.option(
    "--most",
    type=click.IntRange(2, 1000),
    default=40,
    show_default=True,
    help="Processes for which there is time.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the noise.")
def main(runs: int, precision: str, least: int, most: int, seed: int) -> None:
    """Print a table."""
    limit = np.log1p(share("--precision", precision))
    rng = np.random.default_rng(seed)
    kinds = {
        "normal": rng.normal(size=(runs, most)),
        # Three degrees of freedom: now and then a process is far off.
        "Student t, 3 degrees": rng.standard_t(3, size=(runs, most)) / np.sqrt(3),
    }
    rows = []
    for kind, draws in kinds.items():
        for noise in _NOISES:
            cells = []
            for confidence in (CONFIDENCE_OF_LOOKS, CONFIDENCE):
                held, count = _simulated(draws * noise, confidence, limit, least)
                cells += [f"{held:.1%}", f"{count:.1f}"]
            rows.append((kind, f"{noise:.1%}", *cells))
    used, plain = f"{CONFIDENCE_OF_LOOKS:.0%}", f"{CONFIDENCE:.0%}"
    head = ("Noise", "Of a process", f"At {used}", "Processes", f"At {plain}", "Processes")
    click.echo(render_table(Table.of(figures(*head), rows)))
    click.echo(
        f"\n{runs:,} runs of {least} to {most} processes, which end when the interval reaches at "
        f"most {precision} from the ratio: in how many of them it holds the truth, and how many "
        "processes they have on average."
    )


def _simulated(
    logs: np.ndarray, confidence: float, limit: float, least: int
) -> tuple[float, float]:
    """Return in which share of runs the interval holds the truth, 0, and their mean length.

    Args:
        logs: of each run what each process would say.
        confidence: for which the interval is computed.
        limit: of its half-width, from which on no more processes are added.
        least: processes in any case.
    """
    runs, most = logs.shape
    is_open = np.ones(runs, dtype=bool)
    held = np.zeros(runs, dtype=bool)
    lengths = np.full(runs, most)
    for count in range(least, most + 1):
        own = logs[:, :count]
        half = student_t(count - 1, confidence) * own.std(axis=1, ddof=1) / np.sqrt(count)
        ends = is_open & ((half <= limit) | (count == most))
        held[ends] = np.abs(own.mean(axis=1))[ends] <= half[ends]
        lengths[ends] = count
        is_open &= ~ends
    return float(held.mean()), float(lengths.mean())


if __name__ == "__main__":
    main()
