"""The means of all steps, on made-up samples: what both copies agree on, and every sample."""

import math
import random

import pytest

from harness.stats.means import means_of

STEP = 1e-3


def steps(count: int = 152, seed: int = 1, noise: float = 0.002) -> list[list[float]]:
    """Return samples of four copies of the same code: log-normal noise of 0.2 %."""
    rng = random.Random(seed)
    return [[STEP * math.exp(rng.gauss(0, noise)) for _ in range(count)] for _ in range(4)]


def with_dear(
    samples: list[list[float]], copies: tuple[int, ...], every: int, times: float
) -> None:
    """Make every so-manieth step of some copies dearer by so many steps."""
    for copy in copies:
        for index in range(every - 1, len(samples[copy]), every):
            samples[copy][index] += times * STEP


@pytest.mark.parametrize("every", [2, 3, 10, 40, 152])
@pytest.mark.parametrize(("copies", "sign"), [((1, 3), 1), ((0, 2), -1)])
def test_an_arm_that_is_dear_in_every_nth_step(every: int, copies: tuple[int, ...], sign: int):
    samples = steps()
    with_dear(samples, copies, every, times=3.0)

    found = means_of(samples)

    truth = sign * math.log1p(3.0 * (152 // every) / 152)
    assert found.agreed.effect == pytest.approx(truth, abs=0.004)
    assert found.every.effect == pytest.approx(truth, abs=0.004)
    assert found.agreed.control == pytest.approx(0.0, abs=0.004)


def test_one_disturbed_step_moves_every_sample_and_not_what_copies_agree_on():
    samples = steps()
    samples[1][70] += 30 * STEP

    found = means_of(samples)

    assert found.every.effect > 0.08
    assert found.agreed.effect == pytest.approx(0.0, abs=0.002)


def test_steps_that_only_one_copy_finds_dear_count_in_every_sample():
    samples = steps()
    with_dear(samples, (1,), 8, times=2.0)
    with_dear(samples, (3,), 7, times=2.0)

    found = means_of(samples)

    assert found.every.effect > 0.2
    assert found.agreed.effect < 0.1


def test_a_machine_that_is_slow_for_a_while_makes_no_difference():
    samples = [
        [value * (1.8 if 40 <= n < 90 else 1.0) for n, value in enumerate(copy)] for copy in steps()
    ]

    assert means_of(samples).agreed.effect == pytest.approx(0.0, abs=0.002)


def test_a_copy_that_lies_badly_in_memory_is_no_disagreement():
    samples = steps()
    samples[1] = [1.05 * value for value in samples[1]]
    with_dear(samples, (1, 3), 10, times=1.0)

    found = means_of(samples)

    # Half of what the copy is off by, and a tenth of a step in ten.
    assert found.agreed.effect == pytest.approx(0.0247 + math.log1p(15 / 152), abs=0.005)


def test_what_others_spend_counts_as_part_of_a_step():
    samples = steps()
    nothing = [0.0] * 152

    found = means_of(samples, [nothing, [2 * STEP] * 152, nothing, [2 * STEP] * 152])

    assert found.agreed.effect == pytest.approx(math.log(3), abs=0.002)
    assert found.background == (0.0, pytest.approx(2 * STEP))
    assert found.seconds == (pytest.approx(STEP, rel=1e-3), pytest.approx(3 * STEP, rel=1e-3))


def test_the_tail_is_of_both_copies():
    samples = steps()
    with_dear(samples, (1, 3), 20, times=5.0)

    assert means_of(samples).tail == (
        pytest.approx(STEP, rel=0.01),
        pytest.approx(6 * STEP, rel=0.01),
    )


def test_a_single_iteration_says_the_same_of_means_as_of_the_typical_step():
    found = means_of([[1.0], [2.0], [1.0], [2.0]])

    assert found.agreed.effect == found.every.effect == pytest.approx(math.log(2))
    assert found.agreed.control == found.every.control == pytest.approx(0.0)
