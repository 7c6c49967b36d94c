"""Placeholders for what a checkout's module imports beyond the known surface."""

from __future__ import annotations

import abc
import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast


class NotProvidedError(NotImplementedError):
    """Something was called that only stands for what an engine has."""


class _Placeholder(abc.ABCMeta):
    """The type of placeholders: classes, so that they fit annotations and lists of base classes.

    Of ``ABCMeta``, since a class may have a placeholder and an abstract class as its bases.
    """

    def __call__(cls, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        if "_is_placeholder" in vars(cls):
            raise NotProvidedError(f"{cls.__qualname__} is a placeholder here, and was called")
        return super().__call__(*arguments, **named)

    def __getattr__(cls, name: str) -> Any:  # noqa: ANN401
        # Of a class that has one as its base, what is missing is just missing.
        if name.startswith("__") or "_is_placeholder" not in vars(cls):
            raise AttributeError(f"{cls.__qualname__} has no attribute {name!r}")
        return placeholder(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, _item: object) -> _Placeholder:
        return cls


@functools.cache
def placeholder(path: str) -> _Placeholder:
    """Return the placeholder for what is found under a path such as ``torch.Tensor``."""
    names = {"_is_placeholder": True, "__qualname__": path, "__module__": __name__}
    return _Placeholder(path.rpartition(".")[2], (), names)


def is_placeholder(value: object) -> bool:
    """Return whether a value is a placeholder, and no class that has one as its base."""
    return isinstance(value, _Placeholder) and "_is_placeholder" in vars(value)


def missing_names(module: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__``: a placeholder for each name that the module lacks.

    Of a package, first the module of that name, which may not have been imported yet.

    Args:
        module: the module's full name, ``stubs.surface.`` included.
    """
    path = module.partition(".surface.")[2]

    def find(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"{path} has no attribute {name!r}")
        found = _submodule(module, name)
        if found is None:
            found = placeholder(f"{path}.{name}")
            # A list of the module's names says what was asked for.
            setattr(sys.modules[module], name, found)
        return found

    return find


def _submodule(package: str, name: str) -> object | None:
    """Return the module of a package that has a file, which an engine imports by itself."""
    folders = getattr(sys.modules[package], "__path__", ())
    if importlib.machinery.PathFinder.find_spec(f"{package}.{name}", folders) is None:
        return None
    return importlib.import_module(f"{package}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module of placeholders under every name of a package that has no file."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(self._prefix):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        cast("Any", module).__getattr__ = missing_names(module.__name__)


def install(package: str) -> None:
    """Have every module of a package found. After all other finders: files come first."""
    sys.meta_path.append(_Finder(package))
