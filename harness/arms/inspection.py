"""What was found when the module of an arm was loaded: its imports, classes and calls."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType

from stubs.surface.noops import is_noop_module
from stubs.surface.placeholders import PACKAGES, is_noop, is_placeholder

from .foresight import foresee
from .linking import SURFACE, Import, find_imports, is_installed
from .loading import CLASS, ArmOfSource, Need
from .sources import ArmSource

_REQUEST_CLASS = "KvCacheConnectorSchedulerOutputRequest"
_CALLS = ("build_scheduler_output", "record_new_matched_tokens", "reset_request")


class Answer(StrEnum):
    """Where what a module imports came from."""

    PROVIDED = "provided"
    NO_OP = "no-op"
    INSTALLED = "installed, and imported as it is"
    ABSENT = "not installed: an ImportError, which the code may catch"
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
        uses: what has no stand-in that the code uses, with the lines.
        noops: what does nothing here that the code uses, with the lines.
    """

    imports: tuple[tuple[str, int, Answer], ...]
    entry_points: dict[str, str | None]
    lacks: tuple[Need, ...]
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    noops: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


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
            (str(one), one.line, _answer(one, source.package)) for one in find_imports(source.text)
        ]
    return Found(tuple(imports), points, tuple(sorted(lacking)), *foresee(source))


def _answer(one: Import, package: str) -> Answer:
    module, name = one.module, one.name
    if one.types_only:
        return Answer.TYPES_ONLY
    if not one.is_linked:
        is_here = is_installed(module.partition(".")[0])
        return Answer.INSTALLED if is_here else Answer.ABSENT
    path = module if module.startswith(".") else f"{SURFACE}.{module}"
    found: object = importlib.import_module(path, package if module.startswith(".") else None)
    if name and name != "*":
        found = getattr(found, name)
    if isinstance(found, ModuleType):
        dotted = found.__name__.removeprefix(f"{SURFACE}.")
        if is_noop_module(dotted):
            return Answer.NO_OP
        is_bare = getattr(found, "__file__", None) is None and dotted not in PACKAGES
        return Answer.PLACEHOLDER if is_bare else Answer.PROVIDED
    if is_noop(found):
        return Answer.NO_OP
    return Answer.PLACEHOLDER if is_placeholder(found) else Answer.PROVIDED


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
