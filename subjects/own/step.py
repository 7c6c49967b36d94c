"""What a user's file says of the function that is to be measured. Of the standard library alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

World = Callable[[dict[str, Any], int], "Step"]


@dataclass(frozen=True)
class Step:
    """The measured call of a world, and what belongs to it.

    Attributes:
        call: what is timed; takes no argument. What it returns is its output, which arms have to
            agree on.
        advance: moves the world on before each call, untimed; returns nothing. None where the call
            itself does all that.
        outcome: takes the output and returns what of it is compared, where that is not all of it.
    """

    call: Callable[[], object]
    advance: Callable[[], None] | None = None
    outcome: Callable[[Any], object] | None = None


@dataclass(frozen=True)
class StepFunction:
    """A function that builds a world, with the cells that it can be built for.

    Attributes:
        function: takes the values of a cell and a seed, and returns a ``Step``.
        cells: values by name, for each cell by its name.
    """

    function: World
    cells: Mapping[str, Mapping[str, int | str]]

    def __call__(self, cell: dict[str, Any], seed: int) -> Step:
        """Build a world."""
        return self.function(cell, seed)


def step(*, cells: Mapping[str, Mapping[str, int | str]]) -> Callable[[World], StepFunction]:
    """Declare a function that is to be measured.

    The function gets the values of a cell, as a dictionary, and a seed, builds whatever the call
    needs, and returns a ``Step``. It is called once for each copy of an arm, so what it imports
    within is that arm's. The same cell and seed have to give the same world.

    Args:
        cells: for each cell its values by name. Numbers are sizes, which work is held against;
            texts are labels.

    Example:
        ::

            @stepbench.step(cells={"64x2048": {"requests": 64, "tokens": 2048}})
            def join(cell, seed):
                from mypackage.batching import Joiner

                joiner = Joiner(cell["requests"], seed)
                return stepbench.Step(joiner.step, advance=joiner.receive)
    """

    def declare(function: World) -> StepFunction:
        return StepFunction(function, cells)

    return declare


def grid(**sizes: Iterable[int]) -> dict[str, dict[str, int]]:
    """Return the cells of all combinations of sizes, named such as ``64x2048``.

    Args:
        sizes: for each size its values, such as ``requests=[1, 64], tokens=[512, 2048]``.
    """
    combinations = itertools.product(*map(list, sizes.values()))
    return {
        "x".join(map(str, values)): dict(zip(sizes, values, strict=True)) for values in combinations
    }
