"""Where the noise of a duet's process comes from: the estimator on known noise, and a real run."""

import duet_variance
import numpy as np
import pytest
from click.testing import CliRunner
from duet_variance import KINDS, effect, split

PROCESSES, SEGMENTS = 3000, 6


@pytest.mark.parametrize(
    ("chance", "segments", "processes"),
    [(0.006, 0.0, 0.0), (0.005, 0.008, 0.0), (0.005, 0.0, 0.004), (0.003, 0.004, 0.006)],
)
def test_the_parts_of_a_known_noise_are_told_apart(
    chance: float, segments: float, processes: float
):
    rng = np.random.default_rng(3)
    shape = (PROCESSES, SEGMENTS)
    base = rng.normal(0, processes, (PROCESSES, 1)) + rng.normal(0, segments, shape)
    # A half has twice the variance of the whole, which is their mean.
    first, second = (base + rng.normal(0, chance * 2**0.5, shape) for _ in range(2))
    effects = np.stack([(first + second) / 2, first, second], axis=2).tolist()

    found = split(effects)

    assert found.chance == pytest.approx(chance, rel=0.05)
    assert found.segments == pytest.approx(segments, rel=0.1, abs=0.0008)
    assert found.processes == pytest.approx(processes, rel=0.1, abs=0.0008)
    whole = processes**2 + (segments**2 + chance**2) / SEGMENTS
    assert found.process == pytest.approx(whole**0.5, rel=0.05)


def test_the_second_arm_is_held_against_the_first():
    logs = np.zeros((4, 8))
    logs[1] += 0.02
    logs[3] += 0.04

    assert effect(logs) == pytest.approx(0.03)


@pytest.mark.thorough
def test_each_kind_is_measured_for_real():
    ran = CliRunner().invoke(
        duet_variance.main, ["--cells", "v2-16x2048", "--processes", "2", "--segments", "2"]
    )

    assert ran.exit_code == 0, ran.output
    rows = [line.split(" | ") for line in ran.stdout.splitlines() if line.startswith("| v2-")]
    assert [row[1] for row in rows] == list(KINDS)
    assert all(cell.rstrip(" |").endswith("%") for row in rows for cell in row[2:])
