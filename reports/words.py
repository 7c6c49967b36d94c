"""Words around numbers, and names in running text."""

import itertools
from collections.abc import Mapping


def counted(number: int, noun: str) -> str:
    """Return ``number`` with ``noun``, in the plural unless it is one: ``3 rounds``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def code(text: str) -> str:
    """Return ``text`` as Markdown shows it as it is: between more backticks than it holds."""
    runs = [len(list(run)) for is_tick, run in itertools.groupby(text, "`".__eq__) if is_tick]
    if not runs:
        return f"`{text}`"
    fence = "`" * (max(runs) + 1)
    return f"{fence} {text} {fence}"


def sentences(origins: Mapping[str, str]) -> list[str]:
    """Return a sentence on each arm that is named by where its source is.

    Args:
        origins: where it is from, by arm.
    """
    return [f"{code(arm)}: {origin}." for arm, origin in origins.items()]
