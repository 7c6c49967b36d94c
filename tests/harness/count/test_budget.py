"""The budget file: what is written is read again, and what differs is found."""

import os
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.count.budget import (
    PYTHON,
    Budget,
    Excess,
    Figures,
    check,
    check_seed,
    is_counted,
    load_budget,
    other_pythons,
    parse_budget,
    update,
    write_budget,
)
from harness.count.work import FIGURES, VERSION_FIGURES, Work
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError, NoBaselineError

SMALL = SteadyDecode(requests=2, tokens=64)
LARGE = SteadyDecode(requests=2, tokens=128, tokens_per_block=16)
S, L = "v2-2x64", "v2-2x128-block=16"


def make_work(
    scenario: SteadyDecode | TraceReplay = SMALL,
    arm: str = "an-arm",
    *,
    without: str = "",
    **figures: float,
) -> Work:
    """Work of four iterations; each figure is 10 per iteration where nothing else is said."""
    work = Work(scenario, arm, 4, 8, 512)
    values = dict.fromkeys(FIGURES, 10.0) | figures
    work.totals = Counter({name: 4 * value for name, value in values.items() if name != without})
    return work


def figures(without: str = "", **values: float | dict[str, float]) -> Figures:
    """The budget that just allows ``make_work`` with these values."""
    found: Figures = {}
    for name in FIGURES:
        value = values.get(name, 10)
        if name in VERSION_FIGURES and not isinstance(value, dict):
            value = {PYTHON: value}
        if name != without:
            found[name] = value
    return found


def save(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_written_is_read_again(tmp_path: Path):
    budget = Budget(
        7,
        {
            S: {"an-arm": figures(tokens=25.5, bytecodes={"3.9": 1, "3.11": 2.25}), "b": {}},
            L: {"an-arm": figures(without="retained_bytes", objects=1 / 3)},
        },
    )
    write_budget(tmp_path / "b.toml", budget)

    read = load_budget(tmp_path / "b.toml")

    assert read == budget
    assert list(read.cells) == [S, L]
    assert list(read.cells[S]["an-arm"]) == list(FIGURES)
    assert list(read.cells[S]["an-arm"]["bytecodes"]) == ["3.9", "3.11"]  # type: ignore[arg-type]


def test_the_file_is_readable_and_says_what_it_is(tmp_path: Path):
    cells = {S: {"an-arm": {"tokens": 25.5, "bytecodes": {"3.11": 790.0, "3.12": 1e17}}}}
    write_budget(tmp_path / "b.toml", Budget(3, cells))  # type: ignore[arg-type]

    assert (tmp_path / "b.toml").read_text() == (
        "# What each arm may do per iteration: a mean over the iterations that `stepbench count` "
        "counts.\n"
        "# Written by `stepbench count --update`, checked by `stepbench count --check`.\n"
        "\n"
        "seed = 3\n"
        "\n"
        "[v2-2x64.an-arm]\n"
        "tokens = 25.5\n"
        'bytecodes = { "3.11" = 790, "3.12" = 100000000000000000 }\n'
    )


STRANGE = (
    "a b",
    'say "hi"',
    "it's",
    "dot.ted",
    "back\\slash",
    "#x=[1]",
    "größe",
    "請求",
    "🙂",
    "]",
)


@pytest.mark.parametrize("stem", STRANGE)
def test_names_of_traces_survive(tmp_path: Path, stem: str):
    work = make_work(TraceReplay(path=f"/data/{stem}.csv", max_batch=8), "an-arm")
    write_budget(tmp_path / "b.toml", update(None, [work], 0, whole=True))

    budget = load_budget(tmp_path / "b.toml")

    assert list(budget.cells) == [f"v2-trace={Path(stem + '.csv').stem}-batch=8"]
    assert check(budget, [work], whole=True).missing == ()


@given(st.text(st.characters().filter(str.isprintable), min_size=1))
def test_any_printable_name_survives(name: str):
    assume("seed" not in (name, name + "x"))  # No cell of ours is called like the seed.
    lines: list[str] = []
    budget = Budget(0, {name: {"a": {"tokens": 1}}, name + "x": {name: {"tokens": 2}}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "harness.count.budget.write_atomically", lambda _, write: write(Keeping(lines))
        )
        write_budget(Path("unused"), budget)

    assert tomllib.loads("".join(lines)) == {"seed": 0, **budget.cells}


class Keeping:
    """What is written to it goes to a list."""

    def __init__(self, lines: list[str]) -> None:
        self.write = lines.append


def test_work_as_it_was_is_within_the_budget():
    works = [make_work(), make_work(LARGE, tokens=3.25)]
    found = check(update(None, works, 0, whole=True), works, whole=True)
    assert (found.checked, found.excesses, found.below, found.missing) == (22, (), 0, ())


def test_each_excess_is_found_with_both_values():
    budget = Budget(0, {S: {"an-arm": figures(tokens=9.75, bytecodes=9)}, L: {"b": figures()}})
    works = [make_work(), make_work(LARGE, "b", objects=10.25)]

    found = check(budget, works, whole=True)

    assert found.excesses == (
        Excess(S, "an-arm", "tokens", 9.75, 10),
        Excess(S, "an-arm", "bytecodes", 9, 10),
        Excess(L, "b", "objects", 10, 10.25),
    )
    assert (found.checked, found.below, found.missing) == (22, 0, ())


def test_a_figure_below_its_budget_is_no_excess():
    budget = Budget(0, {S: {"an-arm": figures(tokens=11, pickled_bytes=10.25, objects=9)}})
    found = check(budget, [make_work()], whole=True)
    assert (found.below, [excess.figure for excess in found.excesses]) == (2, ["objects"])


@pytest.mark.parametrize("figure", FIGURES)
def test_nothing_may_be_done_where_the_budget_is_zero(figure: str):
    budget = Budget(0, {S: {"an-arm": figures(**{figure: 0})}})
    found = check(budget, [make_work()], whole=True)
    assert found.excesses == (Excess(S, "an-arm", figure, 0, 10),)


def test_what_has_no_budget_is_missing():
    budget = Budget(0, {S: {"an-arm": figures()}})
    works = [make_work(), make_work(arm="new"), make_work(LARGE)]
    for whole in (True, False):
        found = check(budget, works, whole=whole)
        assert found.missing == (f"{S}, new: no budget", f"{L}, an-arm: no budget")
        assert (found.checked, found.excesses) == (11, ())


def test_what_has_gone_missing_is_missing_from_the_whole_alone():
    budget = Budget(0, {S: {"an-arm": figures(), "gone": figures()}, L: {"an-arm": figures()}})
    assert check(budget, [make_work()], whole=True).missing == (
        f"{S}, gone: in the budget, but not counted",
        f"{L}, an-arm: in the budget, but not counted",
    )
    assert check(budget, [make_work()], whole=False).missing == ()


def test_another_python_has_no_budget_of_what_depends_on_it():
    budget = Budget(
        0, {S: {"an-arm": figures(**{key: {"2.7": 1} for key in VERSION_FIGURES}, hashes=9)}}
    )
    found = check(budget, [make_work()], whole=True)
    assert found.missing == tuple(
        f"{S}, an-arm: no budget of {name} for Python {PYTHON}"
        for name in ("bytecodes", "engine_bytecodes", "retained_bytes")
    )
    assert found.checked == 8
    assert [excess.figure for excess in found.excesses] == ["hashes"]


def test_a_figure_without_a_budget_is_missing_and_one_that_is_not_counted_is_not():
    budget = Budget(0, {S: {"an-arm": figures(without="tokens")}})
    work = make_work(without="retained_bytes")
    found = check(budget, [work], whole=True)
    assert found.missing == (f"{S}, an-arm: no budget of tokens",)
    assert (found.checked, found.excesses) == (9, ())


def test_an_update_of_the_whole_keeps_nothing_but_other_pythons():
    old = Budget(
        0, {S: {"an-arm": figures(bytecodes={"3.99": 5, "3.10": 4}), "gone": figures()}, L: {}}
    )
    new = update(old, [make_work(tokens=2.5)], 0, whole=True)
    numbers = {"3.99": 5, "3.10": 4, PYTHON: 10}
    assert new == Budget(0, {S: {"an-arm": figures(tokens=2.5, bytecodes=numbers)}})


def test_an_update_of_a_part_keeps_other_cells_and_arms():
    stays = figures(tokens=99)
    old = Budget(4, {L: {"other": stays}, S: {"other": stays, "an-arm": figures(tokens=1)}})
    works = [make_work(tokens=2.5), make_work(arm="new", without="retained_bytes")]
    new = update(old, works, 4, whole=False)
    assert new == Budget(
        4,
        {
            L: {"other": stays},
            S: {
                "other": stays,
                "an-arm": figures(tokens=2.5),
                "new": figures(without="retained_bytes"),
            },
        },
    )
    assert old.cells[S]["an-arm"]["tokens"] == 1
    assert "new" not in old.cells[S]


def test_a_part_must_be_counted_with_the_seed_of_the_rest():
    old = Budget(4, {S: {"an-arm": figures()}})
    with pytest.raises(InputError, match="the budget was counted with seed 4, not 5"):
        update(old, [make_work()], 5, whole=False)
    with pytest.raises(InputError, match="seed 4, not 5"):
        check_seed(old, 5)
    assert update(old, [make_work()], 5, whole=True).seed == 5
    assert update(None, [make_work()], 5, whole=False).seed == 5


def test_figures_of_other_pythons_do_not_outlive_their_seed():
    old = Budget(0, {S: {"an-arm": figures(bytecodes={"3.99": 5})}})
    assert update(old, [make_work()], 1, whole=True) == Budget(1, {S: {"an-arm": figures()}})


def test_a_file_that_is_not_there_is_nothing_to_compare_with(tmp_path: Path):
    with pytest.raises(NoBaselineError) as caught:
        load_budget(tmp_path / "b.toml")
    assert str(caught.value) == f"{tmp_path}/b.toml: no such budget file; --update writes one"


NUMBER = "is no number, or not by Python version as it should"
DAMAGED = [
    ("seed = ", "not a TOML file"),
    ("seed = 0\nseed = 1", "not a TOML file"),
    ("", "the seed is missing or no whole number"),
    ('seed = "0"', "the seed is missing or no whole number"),
    ("seed = 0.0", "the seed is missing or no whole number"),
    ("seed = true", "the seed is missing or no whole number"),
    ("seed = 0\nx = 3", ": x: not a table of figures"),
    ("seed = 0\n[x]\na = 3", ": x, a: not a table of figures"),
    ("seed = 0\n[[x]]\na = 3", ": x: not a table of figures"),
    ("seed = 0\n[x.a]\nspeed = 3", ": x, a: unknown figure 'speed'"),
    ('seed = 0\n[x.a]\ntokens = "3"', f": x, a: tokens {NUMBER}"),
    ("seed = 0\n[x.a]\ntokens = true", f": x, a: tokens {NUMBER}"),
    ("seed = 0\n[x.a]\ntokens = [3]", f": x, a: tokens {NUMBER}"),
    ('seed = 0\n[x.a]\ntokens = {"3.11" = 3}', f": x, a: tokens {NUMBER}"),
    ("seed = 0\n[x.a]\nbytecodes = 3", f": x, a: bytecodes {NUMBER}"),
    ('seed = 0\n[x.a]\nbytecodes = {"3.11" = "3"}', f": x, a: bytecodes {NUMBER}"),
    ("seed = 0\n[x.a]\nbytecodes = {3.11 = 3}", f": x, a: bytecodes {NUMBER}"),
    # Nothing exceeds them, and they could not be written again.
    ("seed = 0\n[x.a]\ntokens = nan", ": x, a: tokens is no"),
    ('seed = 0\n[x.a]\nbytecodes = {"3.11" = inf}', ": x, a: bytecodes is no"),
    # What tomllib itself stumbles over.
    ("seed = 0\nx = " + "[" * 50_000, "b.toml: "),
    ("seed = " + "9" * 5_000, "b.toml: "),
]


@pytest.mark.parametrize(
    ("text", "message"),
    DAMAGED,
    ids=[text[:40].replace("\n", " ") or "empty" for text, _ in DAMAGED],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str, message: str):
    path = save(tmp_path / "b.toml", text)
    with pytest.raises(InputError) as caught:
        load_budget(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_bytes_that_are_no_text_and_a_folder_are_one_line(tmp_path: Path):
    (tmp_path / "b.toml").write_bytes(b"seed = 0 # \xff")
    with pytest.raises(InputError, match=r"b\.toml: it is not text"):
        load_budget(tmp_path / "b.toml")
    with pytest.raises(InputError) as caught:
        load_budget(tmp_path)
    assert str(caught.value) == f"{tmp_path}: Is a directory"
    with pytest.raises(InputError, match=r"b\.toml/c\.toml: Not a directory"):
        load_budget(tmp_path / "b.toml/c.toml")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_one_line(tmp_path: Path):
    path = save(tmp_path / "b.toml", "seed = 0")
    path.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        load_budget(path)


def test_a_text_is_read_as_a_file_is(tmp_path: Path):
    budget = Budget(7, {S: {"an-arm": figures(tokens=25.5)}})
    write_budget(tmp_path / "b.toml", budget)
    assert parse_budget((tmp_path / "b.toml").read_text(), "b.toml") == budget
    with pytest.raises(InputError, match=r"^v1:b\.toml: the seed is missing"):
        parse_budget("", "v1:b.toml")


def test_what_an_update_writes_is_what_is_counted():
    old = Budget(3, {S: {"an-arm": figures(bytecodes={"3.9": 1, PYTHON: 5})}, L: {"gone": {}}})
    works = [make_work(tokens=25.25), make_work(without="retained_bytes", arm="other")]
    assert is_counted(update(old, works, 3, whole=True), works)
    assert is_counted(update(None, works, 3, whole=True), works)


CELLS = {S: {"an-arm": figures()}}
BY_HAND = {
    "raised": {S: {"an-arm": figures(tokens=10.5)}},
    "lowered": {S: {"an-arm": figures(tokens=9)}},
    "raised for this Python": {S: {"an-arm": figures(bytecodes={PYTHON: 11})}},
    "not there for this Python": {S: {"an-arm": figures(bytecodes={"3.9": 10})}},
    "a figure less": {S: {"an-arm": figures(without="hashes")}},
    "another arm": {S: {"an-arm": figures(), "other": figures()}},
    "another cell": CELLS | {L: {"an-arm": figures()}},
    "an empty cell": CELLS | {L: {}},
}


@pytest.mark.parametrize("how", BY_HAND)
def test_a_budget_that_differs_from_what_is_counted_is_none(how: str):
    assert is_counted(Budget(0, CELLS), [make_work()])
    assert not is_counted(Budget(0, BY_HAND[how]), [make_work()])


def test_a_figure_that_was_not_counted_is_no_budget():
    assert not is_counted(Budget(0, CELLS), [make_work(without="retained_bytes")])


def test_other_pythons_are_those_whose_figures_differ():
    def budget(bytecodes: dict[str, float], **others: dict[str, float]) -> Budget:
        return Budget(0, {S: {"an-arm": figures(bytecodes=bytecodes, **others)}})

    one = budget({PYTHON: 10, "3.9": 1, "3.10": 2, "3.8": 3})
    assert other_pythons(one, one) == []
    assert other_pythons(one, budget({PYTHON: 11, "3.9": 1, "3.10": 2, "3.8": 3})) == []
    assert other_pythons(one, budget({PYTHON: 10, "3.9": 1, "3.10": 2.5, "3.7": 3})) == [
        "3.10",
        "3.7",
        "3.8",
    ]
    moved = budget({PYTHON: 10, "3.10": 2, "3.8": 3}, retained_bytes={PYTHON: 10, "3.9": 1})
    assert other_pythons(one, moved) == ["3.9"]
    assert other_pythons(Budget(0, {}), one) == ["3.10", "3.8", "3.9"]
