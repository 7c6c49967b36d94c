"""Copies of a user's packages in one process, each with modules of its own.

A copy is active while its code runs: then ``sys.modules`` holds its modules, and no other copy's,
and what it imports comes from its folders. So imports need no help, whether they are relative,
within functions or by ``importlib``, and what is timed is the code as it is. Of the standard
library alone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType


class Copies:
    """The copies of a process, of which one is active at a time.

    Args:
        packages: the top-level names that are imported from a copy's folders.
        shared: further folders, the same for all copies, such as the one that the user's file is
            in; of what is found there each copy has modules of its own as well.
    """

    def __init__(self, packages: Iterable[str], shared: Sequence[str] = ()) -> None:
        self._packages = frozenset(packages)
        self._shared = list(shared)
        # All names that each copy has modules of its own for.
        self._own = set(self._packages)
        self._active: Copy | None = None
        # What others imported under these names.
        self._outside: dict[str, ModuleType] = {}
        sys.meta_path.insert(0, self)

    def activate(self, copy: Copy | None) -> None:
        """Make a copy's modules those that imports find; None for none."""
        if copy is self._active:
            return
        if self._active is not None:
            self._active.modules = self._take_out()
        elif copy is not None:
            self._outside = self._take_out()
        self._active = copy
        sys.modules.update(self._outside if copy is None else copy.modules)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the active copy; the import system calls this first."""
        copy, top = self._active, name.partition(".")[0]
        if copy is None or (path is not None and top not in self._packages):
            return None
        if top in self._packages:
            found = PathFinder.find_spec(name, path or copy.folders, target)
            if found is None and path is None and top in sys.stdlib_module_names:
                return None  # Another arm has a module of that name.
            if found is None:
                # Not another one that is installed.
                raise ModuleNotFoundError(f"No module named {name!r} in {copy.name}", name=name)
            return found
        if top in sys.stdlib_module_names:
            return None
        found = PathFinder.find_spec(name, self._shared, target)
        if found is None or found.loader is None:  # A folder without code is no package.
            return None
        self._own.add(top)
        return found

    def add(self, name: str) -> None:
        """Give each copy a module of its own of this top-level name."""
        self._own.add(name)

    def _take_out(self) -> dict[str, ModuleType]:
        """Return the modules under the copies' names, which are in ``sys.modules`` no more."""
        names = [name for name in list(sys.modules) if name.partition(".")[0] in self._own]
        return {name: sys.modules.pop(name) for name in names}


class Copy:
    """An arm's modules.

    Args:
        copies: the copies of this process.
        name: the arm, for messages.
        folders: where its packages are.
    """

    def __init__(self, copies: Copies, name: str, folders: Sequence[str]) -> None:
        self.name = name
        self.folders = list(folders)
        self.modules: dict[str, ModuleType] = {}
        self._copies = copies

    def activate(self) -> None:
        """Make this copy's modules those that imports find."""
        self._copies.activate(self)

    def load(self, file: str, name: str) -> ModuleType:
        """Return the module of a file, imported as one of this copy's own.

        Args:
            file: its path.
            name: its name.
        """
        self.activate()
        spec = importlib.util.spec_from_file_location(name, Path(file))
        if spec is None or spec.loader is None:
            raise ImportError(f"{file}: not a Python file")
        self._copies.add(name)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
