"""Links a checkout's module to the surface that stands for the engine around it.

Only the names of what it imports change: ``import torch`` becomes ``import stubs.surface.torch as
torch``, at the top as well as inside functions. So it is compiled as it stands, imports at the
usual cost, and finds neither the checkout's other code nor a real ``torch``.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass

SURFACE = "stubs.surface"
_ENGINE = "tensorrt_llm"

# Beside the standard library what is imported as it is.
_REAL = frozenset({"numpy"})


@dataclass(frozen=True)
class Import:
    """A name that a module imports.

    Attributes:
        module: where from, such as ``tensorrt_llm.logger``; dots in front as in the source.
        name: what; empty where the module itself is imported.
        line: where in the source.
        types_only: whether it stands under ``if TYPE_CHECKING`` and is not imported when it runs.
    """

    module: str
    name: str
    line: int
    types_only: bool = False

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
    return any(_root(found.module) == _ENGINE or found.is_above for found in imports)


def find_imports(text: str) -> list[Import]:
    """Return what a source imports that is not real, in its order, each name once.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python.
    """
    found: dict[tuple[str, str], Import] = {}
    tree = ast.parse(text)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and _asks_for_types(node.test)
        for own in node.body
        for inner in ast.walk(own)
    }
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
        names: list[tuple[str, str]] = []
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names = [(module, alias.name) for alias in node.names]
        for module, name in names:
            if module.startswith(".") or not is_real(module):
                one = Import(module, name, node.lineno, id(node) in skipped)
                known = found.get((module, name))
                # What is imported for type checkers first may be for all later.
                if known is None or (known.types_only and not one.types_only):
                    found[module, name] = one
    return list(found.values())


def _asks_for_types(test: ast.expr) -> bool:
    """Return whether a condition holds for type checkers alone."""
    return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"


def is_real(module: str) -> bool:
    """Return whether a module is imported as it is."""
    return _root(module) in sys.stdlib_module_names or _root(module) in _REAL


def link(text: str, filename: str) -> ast.Module:
    """Return a source whose imports come from the surface.

    Raises:
        SyntaxError, ValueError, RecursionError: it is no Python.
    """
    tree: ast.Module = ast.fix_missing_locations(_Linker().visit(ast.parse(text, filename)))
    return tree


class _Linker(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level and node.module and not is_real(node.module):
            node.module = f"{SURFACE}.{node.module}"
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        statements: list[ast.stmt] = []
        for alias in node.names:
            if is_real(alias.name):
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


def _root(module: str) -> str:
    return module.partition(".")[0]
