"""What the change points of ``stepbench history trend`` find, and how often they cry wolf.

False alarms: series of noise alone, of several kinds, without and with a memory. Detections: a step
after so many runs, in normal noise of 1 %, seen so many runs later. All seeded; about two minutes.
Run it with ``python benchmarks/change_point_study.py``; it needs the extra ``history``.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harness.history.change_points import find_changes
from harness.stats.estimates import proportion

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]

_NOISE = 0.01
_SERIES, _TRIALS = 1_000, 100
_LENGTHS = ((6, 40), (40, 120), (120, 400), (400, 1_200))
_STEPS, _BEFORE, _AFTER = (1.02, 1.03, 1.05), (10, 30, 100), (3, 4, 5, 7, 10, 20)


def normal(generator: np.random.Generator, count: int) -> Floats:
    """Return normal noise."""
    return generator.normal(0.0, _NOISE, count)


def heavy_tails(generator: np.random.Generator, count: int) -> Floats:
    """Return noise of Student's t distribution with two degrees of freedom."""
    return _NOISE * generator.standard_t(2, count)


def skewed(generator: np.random.Generator, count: int) -> Floats:
    """Return noise that only ever makes a run longer."""
    return generator.exponential(2 * _NOISE, count)


def two_moods(generator: np.random.Generator, count: int) -> Floats:
    """Return noise of a machine that is 10 % slower in 15 % of the runs."""
    return generator.normal(0.0, _NOISE / 2, count) + 0.1 * (generator.random(count) < 0.15)


def with_memory(generator: np.random.Generator, count: int) -> Floats:
    """Return noise of which neighbours are correlated, by 0.3."""
    values = generator.normal(0.0, _NOISE, count)
    for run in range(1, count):
        values[run] += 0.3 * values[run - 1]
    return values


def main() -> None:
    """Print both as Markdown."""
    lengths = [f"{low:,} to {high - 1:,} runs" for low, high in _LENGTHS]
    print(f"Of {_SERIES:,} series of noise alone, with a change point (95 % interval):\n")
    print(f"| Noise | {' | '.join(lengths)} |")
    print(f"| :--- | {'---: | ' * len(lengths)}".rstrip())
    for noise in (normal, heavy_tails, skewed, two_moods, with_memory):
        found = [false_alarms(noise, *length) for length in _LENGTHS]
        words = [_share(count) for count in found]
        print(f"| {noise.__name__.replace('_', ' ')} | {' | '.join(words)} |", flush=True)
    print(f"\nOf {_TRIALS} steps in normal noise of 1 %, found within two runs of where it is:\n")
    print(f"| Step | Runs before | {' | '.join(f'{count} after' for count in _AFTER)} |")
    print(f"| ---: | ---: | {'---: | ' * len(_AFTER)}".rstrip())
    for step in _STEPS:
        for before in _BEFORE:
            found = [detections(step, before, after) for after in _AFTER]
            print(f"| {step - 1:.0%} | {before} | {' | '.join(map(str, found))} |", flush=True)


def false_alarms(noise: Noise, low: int, high: int) -> int:
    """Return how many series of ``low`` to ``high`` runs have a change point."""
    found = 0
    for seed in range(_SERIES):
        generator = np.random.default_rng([seed, high])
        logs = noise(generator, int(generator.integers(low, high)))
        found += bool(find_changes(logs.tolist()))
    return found


def detections(step: float, before: int, after: int) -> int:
    """Return how many steps are found."""
    found = 0
    for seed in range(_TRIALS):
        logs = normal(np.random.default_rng([seed, before, after]), before + after)
        logs[before:] += math.log(step)
        found += any(abs(change.run - before) <= 2 for change in find_changes(logs.tolist()))
    return found


def _share(found: int) -> str:
    share = proportion(found, _SERIES)
    return f"{found} ({share.low:.2%} to {share.high:.2%})"


if __name__ == "__main__":
    main()
