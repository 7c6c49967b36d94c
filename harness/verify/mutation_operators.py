"""Mutation operators that cosmic-ray lacks, in its form: over the nodes of a parso tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Protocol

from parso.python.tree import Name

# The beginning and the end of a node, each a line and a column.
Position = tuple[tuple[int, int], tuple[int, int]]

_REMOVABLE = ("if_stmt", "while_stmt", "with_stmt", "try_stmt")
# Statements that say something of names and do nothing, or nothing any more.
_IDLE = ("pass", "global_stmt", "nonlocal_stmt")
_COPYING = ("list", "dict", "set", "tuple", "frozenset", "copy", "deepcopy")
_COPYING_METHODS = ("copy", "deepcopy")


class Operator(Protocol):
    """What cosmic-ray's operators offer as well."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401 - parso's
        """Yield a position for each mutation of a node."""

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401 - parso's
        """Return the node that stands for ``node`` after a mutation; None if none does."""


class RemoveStatement:
    """Puts ``pass`` where a statement was."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401
        """Yield the position of a statement."""
        is_simple = node.type == "simple_stmt" and node.children[0].type not in _IDLE
        if (is_simple and node.children[0].get_code().strip() != "pass") or (
            node.type in _REMOVABLE
        ):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:  # noqa: ANN401
        """Return the statement that does nothing."""
        return _leaf(node, "pass\n")


class SwapArguments:
    """Swaps two neighbouring arguments of a call: two positional ones, or the values of two named.

    Those that read the same are left alone.
    """

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401
        """Yield the positions of pairs."""
        for first, second in _pairs(node):
            yield first.start_pos, second.end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401
        """Return the call with a pair swapped."""
        first, second = list(_pairs(node))[index]
        texts = [each.get_code(include_prefix=False) for each in (second, first)]
        for each, text in zip((first, second), texts, strict=True):
            siblings = each.parent.children
            siblings[siblings.index(each)] = _leaf(each, text)
        return node


class DropCopy:
    """Hands on what was copied: ``x.copy()``, ``list(x)``, ``x[:]`` and ``[*x]`` become ``x``."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401
        """Yield the position of a copy."""
        if _copied(node) is not None:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, _index: int) -> Any:  # noqa: ANN401
        """Return what was copied."""
        return _leaf(node, f"{_copied(node)}")


OWN: tuple[Operator, ...] = (RemoveStatement(), SwapArguments(), DropCopy())


def _leaf(node: Any, text: str) -> Any:  # noqa: ANN401 - parso's
    """Return a leaf that reads so and stands where a node did."""
    return Name(text, node.start_pos, prefix=node.get_first_leaf().prefix)


def _pairs(node: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - parso's
    if node.type != "arglist":
        return
    arguments = [child for child in node.children if child != ","]
    for first, second in itertools.pairwise(arguments):
        values = [_value(each) for each in (first, second)]
        is_alike = (first.type == "argument") == (second.type == "argument")
        if None in values or not is_alike:
            continue
        if values[0].get_code().strip() != values[1].get_code().strip():
            yield values[0], values[1]


def _value(argument: Any) -> Any:  # noqa: ANN401 - parso's
    """Return what is passed by an argument; None if that is several or a comprehension."""
    if argument.type != "argument":
        return argument
    is_named = len(argument.children) == 3 and argument.children[1] == "="
    return argument.children[2] if is_named else None


def _copied(node: Any) -> str | None:  # noqa: ANN401 - parso's
    """Return the source of what a node copies; None if it is no copy."""
    code = node.get_code(include_prefix=False)
    if node.type == "atom" and code.startswith("[*") and node.children[1].type == "star_expr":
        return f"({code[2:-1]})"
    if node.type not in ("atom_expr", "power"):
        return None
    *before, last = node.children
    if last.get_code() == "[:]":
        return _code(before)
    if last.type != "trailer" or last.children[0] != "(":
        return None
    called = _code(before)
    if last.get_code() == "()":
        method = before[-1].get_code()
        return _code(before[:-1]) if method in (f".{name}" for name in _COPYING_METHODS) else None
    is_single = len(last.children) == 3 and last.children[1].type not in ("arglist", "argument")
    if is_single and called.removeprefix("copy.") in _COPYING:
        return f"({last.children[1].get_code(include_prefix=False)})"
    return None


def _code(nodes: list[Any]) -> str:
    return "".join(node.get_code() for node in nodes).strip()
