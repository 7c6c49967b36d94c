"""The shortest list of operations that still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scenarios.operations import Operation


def shorten(
    operations: Sequence[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """Return a shortest list that still fails, in the sense that no operation of it can go.

    Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002: leave out
    ever smaller parts as long as what remains fails. Then numbers are made smaller.

    Args:
        operations: a list that fails.
        fails: whether a list fails.
    """
    shortest: list[Operation] = []
    candidate = list(operations)
    # What is left out or made smaller can make something else needless.
    while candidate != shortest:
        shortest = candidate
        candidate = _with_smaller_numbers(_with_parts_left_out(shortest, fails), fails)
    return shortest


def _with_parts_left_out(
    operations: list[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    size = len(operations)
    while size:
        start = 0
        while start < len(operations):
            candidate = operations[:start] + operations[start + size :]
            if fails(candidate):
                operations = candidate
            else:
                start += size
        size //= 2
    return operations


def _with_smaller_numbers(
    operations: list[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    for index in range(len(operations)):
        for position in range(len(operations[index].numbers)):
            for smaller in (0, 1, 2, 3):
                operation = operations[index]
                if smaller >= operation.numbers[position]:
                    break
                numbers = list(operation.numbers)
                numbers[position] = smaller
                candidate = list(operations)
                candidate[index] = Operation(operation.name, tuple(numbers))
                if _is_valid(candidate[index]) and fails(candidate):
                    operations = candidate
                    break
    return operations


def _is_valid(operation: Operation) -> bool:
    """Return whether numbers are ones that a run could hold: a prompt has a token."""
    return (
        operation.name not in ("join", "chunk") or operation.numbers[operation.name == "chunk"] > 0
    )
