"""A user's file: which functions are in it, and the cells of one. Of the standard library alone."""

from __future__ import annotations

from types import ModuleType

from stepbench_core.errors import InputError
from subjects.base import Cell

from .step import Step, StepFunction


def functions_of(module: ModuleType) -> dict[str, StepFunction]:
    """Return the functions that a module declares with ``stepbench.step``, by their names."""
    return {
        name: value
        for name, value in vars(module).items()
        if type(value).__name__ == StepFunction.__name__ and isinstance(value, StepFunction)
    }


def pick(module: ModuleType, file: str, name: str | None) -> StepFunction:
    """Return one function of a module.

    Raises:
        InputError: there is none of that name, or none at all, or several and no name.
    """
    found = functions_of(module)
    if not found:
        raise InputError(f"{file}: declares no function with @stepbench.step(cells=...)")
    if name is None:
        if len(found) > 1:
            raise InputError(
                f"{file}: declares {', '.join(found)}: name one, as in {file}::{next(iter(found))}"
            )
        return next(iter(found.values()))
    if name not in found:
        raise InputError(f"{file}: declares no function {name!r}, but {', '.join(found)}")
    return found[name]


def cells_of(function: StepFunction, where: str) -> tuple[Cell, ...]:
    """Return the cells of a function. Raises InputError where they are none."""
    cells = function.cells
    if not isinstance(cells, dict) or not cells:
        raise InputError(
            f'{where}: cells must be a dictionary such as {{"64x2048": {{"requests": 64}}}}, '
            f"not {cells!r:.80}"
        )
    found = []
    names: list[str] = []
    for name, values in cells.items():
        if not isinstance(values, dict):
            raise InputError(
                f"{where}: cell {name!r} must be a dictionary of its values, not {values!r:.80}"
            )
        for key, value in values.items():
            if not isinstance(key, str) or type(value) not in (int, str):
                raise InputError(
                    f"{where}: cell {name!r}: {key!r} must be a whole number or a text, "
                    f"not {value!r:.80}"
                )
        sizes = {key: value for key, value in values.items() if type(value) is int}
        labels = {key: value for key, value in values.items() if isinstance(value, str)}
        names = names or list(values)
        if list(values) != names:
            raise InputError(
                f"{where}: cell {name!r} has {', '.join(values) or 'no values'}, and the first "
                f"one has {', '.join(names) or 'none'}: all cells need the same"
            )
        found.append(Cell(name, sizes, labels))
    return tuple(found)


def built(function: StepFunction, cell: Cell, seed: int, where: str) -> Step:
    """Return the step of a world. Raises InputError where the function returns none."""
    made = function(dict(cell.values), seed)
    if not isinstance(made, Step):
        raise InputError(
            f"{where}: must return stepbench.Step(call, advance), not a {type(made).__name__}"
        )
    for name, part in (("call", made.call), ("advance", made.advance), ("outcome", made.outcome)):
        if not callable(part) and (name == "call" or part is not None):
            raise InputError(f"{where}: {name} must be a function, not a {type(part).__name__}")
    return made
