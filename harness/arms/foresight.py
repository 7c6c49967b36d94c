"""What the code of an arm would miss if it ran, as far as its source tells."""

from __future__ import annotations

import ast
import importlib
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping

from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2
from stubs.request import LlmRequest
from stubs.surface.placeholders import is_noop, is_placeholder

from .handed_over import Function, Kind, kind_of, known_variables
from .linking import SURFACE, asks_for_types, find_imports
from .sources import ArmSource

Uses = dict[str, tuple[int, ...]]
_CLASS = "KvCacheConnectorSchedulerOutputManager"
_CALLS = ("build_scheduler_output", "record_new_matched_tokens", "reset_request")


def foresee(source: ArmSource) -> tuple[Uses, Uses]:
    """Return what of an engine a source uses in code that runs: the lines, by the name.

    Returns:
        What has no stand-in, and what does nothing here.

    A name that stands in an annotation, as a base class or as what something is an instance of is
    not used: a placeholder does for it. What is seen is what names tell: an attribute that is asked
    for by ``getattr``, or of a request out of a container of the arm's own, is not.
    """
    tree = ast.parse(source.text)
    reached = _reached(tree)
    missing: dict[str, set[int]] = defaultdict(set)
    idle: dict[str, set[int]] = defaultdict(set)
    if source.is_linked:
        names = _imported(source)
        for node in _running(tree, reached):
            path, found = _resolved(node, names)
            if is_placeholder(found):
                missing[path].add(node.lineno)
            elif is_noop(found):
                idle[path].add(node.lineno)
    for name, line in _lacking_attributes(tree, reached):
        missing[name].add(line)
    return _in_order(missing), _in_order(idle)


def _in_order(found: Mapping[str, set[int]]) -> Uses:
    by_line = sorted(found.items(), key=lambda item: min(item[1]))
    return {name: tuple(sorted(lines)) for name, lines in by_line}


def _imported(source: ArmSource) -> dict[str, tuple[str, object]]:
    """Return what each imported name stands for: its dotted path and what it is bound to."""
    names = {}
    for one in find_imports(source.text):
        if not one.is_linked or one.types_only or one.name == "*":
            continue
        is_relative = one.module.startswith(".")
        path = one.module if is_relative else f"{SURFACE}.{one.module}"
        found: object = importlib.import_module(path, source.package if is_relative else None)
        dotted = str(getattr(found, "__name__", path)).removeprefix(f"{SURFACE}.")
        bound = one.alias or one.name or one.module
        if one.name:
            found, dotted = getattr(found, one.name), f"{dotted}.{one.name}"
        elif not one.alias:
            bound = dotted = one.module.partition(".")[0]
            found = importlib.import_module(f"{SURFACE}.{bound}")
        names[bound] = dotted, found
    return names


def _reached(tree: ast.Module) -> set[Function]:
    """Return the functions that the harness's calls may reach, by the names in them."""
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    if _CLASS not in classes:
        return set(functions)
    named: dict[str, list[Function]] = defaultdict(list)
    for one in functions:
        named[one.name].append(one)
    for name, kind in classes.items():
        # What Python calls by itself, once there is an instance.
        own = [one for one in kind.body if isinstance(one, Function)]
        named[name] += [one for one in own if one.name.startswith("__")]
    waiting = [*named[_CLASS], *(one for name in _CALLS for one in named[name])]
    # What stands at the top runs at the import.
    waiting += [
        one
        for node in _running(tree, set())
        if isinstance(node, ast.Name)
        for one in (named[node.id] if node.id not in classes else ())
    ]
    reached: set[Function] = set()
    while waiting:
        function = waiting.pop()
        if function in reached:
            continue
        reached.add(function)
        for node in ast.walk(function):
            name = getattr(node, "id", getattr(node, "attr", ""))
            waiting += named.get(name, ()) if isinstance(name, str) else ()
    return reached


def _running(node: ast.AST, reached: set[Function]) -> Iterator[ast.expr]:
    """Yield the dotted names in what runs, each as a whole.

    Args:
        node: where to look.
        reached: the functions that are called.
    """
    if isinstance(node, ast.Name | ast.Attribute):
        yield node
        inner: object = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if isinstance(inner, ast.AST) and not isinstance(inner, ast.Name):
            yield from _running(inner, reached)
        return
    skipped: set[int] = set()
    for field in ("annotation", "returns", "bases", "keywords"):
        if field == "keywords" and not isinstance(node, ast.ClassDef):
            continue
        value = getattr(node, field, None)
        skipped |= set(map(id, value)) if isinstance(value, list) else {id(value)}
    if isinstance(node, Function) and node not in reached:
        skipped |= set(map(id, node.body))
    if isinstance(node, ast.If) and asks_for_types(node.test):
        skipped |= set(map(id, node.body))
    if isinstance(node, ast.ExceptHandler):
        skipped.add(id(node.type))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
        skipped |= set(map(id, node.args[1:]))
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield from _running(child, reached)


def _resolved(node: ast.expr, names: Mapping[str, tuple[str, object]]) -> tuple[str, object]:
    """Return the dotted path of an imported name and what is found there; else nothing."""
    parts: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        parts.insert(0, inner.attr)
        inner = inner.value
    if not isinstance(inner, ast.Name) or inner.id not in names:
        return "", None
    path, found = names[inner.id]
    for part in parts:
        if not part.startswith("__"):
            found = getattr(found, part, None)
        path += f".{part}"
    return path, found


def _lacking_attributes(tree: ast.Module, reached: set[Function]) -> Iterator[tuple[str, int]]:
    """Yield the attributes that a source asks stand-ins for and they lack, and the lines."""
    has = _attributes()
    for function, kinds in known_variables(tree).items():
        for node in ast.walk(function) if function in reached else ():
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            kind = kind_of(node.value, kinds)
            if kind in has and node.attr not in has[kind]:
                yield f"{kind}.{node.attr}", node.lineno


def _attributes() -> dict[Kind, set[str]]:
    """Return the attributes that the stand-ins have, by what they are."""
    rng = random.Random(0)
    made: dict[Kind, list[object]] = {
        Kind.BATCH: [ScheduledRequests()],
        Kind.LOADS: [AsyncRequests()],
        Kind.MANAGER: [KVCacheManager(1, rng=rng), KVCacheManagerV2(1, rng=rng)],
        Kind.REQUEST: [LlmRequest(0, [0])],
    }
    return {kind: {name for one in several for name in dir(one)} for kind, several in made.items()}
