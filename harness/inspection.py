"""What was found when the module of an arm was loaded: its imports, classes and calls."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType

from stubs.surface.placeholders import is_placeholder

from .linking import SURFACE, find_imports
from .loading import CLASS, ArmOfSource, Need
from .sources import ArmSource

_REQUEST_CLASS = "KvCacheConnectorSchedulerOutputRequest"
_CALLS = ("build_scheduler_output", "record_new_matched_tokens", "reset_request")


class Answer(StrEnum):
    """Where what a module imports came from."""

    PROVIDED = "provided"
    PLACEHOLDER = "placeholder"
    TYPES_ONLY = "not imported: for type checkers alone"


@dataclass(frozen=True)
class Found:
    """What a module imports, and what it has.

    Attributes:
        imports: each imported name, the line where it is, and what it was answered by.
        entry_points: the class of the arm, its calls and its per-request class, with their
            signatures; what is missing has none.
        lacks: what the arm does not have that others do.
    """

    imports: tuple[tuple[str, int, Answer], ...]
    entry_points: dict[str, str | None]
    lacks: tuple[Need, ...]


def inspect_arm(source: ArmSource) -> Found:
    """Load the module of an arm and return what was found. Raises InputError if it cannot be."""
    factory = ArmOfSource(source)
    lacking = factory.lacks()
    module = factory.module()
    made = getattr(module, CLASS)
    points = {CLASS: _signature(made)}
    points |= {f"{CLASS}.{name}": _signature(getattr(made, name, None)) for name in _CALLS}
    points[_REQUEST_CLASS] = _signature(getattr(module, _REQUEST_CLASS, None))
    imports = []
    if source.is_linked:
        imports = [
            (str(one), one.line, _answer(one.module, one.name, source.package, one.types_only))
            for one in find_imports(source.text)
        ]
    return Found(tuple(imports), points, tuple(sorted(lacking)))


def _answer(module: str, name: str, package: str, types_only: bool) -> Answer:
    if types_only:
        return Answer.TYPES_ONLY
    path = module if module.startswith(".") else f"{SURFACE}.{module}"
    found: object = importlib.import_module(path, package if module.startswith(".") else None)
    if name and name != "*":
        found = getattr(found, name)
    is_bare = isinstance(found, ModuleType) and getattr(found, "__file__", None) is None
    return Answer.PLACEHOLDER if is_placeholder(found) or is_bare else Answer.PROVIDED


def _signature(found: object) -> str | None:
    if not callable(found):
        return None
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return "(...)"
    # Without annotations, which would name the stand-ins.
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
