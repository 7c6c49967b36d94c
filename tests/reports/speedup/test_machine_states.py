import math
import random

import pytest

from reports.speedup.machine_states import States, two_states


def rounds(seed: int, *groups: tuple[int, float, float]) -> list[float]:
    """Rounds in random order: of each group their number, the factor of their time, its noise."""
    rng = random.Random(seed)
    logs = [
        math.log(factor) + rng.gauss(0, noise)
        for count, factor, noise in groups
        for _ in range(count)
    ]
    rng.shuffle(logs)
    return logs


def test_two_clear_speeds_are_told_with_their_share_and_factor():
    found = two_states(rounds(1, (60, 1.0, 0.02), (40, 1.5, 0.03)))

    assert found is not None
    assert found.slow == 0.4
    assert found.factor == pytest.approx(1.5, rel=0.02)
    assert two_states([0.0, 0.0, 0.5, 0.5]) == States(0.5, pytest.approx(math.exp(0.5)))


@pytest.mark.parametrize(
    "logs",
    [
        rounds(2, (100, 1.0, 0.02)),
        rounds(3, (100, 1.0, 0.3)),
        # Near each other, or hardly to be told apart.
        rounds(4, (50, 1.0, 0.01), (50, 1.1, 0.01)),
        rounds(5, (50, 1.0, 0.15), (50, 1.5, 0.15)),
        # Disturbances now and then, and speeds all over the place.
        rounds(6, (95, 1.0, 0.02), (5, 2.0, 0.02)),
        [math.log(1 + number / 100) for number in range(100)],
        [],
        [0.0],
        [0.0, 1.0],
        [0.0] * 50,
    ],
    ids=[
        *["steady", "noisy", "near", "blurred", "disturbed", "spread", "none", "one", "two"],
        "all alike",
    ],
)
def test_all_else_is_no_matter_of_two_speeds(logs: list[float]):
    assert two_states(logs) is None
