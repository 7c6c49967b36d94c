"""What stands of a difference once it was repeated, and the verdict on all cells together."""

import pytest

from harness.compare.figure import Kind
from harness.compare.verdict import NOT_MEASURED, Verdict, overall, settle
from harness.stats.estimates import Estimate

S, F, N, X = Kind.SLOWER, Kind.FASTER, Kind.NO_DIFFERENCE, Kind.INCONCLUSIVE

# What the first run showed, and the figures of the second.
FIRST = (Estimate(1.02, 1.01, 1.03), 0.003, 0.008)
SECOND = (Estimate(1.03, 1.02, 1.04), 0.001, 0.007)


@pytest.mark.parametrize("kind", [S, F])
def test_a_difference_that_is_repeated_stands_with_the_figures_of_the_second_run(kind: Kind):
    again = Verdict(kind, "", *SECOND)

    assert settle(Verdict(kind, "", *FIRST), again, 0.02) == again


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (S, F, "slower at first, but faster when it was repeated"),
        (S, N, "slower at first, but no difference beyond 2.00% when it was repeated"),
        (F, S, "faster at first, but slower when it was repeated"),
        (F, N, "faster at first, but no difference beyond 2.00% when it was repeated"),
    ],
)
def test_a_repetition_that_contradicts_is_no_verdict(first: Kind, second: Kind, reason: str):
    settled = settle(Verdict(first, "", *FIRST), Verdict(second, "", *SECOND), 0.02)

    assert settled == Verdict(X, reason, *SECOND)


@pytest.mark.parametrize("first", [S, F])
def test_a_repetition_that_is_not_clear_is_told_from_one_that_contradicts(first: Kind):
    again = Verdict(X, "busy core: the measuring processes got 85% of it", *SECOND)

    settled = settle(Verdict(first, "", *FIRST), again, 0.02)

    assert settled == Verdict(
        X,
        f"{first.value} at first, but its repetition was not clear: "
        "busy core: the measuring processes got 85% of it",
        *SECOND,
    )


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        ([N, X, F, S], S),
        ([F, N, X], X),
        ([N, F, N], F),
        ([N, N], N),
        ([X], X),
        # Nothing was measured: that is no pass.
        ([], X),
    ],
)
def test_the_verdict_on_the_whole(kinds: list[Kind], whole: Kind):
    assert overall(kinds) == overall(reversed(kinds)) == whole


def test_what_was_not_measured_is_inconclusive():
    assert NOT_MEASURED.kind == Kind.INCONCLUSIVE
    assert NOT_MEASURED.reason == "not measured"
    assert not NOT_MEASURED.is_difference
