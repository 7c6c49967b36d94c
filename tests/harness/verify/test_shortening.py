"""The shortest list of operations that still fails."""

from collections.abc import Sequence

from harness.verify.shortening import shorten
from scenarios.operations import Operation

REPORT = Operation("report")


def test_shortening_leaves_nothing_that_can_go():
    operations = [Operation("generate", (number % 5, number)) for number in range(30)]

    def fails(rest: Sequence[Operation]) -> bool:
        # Two operations in this order, and any third one.
        numbers = [operation.numbers[1] for operation in rest]
        return 9 in numbers and 21 in numbers[numbers.index(9) :] and len(rest) >= 3

    shortest = shorten(operations, fails)

    assert fails(shortest)
    assert len(shortest) == 3
    assert not any(fails(shortest[:i] + shortest[i + 1 :]) for i in range(3))
    assert {operation.numbers[0] for operation in shortest} == {0}


def test_shortening_keeps_a_prompt_and_a_chunk_of_at_least_one_token():
    operations = [Operation("join", (8, 5, 2, 1, 1, 1)), Operation("chunk", (4, 9)), REPORT]

    assert shorten(operations, lambda rest: len(rest) == 3) == [
        Operation("join", (1, 0, 0, 0, 0, 0)),
        Operation("chunk", (0, 1)),
        REPORT,
    ]
    assert shorten(operations, lambda _rest: True) == []


def test_a_list_is_shortened_to_what_fails():
    operations = [Operation("generate", (number, 4)) for number in range(40)]

    def fails(rest: object) -> bool:
        numbers = [operation.numbers[0] for operation in rest]
        return 7 in numbers and 31 in numbers

    assert shorten(operations, fails) == [
        Operation("generate", (7, 0)),
        Operation("generate", (31, 0)),
    ]
