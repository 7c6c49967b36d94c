"""Links a checkout's module to the surface that stands for the engine around it.

Only the names of what it imports change: ``import torch`` becomes ``import stubs.surface.torch as
torch``, at the top as well as inside functions. So it is compiled as it stands, imports at the
usual cost, and finds neither the checkout's other code nor a real ``torch``.

What is neither of the engine nor of the standard library is what it is for any other program: real
where it is installed, since the measured code then runs as it does for its user, and an ImportError
where it is not, so that a fallback is taken. Only where nothing would catch that at the top of a
module, a placeholder stands in, since much that is imported there is used elsewhere.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from stubs.surface.known import ENGINE
from stubs.surface.noops import is_noop_module

from .python_source import newer_module

SURFACE = "stubs.surface"
# What only stands for itself, installed or not: nothing here runs on a GPU, or in an engine.
_ENGINES = frozenset({ENGINE, "torch"})
# Ours, which no checkout means. ``stepbench.module_path`` needs them before anything is imported.
OWN = frozenset(
    {
        *("connector", "harness", "reports", "scenarios", "stepbench", "stepbench_core", "stubs"),
        "subjects",
    }
)
# What nobody can install to have it here.
UNINSTALLABLE = _ENGINES | OWN
# Whoever catches one of these may go on without the module.
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_BY_NAME = ("import_module", "find_spec")


@dataclass(frozen=True)
class Import:
    """A name that a module imports.

    Attributes:
        module: where from, such as ``tensorrt_llm.logger``; dots in front as in the source.
        name: what; empty where the module itself is imported.
        line: where in the source.
        types_only: whether it stands under ``if TYPE_CHECKING`` and is not imported when it runs.
        is_linked: whether it comes from the surface.
        alias: what the module calls it; empty for the name itself.
    """

    module: str
    name: str
    line: int
    types_only: bool = False
    is_linked: bool = True
    alias: str = ""

    @property
    def is_above(self) -> bool:
        """Whether it comes from a package around the one that the source is in."""
        return self.module.startswith("..")

    def __str__(self) -> str:
        """Return the dotted name."""
        dot = "" if not self.name or self.module.endswith(".") else "."
        return f"{self.module}{dot}{self.name}"


def belongs_to_engine(text: str) -> bool:
    """Return whether a source imports from the engine, or from a package around its own.

    A source that is no Python does not.
    """
    try:
        imports = find_imports(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(_root(found.module) == ENGINE or found.is_above for found in imports)


def find_imports(text: str) -> list[Import]:
    """Return what a source imports beyond the standard library, in its order, each name once.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python.
    """
    found: dict[tuple[str, str], Import] = {}
    tree = ast.parse(text)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and asks_for_types(node.test)
        for own in node.body
        for inner in ast.walk(own)
    }
    imports = list(_imports(tree))
    for node, is_needed in sorted(imports, key=lambda one: (one[0].lineno, one[0].col_offset)):
        for alias in node.names:
            module, name = alias.name, ""
            if isinstance(node, ast.ImportFrom):
                module, name = "." * node.level + (node.module or ""), alias.name
            if not module.startswith(".") and _is_standard(module):
                continue
            linked = module.startswith(".") or is_linked(module, is_needed=is_needed)
            types_only = id(node) in skipped
            one = Import(module, name, node.lineno, types_only, linked, alias.asname or "")
            known = found.get((module, name))
            # What is imported for type checkers first may be for all later.
            if known is None or (known.types_only and not types_only):
                found[module, name] = one
    return list(found.values())


def asks_for_types(test: ast.expr) -> bool:
    """Return whether a condition holds for type checkers alone."""
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def is_linked(module: str, *, is_needed: bool) -> bool:
    """Return whether a module that is named in full comes from the surface.

    Args:
        module: its name.
        is_needed: whether the source as a whole cannot be imported without it.
    """
    root = _root(module)
    if root in UNINSTALLABLE:
        return True
    if _is_standard(module) or newer_module(module) or is_installed(root):
        return False
    return is_needed


@functools.cache
def is_installed(root: str) -> bool:
    """Return whether a package or module of this name can be imported here."""
    try:
        return importlib.util.find_spec(root) is not None
    except (ImportError, ValueError):
        return False


def _is_standard(module: str) -> bool:
    return _root(module) in sys.stdlib_module_names


def link(text: str, filename: str) -> ast.Module:
    """Return a source whose imports come from the surface.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python.
    """
    tree = ast.parse(text, filename)
    needed = {id(node) for node, is_needed in _imports(tree) if is_needed}
    linked: ast.Module = ast.fix_missing_locations(_Linker(needed).visit(tree))
    return linked


def _imports(
    node: ast.AST, *, is_needed: bool = True, in_function: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Yield the import statements below a node, and whether the source cannot do without each.

    It can where a handler catches the error, and in a function, whose caller may. But a range for
    profiling is a no-op there: whoever imports it where it is used has it installed.
    """
    if isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        yield node, is_needed and (not in_function or all(map(is_noop_module, names)))
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        # It runs later, when the handler around it is gone.
        is_needed, in_function = True, True
    for field, value in ast.iter_fields(node):
        guarded = field == "body" and _catches(node)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _imports(
                    child, is_needed=is_needed and not guarded, in_function=in_function
                )


def _catches(node: ast.AST) -> bool:
    """Return whether a statement goes on after an ImportError in its body."""
    if isinstance(node, ast.Try | ast.TryStar):
        return any(
            handler.type is None or not _CATCHES.isdisjoint(_names(handler.type))
            for handler in node.handlers
        )
    if isinstance(node, ast.With):
        calls = [one.context_expr for one in node.items]
        return any(
            isinstance(call, ast.Call)
            and "suppress" in _names(call.func)
            and any(not _CATCHES.isdisjoint(_names(argument)) for argument in call.args)
            for call in calls
        )
    return False


def _names(node: ast.AST) -> set[str]:
    """Return the names in an expression, of dotted ones the last part as well."""
    return {
        str(getattr(one, "id", getattr(one, "attr", "")))
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    }


class _Linker(ast.NodeTransformer):
    """Has imports come from the surface.

    Args:
        needed: the import statements that the source cannot do without, by their ids.
    """

    def __init__(self, needed: set[int]) -> None:
        self._needed = needed

    def _is_linked(self, node: ast.AST, module: str) -> bool:
        return is_linked(module, is_needed=id(node) in self._needed)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level and node.module and self._is_linked(node, node.module):
            node.module = f"{SURFACE}.{node.module}"
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            if not self._is_linked(node, alias.name):
                new = [alias]
            elif alias.asname:
                new = [ast.alias(f"{SURFACE}.{alias.name}", alias.asname)]
            else:
                # Imports a module and binds the package on top of it.
                root = _root(alias.name)
                new = [ast.alias(f"{SURFACE}.{alias.name}", root)] if "." in alias.name else []
                new.append(ast.alias(f"{SURFACE}.{root}", root))
            statements += [ast.copy_location(ast.Import([one]), node) for one in new]
        return statements

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Have a module of the engine that is imported by its name come from there as well."""
        self.generic_visit(node)
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called in _BY_NAME and node.args and isinstance(node.args[0], ast.Constant):
            name = node.args[0].value
            if isinstance(name, str) and _root(name) in _ENGINES:
                node.args[0] = ast.copy_location(ast.Constant(f"{SURFACE}.{name}"), node.args[0])
        return node


def _root(module: str) -> str:
    return module.partition(".")[0]
