"""A module ``os`` of an arm's own, whose environment holds the arm's variables.

The environment is the process's, and arms share one. So what an arm's module imports as ``os`` is a
copy of that module in which ``environ``, ``environb``, and all functions that read them, are its
own: two arms in one process each see their own values, at import and at every later read. The copy
is a module with the same functions around the same kind of mapping, found under a name of the same
length by the same instructions, so that a read costs what it does in ``os``, and the same for all
arms. A module that does not import ``os`` is left as it is.

What reads the environment without the arm's ``os`` does not see the arm's variables, unless the
process has them as well: child processes, code in C, other modules.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

_Environ: Any = type(os.environ)


@dataclass
class Reads:
    """What was read of an environment.

    Attributes:
        values: by name the value at the first read; None where there was none.
        is_whole: whether all of it was looked at, as by a loop over it or a copy of it.
    """

    values: dict[str, str | None] = field(default_factory=dict)
    is_whole: bool = False
    _written: set[str] = field(default_factory=set)

    def note(self, name: str, value: str | None) -> None:
        """Note a read, unless it is of what the arm itself has set."""
        if name not in self._written:
            self.values.setdefault(name, value)

    def note_write(self, name: str) -> None:
        """Note that the arm sets a variable."""
        self._written.add(name)


class _NotingEnviron(_Environ):  # type: ignore[misc]
    """An environment that notes what is read of it."""

    def __init__(self, like: Any, data: dict[bytes, bytes], reads: Reads) -> None:  # noqa: ANN401
        super().__init__(data, like.encodekey, like.decodekey, like.encodevalue, like.decodevalue)
        self._reads = reads

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        value = self._data.get(self.encodekey(key))
        self._reads.note(os.fsdecode(key), None if value is None else os.fsdecode(value))
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:  # noqa: ANN401
        super().__setitem__(key, value)
        self._reads.note_write(os.fsdecode(key))

    def __iter__(self) -> Iterator[Any]:
        self._reads.is_whole = True
        return super().__iter__()  # type: ignore[no-any-return]


def bind_os(tree: ast.Module, name: str) -> bool:
    """Have a module import another one wherever it imports ``os``; return whether it does.

    Args:
        tree: the module, which is changed.
        name: the name of the other one.
    """
    binder = _Binder(name)
    binder.visit(tree)
    ast.fix_missing_locations(tree)
    return binder.is_bound


def add_os(name: str, variables: dict[str, str], reads: Reads | None = None) -> None:
    """Make a module ``os`` known to imports under a name.

    Args:
        name: its name, not in use yet.
        variables: what its environment holds beside the process's.
        reads: where to note what is read of it; None where that is not wanted.
    """
    own = ModuleType(name)
    vars(own).update({key: value for key, value in vars(os).items() if key != "__name__"})
    for key, value in vars(os).items():
        if isinstance(value, FunctionType) and value.__globals__ is vars(os):
            # The same code, with the globals of the copy: it reads the copy's environment.
            code, defaults, closure = value.__code__, value.__defaults__, value.__closure__
            copy = FunctionType(code, vars(own), value.__name__, defaults, closure)
            copy.__kwdefaults__ = value.__kwdefaults__
            setattr(own, key, functools.update_wrapper(copy, value))
    data: dict[bytes, bytes] = os.environb._data  # type: ignore[attr-defined]
    if variables or reads is not None:
        extra = {os.fsencode(key): os.fsencode(value) for key, value in variables.items()}
        data = {**data, **extra}
    for key in ("environ", "environb"):
        like: Any = getattr(os, key)
        codecs = (like.encodekey, like.decodekey, like.encodevalue, like.decodevalue)
        made = _Environ(data, *codecs) if reads is None else _NotingEnviron(like, data, reads)
        setattr(own, key, made)
    sys.modules[name] = own


class _Binder(ast.NodeTransformer):
    """Changes where ``os`` is imported from, and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_bound = False

    def visit_Import(self, node: ast.Import) -> ast.Import | list[ast.stmt]:
        if not any(_is_os(alias.name) for alias in node.names):
            return node
        self.is_bound = True
        statements: list[ast.stmt] = []
        for alias in node.names:
            new: ast.stmt = ast.Import([alias])
            if alias.name == "os.path" and alias.asname:
                new = ast.ImportFrom(self.name, [ast.alias("path", alias.asname)], 0)
            elif _is_os(alias.name):
                new = ast.Import([ast.alias(self.name, alias.asname or "os")])
            statements.append(ast.copy_location(new, node))
        return statements

    def visit_Call(self, node: ast.Call) -> ast.Call:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        is_named = bool(node.args) and getattr(node.args[0], "value", None) == "os"
        if called in ("__import__", "import_module") and is_named:
            self.is_bound = True
            node.args[0] = ast.copy_location(ast.Constant(self.name), node.args[0])
        self.generic_visit(node)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if node.module == "os" and not node.level:
            self.is_bound = True
            node.module = self.name
        return node


def _is_os(module: str) -> bool:
    return module in ("os", "os.path")
