"""The mutants of a source."""

import pytest

pytest.importorskip("cosmic_ray")

from harness.verify.mutation import Mutant, mutants

SOURCE = '''\
"""A module."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elsewhere import Thing

LIMIT: int = 3


def work(first: "int | None", second: int = 1, *, third: "Thing | int" = None) -> "int | str":
    """Do it."""
    logger.warning("1 + 2")
    from math import floor

    kept = list(first)
    other = kept[:]
    for each in kept.copy():
        if each is not None and each < LIMIT:
            continue
        call(first, second, third=third, fourth=other)
    return kept + other
'''


def texts(*operators: str) -> set[tuple[str, str]]:
    return {
        (mutant.before, mutant.after)
        for mutant in mutants(SOURCE)
        if mutant.operator.startswith(operators)
    }


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (
            "DropCopy",
            {
                ("kept = list(first)", "kept = (first)"),
                ("other = kept[:]", "other = kept"),
                ("for each in kept.copy():", "for each in kept:"),
            },
        ),
        (
            "SwapArguments",
            {
                (
                    "call(first, second, third=third, fourth=other)",
                    "call(second, first, third=third, fourth=other)",
                ),
                (
                    "call(first, second, third=third, fourth=other)",
                    "call(first, second, third=other, fourth=third)",
                ),
            },
        ),
        ("ReplaceContinueWithBreak", {("continue", "break")}),
        ("ZeroIterationForLoop", {("for each in kept.copy():", "for each in []:")}),
        (
            "ReplaceAndWithOr",
            {
                (
                    "if each is not None and each < LIMIT:",
                    "if each is not None or each < LIMIT:",
                )
            },
        ),
        (
            "ReplaceBinaryOperator_Add_Sub",
            {("return kept + other", "return kept - other")},
        ),
    ],
)
def test_an_operator_changes_each_place(operator: str, expected: set[tuple[str, str]]):
    assert texts(operator) == expected


def test_statements_are_removed_one_by_one():
    removed = {before for before, after in texts("RemoveStatement") if after == "pass"}
    assert {"LIMIT: int = 3", "from math import floor", "kept = list(first)", "continue"} <= removed
    assert {"return kept + other", "call(first, second, third=third, fourth=other)"} <= removed


def test_what_cannot_matter_is_left_alone():
    """Annotations, docstrings, imports for type checkers, calls that log."""
    for before, after in texts(""):
        assert "TYPE_CHECKING" not in before
        assert "logger" not in before
        assert '"""' not in before
        if before.startswith("def work"):
            # Of a signature a default alone.
            defaults = [before.replace("int = 1", f"int = {number}") for number in (0, 2)]
            assert after in defaults


def test_mutants_are_numbered_by_line_and_told_apart_when_they_read_alike():
    twice = "def f(a):\n    a = a + 1\n    a = a + 1\n    return a\n"
    found = mutants(twice)

    assert [mutant.number for mutant in found] == list(range(1, len(found) + 1))
    assert [mutant.line for mutant in found] == sorted(mutant.line for mutant in found)
    assert len({mutant.key for mutant in found}) == len({mutant.text for mutant in found})
    alike = [mutant for mutant in found if mutant.after == "a = a - 1"]
    assert [(mutant.line, mutant.occurrence) for mutant in alike] == [(2, 0), (3, 1)]
    assert mutants(twice) == found


def test_all_but_one_place_stays_as_it_is():
    for mutant in mutants(SOURCE):
        assert isinstance(mutant, Mutant)
        assert mutant.text != SOURCE
        rest = mutant.text.splitlines()
        assert rest[: mutant.line - 1] == SOURCE.splitlines()[: mutant.line - 1]
