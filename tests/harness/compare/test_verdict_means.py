"""The verdict on typical step and means together; the processes are hand-made."""

import math

import pytest

from harness.compare.figure import Kind
from harness.compare.processes import summarise
from harness.compare.verdict import Process, Rule, Verdict, judge
from harness.stats.means import Means, Reading

# Far enough from the threshold of 0.5 % in either direction, and far within it.
SLOW, FAST, SAME = 0.02, -0.02, 0.0
# Around them: no process says quite the same.
SPREAD = (0.0002, -0.0002, 0.0001, -0.0001, 0.0002, -0.0002)
# As wide as nothing can be said of.
WIDE = (0.03, -0.03, 0.02, -0.02, 0.03, -0.03)


def verdict(
    typical: float,
    agreed: float,
    every: float,
    *,
    of_agreed: tuple[float, ...] = SPREAD,
    of_every: tuple[float, ...] = SPREAD,
    share: float = 1.0,
) -> Verdict:
    processes = [
        Process(
            typical + own,
            (0.0, 0.0),
            share,
            (1e-3, 1e-3),
            Means(
                Reading(agreed + of_both, (0.0, 0.0)),
                Reading(every + of_all, (0.0, 0.0)),
                (1e-3, 1e-3),
                (1e-3, 1e-3),
                (0.0, 0.0),
            ),
        )
        for own, of_both, of_all in zip(SPREAD, of_agreed, of_every, strict=True)
    ]
    return judge(processes, Rule())


@pytest.mark.parametrize(
    ("typical", "agreed", "every", "kind"),
    [
        (SAME, SAME, SAME, Kind.NO_DIFFERENCE),
        (SLOW, SLOW, SLOW, Kind.SLOWER),
        (FAST, FAST, FAST, Kind.FASTER),
        # A cost is a cost, wherever it falls.
        (SAME, SLOW, SLOW, Kind.SLOWER),
        (SAME, SAME, SLOW, Kind.SLOWER),
        (FAST, SLOW, SLOW, Kind.SLOWER),
        # Dear steps that are gone.
        (SAME, FAST, FAST, Kind.FASTER),
        # The typical step got slower, and what all of them cost together did not.
        (SLOW, FAST, FAST, Kind.INCONCLUSIVE),
        (SLOW, SAME, SAME, Kind.INCONCLUSIVE),
        (FAST, SAME, SAME, Kind.INCONCLUSIVE),
    ],
)
def test_what_all_figures_say(typical: float, agreed: float, every: float, kind: Kind):
    found = verdict(typical, agreed, every)

    assert found.kind == kind
    assert bool(found.reason) == (kind is Kind.INCONCLUSIVE)
    assert found.parts == (typical != agreed)


def test_why_nothing_is_said_where_mean_and_typical_step_part():
    assert verdict(FAST, SAME, SAME).reason == (
        "the typical step takes 0.9802 times as long, the mean of all steps 1.0000 times"
    )


def test_no_difference_is_not_said_while_the_mean_is_open():
    found = verdict(SAME, SAME, SAME, of_agreed=WIDE)

    assert found.kind == Kind.INCONCLUSIVE
    assert found.reason.startswith("no difference beyond 0.50% in the typical step; of the mean, ")


def test_nor_while_every_sample_says_otherwise_however_unsurely():
    assert verdict(SAME, SAME, 0.004, of_every=WIDE).kind == Kind.NO_DIFFERENCE
    assert verdict(SAME, SAME, 0.006, of_every=WIDE).kind == Kind.INCONCLUSIVE


@pytest.mark.parametrize(("effect", "kind"), [(SLOW, Kind.SLOWER), (FAST, Kind.FASTER)])
def test_a_mean_that_is_open_does_not_hide_what_the_typical_step_says(effect: float, kind: Kind):
    assert verdict(effect, effect, effect, of_agreed=WIDE, of_every=WIDE).kind == kind


def test_a_mean_that_points_the_other_way_does():
    assert verdict(FAST, 0.004, SAME, of_agreed=WIDE, of_every=WIDE).kind == Kind.INCONCLUSIVE


def test_a_busy_core_says_nothing_of_means_either():
    found = verdict(SAME, SLOW, SLOW, share=0.5)

    assert (found.kind, found.reason[:9]) == (Kind.INCONCLUSIVE, "busy core")


def test_a_control_of_the_mean_that_is_off_takes_only_the_mean():
    processes = [
        Process(
            SLOW + own,
            (0.0, 0.0),
            1.0,
            (1e-3, 1e-3),
            Means(
                Reading(0.5, (0.02, 0.0)),
                Reading(0.5, (0.02, 0.0)),
                (1e-3,) * 2,
                (1e-3,) * 2,
                (0.0,) * 2,
            ),
        )
        for own in SPREAD
    ]

    assert judge(processes, Rule()).kind == Kind.SLOWER


def test_the_ratio_of_the_mean_comes_with_its_interval():
    found = verdict(SAME, SLOW, SLOW)

    assert found.mean is not None
    assert found.mean.low < found.mean.value < found.mean.high
    assert found.mean.value == pytest.approx(1.0202, abs=1e-4)


def test_each_figure_has_to_be_surer_than_if_it_were_judged_alone():
    rule = Rule(comparisons=3)

    # What a run may err by, whichever figure does: half of it by the typical step, a quarter each
    # by the means; ten looks, and both sides.
    chance = math.sqrt(0.025 / 3)
    assert rule.confidence == pytest.approx(1 - 2 * chance / 2 / 10)
    assert rule.confidence_of_means == pytest.approx(1 - 2 * chance / 4 / 10)


def test_a_typical_step_that_is_faster_is_not_enough_where_every_sample_says_otherwise():
    found = verdict(FAST, FAST, 0.02, of_every=WIDE)

    assert (found.kind, bool(found.reason)) == (Kind.INCONCLUSIVE, True)


def test_copies_that_are_off_the_other_way_round_do_not_cancel():
    """The means must not say what the typical step may not."""
    times = [1e-3, 1.02e-3, 1.01e-3, 1.01e-3]
    processes = [
        summarise([[time * (1 + own)] * 8 for time in times], 1.0)
        for own in (0.0, 1e-4, 2e-4, 3e-4)
    ]

    found = judge(processes, Rule())

    assert found.kind == Kind.INCONCLUSIVE
    assert found.reason.startswith("the control: two copies of the same code differ by 1.0")


def test_somebody_who_never_rests_leaves_nothing_to_say():
    processes = [
        Process(SLOW + own, (0.0, 0.0), 1.0, (1e-3, 1e-3), is_restless=True) for own in SPREAD
    ]

    found = judge(processes, Rule())

    assert found.kind == Kind.INCONCLUSIVE
    assert "never rests" in found.reason
