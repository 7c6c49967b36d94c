"""The verdict on hand-made processes. Quantiles are those of printed tables of Student's t."""

import math
import random
from collections.abc import Sequence

import pytest

from harness.compare.figure import Kind
from harness.compare.verdict import Process, Rule, Verdict, judge, verdict_words
from harness.stats.estimates import Estimate

# Eight numbers around 0, with no drift between the halves, whose trimmed mean has a standard error
# of 1: one is cut off at each end, and moving it to its neighbour changes nothing, so that their
# squares sum up to 30, which is what is left, 6, times 5.
NOISE = [math.sqrt(30 / 8), -math.sqrt(30 / 8)] * 4

# How far an interval of eight processes, of which six are left, reaches at 95 %, 99 %, 99.8 % and
# 99.9 %, in standard errors. 98.42 % is what a run of a single comparison needs.
T95, T99, T999 = 2.571, 4.032, 6.869
T_ALONE, T995 = 3.584, 4.773

# log(1.005)
THRESHOLD = 0.0049875


def processes(
    effects: Sequence[float],
    controls: Sequence[float] | None = None,
    shares: Sequence[float] | None = None,
) -> list[Process]:
    times = (2e-3, 2e-3)
    controls = controls or [0.0] * len(effects)
    shares = shares or [1.0] * len(effects)
    return [
        Process(effect, (control, control), share, times)
        for effect, control, share in zip(effects, controls, shares, strict=True)
    ]


def around(middle: float, error: float) -> list[float]:
    """Eight effects with this mean and this standard error."""
    return [middle + error * noise for noise in NOISE]


@pytest.mark.parametrize(
    ("effect", "kind"),
    [
        (0.0051, Kind.SLOWER),
        (0.0049, Kind.NO_DIFFERENCE),
        (0.0, Kind.NO_DIFFERENCE),
        (-0.0049, Kind.NO_DIFFERENCE),
        # Faster by as much as slower: the threshold is the same on the log scale.
        (-0.0051, Kind.FASTER),
    ],
)
def test_without_noise_the_threshold_decides(effect: float, kind: Kind):
    verdict = judge(processes([effect] * 4), Rule())

    assert (verdict.kind, verdict.reason) == (kind, "")
    assert verdict.is_difference == (kind in {Kind.SLOWER, Kind.FASTER})


@pytest.mark.parametrize("sign", [1, -1])
def test_on_the_threshold_itself_nothing_can_be_said(sign: int):
    verdict = judge(processes([sign * math.log1p(0.005)] * 4), Rule(0.005))

    assert verdict.kind == Kind.INCONCLUSIVE
    assert verdict.reason == "the interval reaches across the threshold of 0.50%"


def test_another_threshold():
    assert judge(processes([0.015] * 4), Rule(0.02)).kind == Kind.NO_DIFFERENCE
    assert judge(processes([0.025] * 4), Rule(0.02)).kind == Kind.SLOWER


@pytest.mark.parametrize(
    ("middle", "kind"),
    [
        # The interval is 0.3584 % to each side; that of no difference 0.4032 %, for 99 %.
        (THRESHOLD + 0.003589, Kind.SLOWER),
        (THRESHOLD + 0.003579, Kind.INCONCLUSIVE),
        (THRESHOLD - 0.004027, Kind.INCONCLUSIVE),
        (THRESHOLD - 0.004037, Kind.NO_DIFFERENCE),
        (-THRESHOLD + 0.004037, Kind.NO_DIFFERENCE),
        (-THRESHOLD + 0.004027, Kind.INCONCLUSIVE),
        (-THRESHOLD - 0.003579, Kind.INCONCLUSIVE),
        (-THRESHOLD - 0.003589, Kind.FASTER),
    ],
)
def test_with_noise_the_whole_interval_has_to_be_beyond_it(middle: float, kind: Kind):
    assert judge(processes(around(middle, 0.001)), Rule()).kind == kind


# That of 10 runs of 99 % each, with 5 % to one side over ten looks: that both of a cell err has a
# chance of 0.25 %, which makes 2.5 % in all.
@pytest.mark.parametrize(("comparisons", "quantile"), [(1, T_ALONE), (10, T995), (250, T999)])
def test_a_difference_has_to_be_clearer_among_more_comparisons(comparisons: int, quantile: float):
    rule = Rule(comparisons=comparisons)
    for beyond, kind in ((0.001, Kind.SLOWER), (-0.001, Kind.INCONCLUSIVE)):
        middle = THRESHOLD + (quantile + beyond) * 0.001
        assert judge(processes(around(middle, 0.001)), rule).kind == kind
        faster = Kind.FASTER if kind == Kind.SLOWER else kind
        assert judge(processes(around(-middle, 0.001)), rule).kind == faster


@pytest.mark.parametrize("comparisons", [1, 5, 500])
def test_no_difference_has_not(comparisons: int):
    rule = Rule(comparisons=comparisons)
    inside = around(THRESHOLD - (T99 + 0.001) * 0.001, 0.001)
    across = around(THRESHOLD - (T99 - 0.001) * 0.001, 0.001)

    assert judge(processes(inside), rule).kind == Kind.NO_DIFFERENCE
    assert judge(processes(across), rule).kind == Kind.INCONCLUSIVE


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_clear_for_one_comparison_only_is_told(sign: int):
    middle = sign * (THRESHOLD + 0.0040)

    verdict = judge(processes(around(middle, 0.001)), Rule(comparisons=12))

    assert judge(processes(around(middle, 0.001)), Rule()).is_difference
    assert (verdict.kind, verdict.reason) == (
        Kind.INCONCLUSIVE,
        "beyond the threshold of 0.50%, but not as surely as 99.5%",
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_that_is_shown_inside_the_threshold_is_not_told_as_across_it(sign: int):
    # 3.5 standard errors inside: the interval of 95 % is inside, and it is the one in the table;
    # that of 99 % is not.
    verdict = judge(processes(around(sign * (THRESHOLD - 0.0035), 0.001)), Rule())

    assert verdict.kind == Kind.INCONCLUSIVE
    assert verdict.ratio is not None
    assert 1 / 1.005 < verdict.ratio.low < verdict.ratio.high < 1.005
    assert verdict.reason != ""
    assert "across the threshold" not in verdict.reason


def test_the_ratio_comes_with_its_95_per_cent_interval_whatever_the_comparisons():
    verdict = judge(processes(around(0.02, 0.001)), Rule(comparisons=12))

    assert verdict.ratio == Estimate(
        pytest.approx(math.exp(0.02)),
        pytest.approx(math.exp(0.02 - T95 * 0.001), abs=1e-6),
        pytest.approx(math.exp(0.02 + T95 * 0.001), abs=1e-6),
    )


@pytest.mark.parametrize(
    ("control", "floor"),
    [
        (around(0.0, 0.004), 0.010282),
        # 0.3 % off, and 0.514 % of noise; on either side.
        (around(0.003, 0.002), 0.008141),
        (around(-0.003, 0.002), 0.008141),
    ],
)
def test_a_difference_has_to_be_beyond_the_floor_of_the_control(control: list[float], floor: float):
    for sign, kind in ((1, Kind.SLOWER), (-1, Kind.FASTER)):
        above = judge(processes([sign * (floor + 1e-5)] * 8, control), Rule())
        below = judge(processes([sign * (floor - 1e-5)] * 8, control), Rule())
        assert (above.kind, below.kind) == (kind, Kind.INCONCLUSIVE)
        assert above.reach == below.reach == pytest.approx(math.exp(floor) - 1, abs=2e-6)


def test_what_the_floor_hides_is_not_told_as_across_the_threshold():
    # The effect is 0.9 % without any noise: it is the control that is in the way.
    verdict = judge(processes([0.009] * 8, around(0.0, 0.004)), Rule())

    assert verdict.kind == Kind.INCONCLUSIVE
    assert "across the threshold" not in verdict.reason
    assert "control" in verdict.reason


def test_the_control_does_not_stand_against_no_difference():
    assert judge(processes([0.001] * 8, around(0.0, 0.004)), Rule()).kind == Kind.NO_DIFFERENCE


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_processes(count: int):
    verdict = judge(processes([0.1] * count), Rule())

    assert verdict.kind == Kind.INCONCLUSIVE
    assert verdict.reason == "fewer than two processes finished"
    assert verdict.ratio is None
    assert math.isnan(verdict.reach)
    assert math.isnan(verdict.detectable)


def test_two_processes_are_enough_if_they_agree():
    assert judge(processes([0.1, 0.1]), Rule()).kind == Kind.SLOWER


@pytest.mark.parametrize("effect", [0.0, 0.1, -0.1])
def test_a_busy_core(effect: float):
    # The median of the shares is 85 %.
    found = judge(processes([effect] * 5, shares=[1.0, 1.0, 0.85, 0.5, 0.2]), Rule())

    assert found.kind == Kind.INCONCLUSIVE
    assert found.reason == "busy core: the measuring processes got 85% of it"
    # What was seen is told nevertheless.
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(math.exp(effect))


@pytest.mark.parametrize("shares", [[0.9] * 5, [1.0, 1.0, 0.95, 0.1, 0.1]])
def test_a_core_that_is_busy_now_and_then_is_not_busy(shares: list[float]):
    assert judge(processes([0.1] * 5, shares=shares), Rule()).kind == Kind.SLOWER


@pytest.mark.parametrize(
    ("control", "told"),
    [(math.log(1.006), "0.60%"), (math.log(0.994), "0.60%"), (math.log(1.02), "2.00%")],
)
@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_a_control_that_is_off(control: float, told: str, effect: float):
    found = judge(processes([effect] * 4, [control] * 4), Rule())

    assert found.kind == Kind.INCONCLUSIVE
    assert found.reason == f"the control: two copies of the same code differ by {told}"


@pytest.mark.parametrize("controls", [(0.006, -0.006), (0.0, 0.006), (-0.006, 0.001)])
def test_a_control_of_either_arm_that_is_off(controls: tuple[float, float]):
    """What the copies of one arm are off by can cancel what those of the other are."""
    found = judge([Process(0.0, controls, 1.0, (2e-3, 2e-3))] * 4, Rule())

    assert found.kind == Kind.INCONCLUSIVE
    assert found.reason.startswith("the control: two copies of the same code differ by 0.6")


def test_a_process_that_is_far_off_weighs_little():
    effects = [*around(0.0, 0.0002), 0.5, -0.02]

    assert judge(processes(effects, shares=[1.0] * 10), Rule()).kind == Kind.NO_DIFFERENCE


def test_a_control_that_is_off_by_less_than_the_threshold():
    assert judge(processes([0.1] * 4, [0.0049] * 4), Rule()).kind == Kind.SLOWER
    assert judge(processes([0.0] * 4, [0.006] * 4), Rule(0.01)).kind == Kind.NO_DIFFERENCE


def test_drift():
    # The halves differ by 1 %, with standard errors of 0.0577 % each: 12 of their sum, where 9.9
    # (two degrees of freedom, 99 %) would still be chance.
    step = math.log(1.01)
    effects = [0.019, 0.020, 0.021, 0.019 + step, 0.020 + step, 0.021 + step]

    for found in (judge(processes(effects), Rule()), judge(processes(effects[::-1]), Rule())):
        assert found.kind == Kind.INCONCLUSIVE
        told = found.reason.removeprefix("drift: the second half of the processes differs by ")
        assert told in {"1.00%", "0.99%"}


@pytest.mark.parametrize(
    "effects",
    [
        # A step of 8.2 standard errors, which would be no chance at 95 % (4.3), but is at 99 %.
        [0.0185, 0.0200, 0.0215, 0.0285, 0.0300, 0.0315],
        # A clear step below the threshold.
        [0.020, 0.020, 0.020, 0.024, 0.024, 0.024],
        # Five processes are too few to tell.
        [0.050, 0.050, 0.060, 0.060, 0.060],
    ],
)
def test_no_drift(effects: list[float]):
    assert judge(processes(effects), Rule()).kind == Kind.SLOWER


def test_of_several_doubts_the_first_that_would_explain_the_others_is_told():
    effects = [0.0] * 3 + [0.1] * 3
    everything = judge(processes(effects, [0.1] * 6, [0.5] * 6), Rule())
    without_load = judge(processes(effects, [0.1] * 6), Rule())
    drift_alone = judge(processes(effects), Rule())

    reasons = [found.reason.split()[:2] for found in (everything, without_load, drift_alone)]
    assert reasons == [["busy", "core:"], ["the", "control:"], ["drift:", "the"]]


def test_detectable_is_limit_and_interval_and_what_makes_sure_of_it():
    # 0.0049875 + 3.584 x 0.001 + 2.326 x 0.001, and with a floor of 1.028 % in the place of the
    # threshold; at ten comparisons with 4.773.
    alone = judge(processes(around(0.0, 0.001)), Rule())
    assert alone.detectable == pytest.approx(math.expm1(0.0108975), abs=2e-6)
    floor = judge(processes(around(0.0, 0.001), around(0.0, 0.004)), Rule())
    assert floor.detectable == pytest.approx(math.expm1(0.016192), abs=5e-6)
    of_ten = judge(processes(around(0.0, 0.001)), Rule(comparisons=10))
    assert of_ten.detectable == pytest.approx(math.expm1(0.0120865), abs=2e-6)


def test_detectable_does_not_depend_on_what_is_there():
    assert judge(processes(around(0.05, 0.001)), Rule()).detectable == pytest.approx(
        judge(processes(around(0.0, 0.001)), Rule()).detectable
    )


def test_what_is_detectable_is_detected():
    rng = random.Random(1)

    def run(effect: float) -> Verdict:
        effects = [effect + rng.gauss(0, 0.0036) for _ in range(20)]
        return judge(processes(effects), Rule())

    told = [run(0.0).detectable for _ in range(200)]
    effect = math.log1p(sum(told) / len(told))
    found = [run(effect).kind for _ in range(500)]
    # About 97 of 100, by 6,000 more runs: drift that is none takes one, and the figure told is an
    # estimate. Three standard deviations less.
    assert found.count(Kind.SLOWER) >= 475
    # It is about the smallest such: half way to the threshold less than that is found.
    smaller = [run((effect + THRESHOLD) / 2).kind for _ in range(500)]
    assert smaller.count(Kind.SLOWER) <= 350


@pytest.mark.parametrize(
    ("kind", "ratio", "words"),
    [
        (Kind.NO_DIFFERENCE, (1.0, 0.999, 1.001), "no difference beyond 2.00%"),
        # Clearly beside 1, but not by as much as matters.
        (Kind.NO_DIFFERENCE, (1.011, 1.009, 1.013), "1.10% slower, within 2.00%"),
        (Kind.NO_DIFFERENCE, (0.992, 0.99, 0.994), "0.80% faster, within 2.00%"),
        (Kind.SLOWER, (1.05, 1.04, 1.06), "slower"),
        (Kind.FASTER, (0.9, 0.89, 0.91), "faster"),
        (Kind.INCONCLUSIVE, (1.011, 1.009, 1.013), "inconclusive"),
        (Kind.NO_DIFFERENCE, None, "no difference beyond 2.00%"),
    ],
)
def test_in_words_no_difference_has_its_threshold(
    kind: Kind, ratio: tuple[float, float, float] | None, words: str
):
    verdict = Verdict(kind, ratio=Estimate(*ratio) if ratio else None)
    assert verdict_words(verdict, 0.02) == words


@pytest.mark.parametrize(
    ("typical", "mean", "words"),
    [
        # A cost is a cost, also where it is not the typical step's.
        ((1.0, 0.999, 1.001), (1.012, 1.008, 1.016), "1.20% slower in the mean, within 2.00%"),
        ((1.0, 0.999, 1.001), (1.001, 0.996, 1.006), "no difference beyond 2.00%"),
        # The typical one, which is sharper, speaks for both.
        ((1.011, 1.009, 1.013), (1.013, 1.009, 1.017), "1.10% slower, within 2.00%"),
        # Unless the mean contradicts it.
        (
            (0.992, 0.99, 0.994),
            (1.005, 1.002, 1.008),
            "0.80% faster, 0.50% slower in the mean, within 2.00%",
        ),
    ],
)
def test_a_mean_that_is_clearly_beside_1_is_said(
    typical: tuple[float, float, float], mean: tuple[float, float, float], words: str
):
    verdict = Verdict(Kind.NO_DIFFERENCE, ratio=Estimate(*typical), mean=Estimate(*mean))
    assert verdict_words(verdict, 0.02) == words
