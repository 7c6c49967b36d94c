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

from .known import ENGINE, KNOWN
from .noops import NoOp, noop
from .not_provided import USES, NotProvidedError

# Where the measured path imports from: what these are in the engine is known, if not all they hold.
_EXECUTOR = f"{ENGINE}._torch.pyexecutor"
PACKAGES = (
    *(f"{ENGINE}._torch", _EXECUTOR, f"{_EXECUTOR}.connectors", f"{_EXECUTOR}.kv_cache"),
    *(f"{ENGINE}.bindings", f"{ENGINE}.bindings.internal", f"{ENGINE}.llmapi"),
    *(f"{_EXECUTOR}.{name}" for name in ("llm_request", "resource_manager", "scheduler")),
    *(f"{_EXECUTOR}.kv_cache.kv_cache_manager_v2", f"{ENGINE}.bindings.internal.batch_manager"),
)
# What is named so is an error, which can be caught though nobody raises it.
_ERRORS = ("Error", "Exception", "Exit", "Interrupt", "Warning")
# Modules that are no packages: to import a name from a package takes longer, at every call.
_PLAIN = ("_utils", "batch_manager", "kv_cache_manager_v2", "llm_request", "resource_manager")
# What else an annotation or `typing` compares a class with.
_TYPING = ("typing", "types", "typing_extensions")


class _Placeholder(abc.ABCMeta):
    """The type of placeholders: classes, so that they fit annotations and lists of base classes.

    Of ``ABCMeta``, since a class may have a placeholder and an abstract class as its bases. What
    stands for no value raises NotProvidedError where it is used as one.
    """

    def __call__(cls, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        if "_is_placeholder" in vars(cls):
            raise NotProvidedError(cls.__qualname__)
        return super().__call__(*arguments, **named)

    def __getattr__(cls, name: str) -> Any:  # noqa: ANN401
        # Of a class that has one as its base, what is missing is just missing.
        if name.startswith("__") or "_is_placeholder" not in vars(cls):
            raise AttributeError(f"{cls.__qualname__} has no attribute {name!r}")
        return resolve(f"{cls.__qualname__}.{name}")

    def __getitem__(cls, _item: object) -> _Placeholder:
        return cls

    def __bool__(cls) -> bool:
        if "_is_placeholder" in vars(cls):
            raise NotProvidedError(cls.__qualname__, "was asked whether it is true")
        return True

    def __eq__(cls, other: object) -> bool:
        is_type = isinstance(other, type) or type(other).__module__ in _TYPING
        if cls is other or is_type or "_is_placeholder" not in vars(cls):
            return cls is other
        raise NotProvidedError(cls.__qualname__, "was compared")

    __hash__ = type.__hash__


def _refusing(name: str, use: str) -> Callable[..., Any]:
    own = getattr(type, name, None) if use == "was formatted" else None

    def refuse(cls: type, *arguments: object) -> Any:  # noqa: ANN401
        if own is not None and "_is_placeholder" not in vars(cls):
            return own(cls, *arguments)
        raise NotProvidedError(placeholder_of(cls) or cls.__qualname__, use)

    return refuse


for _use, _names in USES.items():
    for _name in _names:
        setattr(_Placeholder, f"__{_name}__", _refusing(f"__{_name}__", _use))


def placeholder_of(owner: type) -> str | None:
    """Return the path of the placeholder that a class has as a base, or is; None without."""
    found = (base for base in owner.__mro__ if "_is_placeholder" in vars(base))
    return next((base.__qualname__ for base in found), None)


def resolve(path: str) -> Any:  # noqa: ANN401
    """Return what stands for a dotted name: what is known of the engine, a no-op, a placeholder."""
    module, _, name = path.rpartition(".")
    if module.partition(".")[0] == ENGINE and name in KNOWN:
        return KNOWN[name]
    return noop(path) or placeholder(path)


@functools.cache
def placeholder(path: str) -> _Placeholder:
    """Return the placeholder for what is found under a path such as ``torch.Tensor``."""

    def refuse(_self: object, *arguments: object, **named: object) -> None:
        if arguments or named:
            raise NotProvidedError(path, "was given arguments")

    names = {"_is_placeholder": True, "__qualname__": path, "__module__": __name__}
    # A class on top of it may have arguments, and say things of itself that nobody hears.
    names |= {"__init__": refuse, "__init_subclass__": classmethod(_hear_nothing)}
    name = path.rpartition(".")[2]
    bases = (Exception,) if name.endswith(_ERRORS) else ()
    return _Placeholder(name, bases, names)


def _hear_nothing(_cls: type, /, **_named: object) -> None:
    pass


def is_placeholder(value: object) -> bool:
    """Return whether a value is a placeholder, and no class that has one as its base."""
    return isinstance(value, _Placeholder) and "_is_placeholder" in vars(value)


def is_noop(value: object) -> bool:
    """Return whether a value does nothing, whatever is done with it."""
    return isinstance(value, NoOp)


def missing_names(module: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__``: what stands for each name that the module lacks.

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
            found = resolve(f"{path}.{name}")
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
        is_package = name.rpartition(".")[2] not in _PLAIN
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        cast("Any", module).__getattr__ = missing_names(module.__name__)


def install(package: str) -> None:
    """Have every module of a package found. After all other finders: files come first."""
    sys.meta_path.append(_Finder(package))
