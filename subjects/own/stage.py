"""Copies of arms with a world each, of a user's own function. Of the standard library alone."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from stepbench_core.errors import ArmError, InputError, NotImportableError, described
from subjects.base import Cell, cell_from_dict

from .copies import Copies, Copy
from .function import built, cells_of, functions_of, pick
from .outcomes import Tree, tree_of
from .step import Step

# What lies here is none of the user's code.
OURS = tuple(
    f"{Path(__file__).parents[2] / package}/" for package in ("harness", "stepbench", "subjects")
)


# What a user's code can raise. A worker is sent no signal that would be an interruption.
USERS = (Exception, SystemExit, KeyboardInterrupt)


class OwnStage:
    """Copies of arms, each with a world of its own from the same seed.

    Args:
        subject: the user's file, the name of the function in it (None for the only one) and the
            top-level names of the user's packages, as ``file``, ``function`` and ``packages``.
        arms: of each copy ``spec``, how the user called the arm, and ``folders``, where its
            packages are.
        cell: the cell as ``Cell.to_dict`` gives it; None where no world is built.
        seed: of the worlds.
    """

    def __init__(
        self,
        subject: Mapping[str, Any],
        arms: Sequence[Mapping[str, Any]],
        cell: Mapping[str, Any] | None,
        seed: str,
    ) -> None:
        self._file, self._name = subject["file"], subject["function"]
        self._arms = arms
        self._cell = None if cell is None else cell_from_dict(cell)
        self._seed = zlib.crc32(seed.encode())
        module = Path(self._file).stem
        # It may be called as one of the packages that it measures.
        self._module = f"_{module}" if module in subject["packages"] else module
        self._process = os.getpid()
        folder = str(Path(self._file).parent)
        # Nothing is written beside the user's code.
        sys.dont_write_bytecode = True
        self._copies = Copies(subject["packages"], [folder])
        self._loaded: dict[int, tuple[Copy, ModuleType]] = {}
        self._steps: dict[int, Step] = {}
        # How many steps of each copy were begun.
        self._taken: Counter[int] = Counter()

    def load(self, copy: int) -> None:
        """Import the user's file and, with it, an arm's packages, as modules of this copy alone."""
        arm = self._arms[copy]
        own = Copy(self._copies, arm["spec"], arm["folders"])
        with self._told(copy, "cannot be imported", NotImportableError):
            self._loaded[copy] = own, own.load(self._file, self._module)

    def functions(self) -> dict[str, tuple[Cell, ...]]:
        """Return the cells of each function that the subject names: one, or all of its file."""
        _, module = next(iter(self._loaded.values()))
        found = functions_of(module)
        if self._name is not None or not found:
            found = {self._name or "": pick(module, self._file, self._name)}
        return {
            name: cells_of(function, f"{self._file}::{name}") for name, function in found.items()
        }

    def build(self) -> None:
        """Build a world for each copy, in the order in which they were loaded."""
        if self._cell is None:
            raise ValueError("there is no cell to build a world of")
        for copy, (own, module) in self._loaded.items():
            function = pick(module, self._file, self._name)
            own.activate()
            # For what draws without a seed of its own.
            random.seed(self._seed)
            with self._told(copy, "its world cannot be built"):
                self._steps[copy] = built(function, self._cell, self._seed, self._where)

    def advance(self) -> None:
        """Do nothing: no world is shared."""

    def ready(self, copy: int) -> Callable[[], object]:
        """Move the world of a copy on, and return its call."""
        self._end_fork()
        own, _ = self._loaded[copy]
        own.activate()
        self._taken[copy] += 1
        step = self._steps[copy]
        if step.advance is not None:
            with self._told(copy, "advance raised"):
                returned = step.advance()
            if returned is not None:
                raise InputError(
                    f"{self._where}: advance must return nothing, and returned a "
                    f"{type(returned).__name__}: what is to be compared is what call returns"
                )
        return step.call

    def tell(self, copy: int, error: BaseException) -> None:
        """Raise the error for what a call raised."""
        raise ArmError(self._words(copy, "call raised", error), self._trace(copy, error)) from error

    def outcome(self, copy: int, output: object) -> object:
        """Return what of an output is compared."""
        self._end_fork()
        outcome = self._steps[copy].outcome
        if outcome is None:
            return output
        with self._told(copy, "outcome raised"):
            return outcome(output)

    @property
    def _where(self) -> str:
        name = f"::{self._name}" if self._name else ""
        return f"{self._file}{name}"

    def tree(self, copy: int, outcome: object) -> Tree:
        """Return an outcome as a tree. Raises InputError or ArmError where it cannot be one."""
        with self._told(copy, "its output cannot be compared"):
            return tree_of(outcome)

    def _end_fork(self) -> None:
        """End this process if the user's code made it, and let it go on here."""
        if os.getpid() != self._process:
            os._exit(0)

    def _words(self, copy: int, what: str, error: BaseException) -> str:
        cell = "" if self._cell is None else f", cell {self._cell.name}"
        step = f", step {self._taken[copy]}" if self._taken[copy] else ""
        words = f"{self._where}{cell}, arm {self._arms[copy]['spec']!r}{step}: {what}"
        return self._without_folders(copy, f"{words}: {described(error)}")

    def _without_folders(self, copy: int, text: str) -> str:
        """Return a text with the arm in place of its temporary folders, which say nothing."""
        arm = self._arms[copy]
        for folder in arm["folders"]:
            text = text.replace(f"{folder}/", f"{arm['spec']} ")
        return text

    @contextlib.contextmanager
    def _told(
        self, copy: int, what: str, kind: type[ArmError | NotImportableError] = ArmError
    ) -> Iterator[None]:
        """Say whose code it was that raised something."""
        try:
            yield
        except InputError:
            raise
        except USERS as error:
            if isinstance(error, ImportError) and not self._taken[copy]:
                kind = NotImportableError
            raise kind(self._words(copy, what, error), self._trace(copy, error)) from error

    def _trace(self, copy: int, error: BaseException) -> str:
        """Return the traceback of an error, without frames that are ours."""
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith((*OURS, "<frozen importlib"))
        ]
        lines = traceback.format_list(frames)
        head = ["Traceback (most recent call last):\n"] if frames else []
        text = "".join([*head, *lines, *traceback.format_exception_only(error)]).rstrip()
        return self._without_folders(copy, text)
