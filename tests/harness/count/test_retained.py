"""Memory that an arm keeps: nothing that it should have let go of passes unseen."""

from collections.abc import Iterator

import pytest

from connector.incremental import KvCacheConnectorSchedulerOutputManager as Incremental
from harness.arms.registry import ARMS, create_arm
from harness.count.budget import check, update
from harness.count.retained import retained_bytes
from harness.count.work import Work
from scenarios.scenario import SteadyDecode

from ..subjects import leaking

CELLS = [
    SteadyDecode(requests=4, tokens=256),
    SteadyDecode(requests=4, tokens=256, manager="v1"),
]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    leaking.kept.clear()


class Equal(Incremental):
    """Of the size that the subjects have, which are classes of their own as well."""


class OnceForAll(Incremental):
    """Keeps something in its class, but no more with each instance."""

    known: dict[int, str] = {}  # noqa: RUF012 - shared on purpose

    def __init__(self) -> None:
        super().__init__()
        for number in range(100):
            self.known.setdefault(number, f"a string of some length, number {number}")


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
@pytest.mark.parametrize("subject", ["KvCacheConnectorSchedulerOutputManager", "Globally"])
def test_outputs_that_are_kept_are_seen(cell: SteadyDecode, subject: str):
    makes = {"equal": Equal, "leaking": getattr(leaking, subject)}
    kept = retained_bytes(makes, cell, 0)
    # One output of four requests at least: an object and its dictionary, lists and their numbers.
    assert kept["leaking"] > kept["equal"] + 4 * 100


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_what_a_class_keeps_once_for_all_is_none_of_it(cell: SteadyDecode):
    kept = retained_bytes({"equal": Equal, "once": OnceForAll}, cell, 0)
    assert kept["once"] == kept["equal"]


def test_a_leak_is_seen_whatever_other_arms_there_are():
    makes = {name: (lambda name=name: create_arm(name)) for name in ARMS}
    alone = retained_bytes({"incremental": makes["incremental"]}, CELLS[0], 0)
    beside = retained_bytes(makes | {"leaking": leaking.Globally}, CELLS[0], 0)
    assert beside["incremental"] == alone["incremental"]
    assert beside["leaking"] > beside["incremental"]


def test_a_leak_is_over_the_budget_of_the_arm_that_does_not_leak():
    cell = CELLS[0]
    works = []
    for make in (Equal, leaking.Globally):
        work = Work(cell, "incremental", 1, 4, 1024)
        work.totals["retained_bytes"] = retained_bytes({"it": make}, cell, 0)["it"]
        works.append(work)
    budget = update(None, works[:1], 0, whole=True)

    finding = check(budget, works[1:], whole=True)

    assert [(one.arm, one.figure) for one in finding.excesses] == [
        ("incremental", "retained_bytes")
    ]
