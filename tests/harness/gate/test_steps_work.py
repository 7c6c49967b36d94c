"""What the gate makes of counted work and its growth; the counts are made up."""

from pathlib import Path

import pytest

from harness.count.budget import load_budget, update, write_budget
from harness.count.work import Variation
from harness.gate import work as gate_work
from harness.gate.config import Outcome, Step
from stepbench_core.errors import InputError

from ..gate_worlds import FOUND, NOTHING, PASSED, World, make_works, run, save


def test_work_over_budget_is_a_finding_that_names_it(world: World):
    world.works = make_works(tokens=11, bytecodes=12.5)

    step = run()["exact work"]

    assert (step.outcome, step.summary) == (FOUND, "2 figures over budget")
    assert step.details.splitlines() == [
        "- over budget: v2-8x128, batched: tokens 11 per iteration, budget 10",
        "- over budget: v2-8x128, batched: bytecodes 12.5 per iteration, budget 10",
    ]


def test_work_below_budget_passes(world: World):
    world.works = make_works(tokens=9)
    assert run()["exact work"].outcome is PASSED


@pytest.mark.parametrize(
    ("own", "base", "outcome"),
    [(True, "seed = 1", NOTHING), (True, None, NOTHING), (False, "seed = 1", PASSED)],
)
def test_a_budget_that_was_raised_by_hand_is_no_budget(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    own: bool,
    base: str | None,
    outcome: Outcome,
):
    # Figures are below it, and it is not what it was at the base, where it belongs to the project.
    if own:
        monkeypatch.setattr(gate_work, "ROOT", Path.cwd())
    world.base["budgets.toml"] = base
    world.works = make_works(tokens=9)
    step = run()["exact work"]
    assert step.outcome is outcome
    assert ("1 figures are below it" in step.summary) == (outcome is NOTHING)


@pytest.fixture
def at_base(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget file belongs to the project, and the base has it."""
    monkeypatch.setattr(gate_work, "ROOT", Path.cwd())
    world.base["budgets.toml"] = Path("budgets.toml").read_text()


@pytest.mark.usefixtures("at_base")
def test_a_budget_that_is_what_is_counted_may_change(world: World):
    world.works = make_works(tokens=12, bytecodes=8)
    write_budget(Path("budgets.toml"), update(None, world.works, 0, whole=True))
    # The larger figure is told: somebody should see that it was accepted.
    words = "44 figures within their budget; 1 budgets were raised"
    raised = "- raised: v2-8x128, batched: tokens 10 -> 12"
    assert run()["exact work"] == Step("exact work", PASSED, words, raised)


@pytest.mark.usefixtures("world", "at_base")
@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("[v2-9x9.batched]", "v2-9x9, batched: in the budget, but not counted"),
        (
            "[v2-9x9]",
            "budgets.toml differs from HEAD~1 and is not what a whole `stepbench count --update`",
        ),
    ],
)
def test_a_budget_of_what_is_not_there_is_nothing_to_compare_with(table: str, text: str):
    save("budgets.toml", f"{Path('budgets.toml').read_text()}\n{table}\n")
    step = run()["exact work"]
    assert step.outcome is NOTHING
    assert text in step.summary + step.details


@pytest.mark.usefixtures("at_base", "world")
def test_what_changed_for_other_pythons_is_said_to_be_unchecked():
    budget = load_budget(Path("budgets.toml"))
    for arm in ("batched", "floor"):
        bytecodes = budget.cells["v2-8x64"][arm]["bytecodes"]
        assert isinstance(bytecodes, dict)
        bytecodes["3.9"] = 7
    write_budget(Path("budgets.toml"), budget)
    assert run()["exact work"] == Step(
        "exact work",
        PASSED,
        "44 figures within their budget; those that changed for Python 3.9 can only be checked "
        "there",
    )


def test_a_budget_of_another_seed_is_nothing_to_compare_with(world: World):
    write_budget(Path("budgets.toml"), update(None, make_works(), 3, whole=True))
    step = run()["exact work"]
    assert (step.outcome, step.summary) == (
        NOTHING,
        "the budget was counted with seed 3, not 0",
    )
    assert world.timed == []


@pytest.mark.parametrize("how", ["no file", "damaged", "no cell", "cell gone", "not counted"])
def test_without_a_budget_there_is_nothing_to_compare_with(world: World, how: str):
    works = make_works()
    if how == "no file":
        Path("budgets.toml").unlink()
    elif how == "damaged":
        save("budgets.toml", "seed = ")
    elif how == "no cell":
        write_budget(Path("budgets.toml"), update(None, works[:2], 0, whole=True))
    elif how == "cell gone":
        world.works = works[:2]
    else:
        world.works = InputError("the cells would not fit the memory")
    assert run()["exact work"].outcome is NOTHING


def test_one_figure_over_budget_weighs_more_than_a_missing_budget(world: World):
    write_budget(Path("budgets.toml"), update(None, make_works()[2:], 0, whole=True))
    world.works = make_works(tokens=11)
    step = run()["exact work"]
    assert step.outcome is FOUND
    assert "v2-8x64, batched: no budget" in step.details


@pytest.mark.parametrize(
    ("figure", "value", "limit", "outcome"),
    [
        ("tokens", 20, 1.0, PASSED),
        ("tokens", 20, 0.999, FOUND),
        ("objects", 10.1, 0.01, FOUND),  # 0.0144.
        ("objects", 10.06, 0.01, PASSED),  # 0.0086.
        ("native_calls", 0, 0.5, FOUND),  # 0 in one cell alone.
        ("bytecodes", 5, 0.0, PASSED),
        ("retained_bytes", 1_000, 0.01, PASSED),  # Memory is no work.
    ],
)
def test_growth_beyond_its_limit_is_a_finding(
    world: World, figure: str, value: float, limit: float, outcome: Outcome
):
    world.works = make_works(**{figure: value})
    step = run(growth={"batch*": limit})["growth"]
    assert step.outcome is outcome
    named = f"- v2, batched: {figure} grows with the context to the power of "
    assert step.details.startswith(named) == (outcome is FOUND)


def test_nobody_is_held_to_what_differs_between_two_runs(world: World):
    world.works = make_works(tokens=20, objects=20)
    work = world.works[2]
    work.variations = [Variation("tokens", 10, 20, by_hash=False)]

    steps = run(growth={"batch*": 0.01})

    assert steps["exact work"].summary == "1 figures over budget"
    told = "- work differs between two runs under one hash seed: batched in v2-8x128: tokens 10 to"
    assert told in steps["exact work"].details
    assert "objects grows with" in steps["growth"].details
    assert "tokens grows with" not in steps["growth"].details


def test_what_depends_on_the_hash_seed_is_told_and_compared(world: World):
    world.works = make_works()
    world.works[2].variations = [Variation("tokens", 10, 20, by_hash=True)]

    step = run()["exact work"]

    assert (step.outcome, step.summary[:30]) == (PASSED, "44 figures within their budget")
    assert step.details == "- work depends on the hash seed: batched in v2-8x128: tokens 10 to 20"


def test_growth_without_a_limit_is_none_of_its_business(world: World):
    world.works = make_works(tokens=20)
    assert run()["growth"].outcome is PASSED


def test_an_infinite_slope_is_beyond_every_limit(world: World):
    world.works = make_works(page_indices=0)
    assert run(growth={"*": 1e300})["growth"].outcome is FOUND
