"""What the variables of a source hold of what the harness hands to it, as far as one sees."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    """What a variable holds."""

    BATCH = "ScheduledRequests"
    LOADS = "AsyncRequests"
    MANAGER = "KVCacheManager"
    REQUEST = "LlmRequest"
    REQUESTS = "requests"
    PAGES = "page indices by layer group"


# By the names of classes in annotations ...
_ANNOTATED = {
    "ScheduledRequests": Kind.BATCH,
    "AsyncRequests": Kind.LOADS,
    "KVCacheManager": Kind.MANAGER,
    "KVCacheManagerV2": Kind.MANAGER,
    "LlmRequest": Kind.REQUEST,
}
# ... and by the calls that the harness makes, with what it hands to them.
_CALLS = {
    "build_scheduler_output": (Kind.BATCH, Kind.LOADS, Kind.MANAGER),
    "record_new_matched_tokens": (Kind.REQUEST,),
}
_LISTS = (
    *("context_requests", "context_requests_chunking", "context_requests_last_chunk"),
    *("generation_requests", "paused_requests"),
)
_PAGES = "get_page_indices_by_layer_group"
_MAPPING = ("items", "keys", "values", "get")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Variables = dict[str, Kind]


@functools.cache
def reads_mapping(text: str) -> bool:
    """Return whether a source takes page indices by layer group as a mapping, as one branch does.

    A source that is no Python does not.
    """
    try:
        known = known_variables(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(
        _is_mapping(node, kinds) for function, kinds in known.items() for node in ast.walk(function)
    )


def _is_mapping(node: ast.AST, kinds: Mapping[str, Kind]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _MAPPING and kind_of(node.value, kinds) is Kind.PAGES
    # To go through the keys, and to look each up.
    if isinstance(node, ast.For) and kind_of(node.iter, kinds) is Kind.PAGES:
        return any(
            isinstance(inner, ast.Subscript)
            and kind_of(inner.value, kinds) is Kind.PAGES
            and ast.dump(inner.slice) == ast.dump(node.target).replace("Store()", "Load()")
            for inner in ast.walk(node)
        )
    return False


def known_variables(tree: ast.Module) -> dict[Function, Variables]:
    """Return what the variables of each function hold, where that can be told.

    What the harness hands to an arm is followed into loops, and into the functions and methods of
    the module that it is handed on to.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    known: dict[Function, Variables] = {one: _annotated(one) for one in functions}
    by_name: dict[str, list[Function]] = defaultdict(list)
    for one in functions:
        by_name[one.name].append(one)
        if one.name in _CALLS:
            handed = _CALLS[one.name]
            arguments = _arguments(one)
            if one.name == "build_scheduler_output" and len(arguments) < len(handed):
                handed = (Kind.BATCH, Kind.MANAGER)  # As it was before anybody loaded.
            known[one] |= dict(zip(arguments, handed, strict=False))
    is_changed = True
    while is_changed:
        before = [dict(kinds) for kinds in known.values()]
        for function, kinds in known.items():
            for node in ast.walk(function):
                _bind(node, kinds)
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    for called in by_name.get(name, ()):
                        _hand_over(node, kinds, called, known[called])
        is_changed = before != list(known.values())
    return known


def _arguments(function: Function) -> list[str]:
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _annotated(function: Function) -> Variables:
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    found = {}
    for one in arguments:
        words = one.annotation
        name = getattr(words, "id", getattr(words, "attr", getattr(words, "value", "")))
        if isinstance(name, str) and name in _ANNOTATED:
            found[one.arg] = _ANNOTATED[name]
    return found


def _bind(node: ast.AST, kinds: Variables) -> None:
    """Note what a loop or an assignment binds."""
    if isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
        if kind_of(node.iter, kinds) is Kind.REQUESTS:
            kinds.setdefault(node.target.id, Kind.REQUEST)
        return
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    value = getattr(node, "value", None)
    if isinstance(target, ast.Name) and isinstance(value, ast.expr):
        kind = kind_of(value, kinds)
        if kind is not None:
            kinds.setdefault(target.id, kind)


def _hand_over(
    call: ast.Call, kinds: Mapping[str, Kind], function: Function, known: Variables
) -> None:
    handed = list(zip(_arguments(function), call.args, strict=False))
    handed += [(one.arg, one.value) for one in call.keywords if one.arg is not None]
    for name, value in handed:
        kind = kind_of(value, kinds)
        if kind is not None:
            known.setdefault(name, kind)


def kind_of(node: ast.expr, kinds: Mapping[str, Kind]) -> Kind | None:
    """Return what the value of an expression is; None where that cannot be told."""
    if isinstance(node, ast.Name):
        return kinds.get(node.id)
    if isinstance(node, ast.Attribute):
        return (
            Kind.REQUESTS
            if kind_of(node.value, kinds) is Kind.BATCH and node.attr in _LISTS
            else None
        )
    if isinstance(node, ast.BinOp):
        return kind_of(node.left, kinds) or kind_of(node.right, kinds)
    if isinstance(node, ast.Subscript) and kind_of(node.value, kinds) is Kind.REQUESTS:
        return Kind.REQUESTS if isinstance(node.slice, ast.Slice) else Kind.REQUEST
    if isinstance(node, ast.NamedExpr):
        return kind_of(node.value, kinds)
    if isinstance(node, ast.Call):
        if getattr(node.func, "attr", "") == _PAGES:
            return Kind.PAGES
        is_copy = getattr(node.func, "id", "") in ("list", "tuple", "reversed")
        return kind_of(node.args[0], kinds) if is_copy and node.args else None
    return None
