"""Every mutant of a source: all that cosmic-ray's operators change in it, and ours.

What cannot matter is left alone: annotations and imports for them, which no report reads, texts,
and calls that log, which are no output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import parso
from cosmic_ray.operators.provider import OperatorProvider

from .mutation_operators import OWN, Operator

# They put in random numbers, so that no mutant would be the same again, and take arguments.
_RANDOM = ("VariableReplacer", "VariableInserter")
_LOGGING = re.compile(r"(self\.)?_?(log(ger|ging)?|warnings)\.|warning_once\(|print\(")


@dataclass(frozen=True)
class Mutant:
    """A source with one small change. Can be sent to another process.

    Attributes:
        number: its number among the mutants of the source, from 1.
        operator: what changed it.
        line: number of the first line that changed.
        before, after: the lines that changed, as one line each.
        occurrence: its number, from 0, among those that are the same in all of these.
        text: the whole source.
    """

    number: int
    operator: str
    line: int
    before: str
    after: str
    occurrence: int
    text: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is known by, wherever its lines stand."""
        return self.operator, self.before, self.after, self.occurrence


def mutants(text: str) -> list[Mutant]:
    """Return the mutants of a source, in the order of its lines. The same source has the same."""
    found = sorted(_changes(text), key=lambda change: change[1])
    seen: Counter[tuple[str, str, str]] = Counter()
    made: dict[str, Mutant] = {}
    for operator, line, before, after, mutated in found:
        if mutated not in made and mutated != text:
            key = (operator, before, after)
            number = len(made) + 1
            made[mutated] = Mutant(number, operator, line, before, after, seen[key], mutated)
            seen[key] += 1
    return list(made.values())


def _changes(text: str) -> Iterator[tuple[str, int, str, str, str]]:
    tree: Any = parso.parse(text)  # type: ignore[no-untyped-call]
    nodes = list(_nodes(tree))
    for name, operator in _operators().items():
        for node in nodes:
            for index in range(len(list(operator.mutation_positions(node)))):
                mutated = _mutated(tree, node, operator, index)
                yield (name, *_changed_lines(text, mutated), mutated)


def _operators() -> dict[str, Operator]:
    provider = OperatorProvider()
    theirs: dict[str, Operator] = {
        name: provider[name]() for name in provider if name not in _RANDOM
    }
    return theirs | {type(operator).__name__: operator for operator in OWN}


def _mutated(tree: Any, node: Any, operator: Operator, index: int) -> str:  # noqa: ANN401 - parso's
    """Return the source with one mutation of one node. The tree stays as it is."""
    # An operator may change what it is given, and anything below.
    parts = [node.parent, *_below(node)]
    before = [
        (part, list(getattr(part, "children", ())), getattr(part, "value", "")) for part in parts
    ]
    changed = operator.mutate(node, index)
    if changed is not node:
        place = next(place for place, child in enumerate(node.parent.children) if child is node)
        node.parent.children[place : place + 1] = [] if changed is None else [changed]
    mutated: str = tree.get_code()
    for part, children, value in before:
        if children:
            part.children = children
        else:
            part.value = value
    return mutated


def _below(node: Any) -> Iterator[Any]:  # noqa: ANN401 - parso's
    yield node
    for child in getattr(node, "children", ()):
        yield from _below(child)


def _nodes(node: Any) -> Iterator[Any]:  # noqa: ANN401 - parso's
    """Yield the nodes of a tree that a change can matter in."""
    yield node
    children = list(getattr(node, "children", ()))
    if node.type == "decorator":
        return
    if node.type == "annassign":
        children = children[2:]  # Colon and annotation.
    elif node.type == "param":
        children = [node.default] if node.default is not None else []
    elif node.type == "parameters":
        children = [child for child in children if child.type == "param"]
    elif node.type == "funcdef" and node.annotation is not None:
        children = [child for child in children if child is not node.annotation]
    for child in children:
        if not _is_idle(child):
            yield from _nodes(child)


def _is_idle(node: Any) -> bool:  # noqa: ANN401 - parso's
    """Return whether nothing in a node can show in an output."""
    if node.type == "simple_stmt":
        first = node.children[0]
        is_import = first.type in ("import_name", "import_from")
        # A missing import of a module is a name that is missing at once, or never used.
        is_idle = is_import and node.parent.type == "file_input"
        is_idle = is_idle or first.type in ("string", "strings")
        return is_idle or bool(_LOGGING.match(first.get_code().lstrip()))
    return node.type == "if_stmt" and "TYPE_CHECKING" in node.children[1].get_code()


def _changed_lines(text: str, mutated: str) -> tuple[int, str, str]:
    """Return the number of the first line that differs, and what differs, as one line each."""
    old, new = text.splitlines(), mutated.splitlines()
    first = next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    before, after = (
        " ".join(" ".join(lines[first : len(lines) - last]).split()) for lines in (old, new)
    )
    return first + 1, before, after
