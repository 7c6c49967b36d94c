"""A few of the moments that ``nox -s signals`` tries by the hundred."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .signal_storm import QUICK, Moment, moments, place, strike

SEED = 12


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with place() as folder:
        yield folder


@pytest.mark.parametrize(
    "moment",
    list(moments(len(QUICK), SEED, QUICK, 2.0)),
    ids=lambda one: f"{one.name}-{one.seconds}",
)
def test_nothing_is_left_of_a_command(folder: Path, moment: Moment):
    assert strike(moment, folder) is None
