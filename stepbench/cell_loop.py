"""The loop of commands that measure cell by cell and keep what each gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.system.cores import keep_off, lock_cpu
from stepbench_core.errors import LostWorkerError

from .cli import FOUND, INTERRUPTED, USAGE
from .failures import no_result
from .messages import keep, say
from .progress import CountingProgress


class CellOutcome(Protocol):
    """What measuring a cell gives: its result, or why there is none."""

    @property
    def failure(self) -> str | None:
        """Why there is no result; None where there is one."""


class Named(Protocol):
    """A cell, as far as the loop needs to know."""

    @property
    def name(self) -> str:
        """What it is called."""


C = TypeVar("C", bound=Named)
R = TypeVar("R", bound=CellOutcome)


@dataclass
class Measured(Generic[R]):
    """What a loop over cells gives.

    Attributes:
        results: of each cell that was finished.
        code: the exit code where something stopped the loop or a cell failed, else 0.
        is_kept: whether all results are in the file.
    """

    results: list[R] = field(default_factory=list)
    code: int = 0
    is_kept: bool = True

    def exit_code(self, of_results: int = 0) -> int:
        """Return the command's exit code.

        Args:
            of_results: what the results ask for where nothing stopped or failed.
        """
        # That not all was measured, or kept, is no pass.
        return self.code or of_results or (0 if self.is_kept else USAGE)


def measure_cells(
    cells: Sequence[C],
    measure: Callable[[C], R],
    progress: CountingProgress,
    *,
    cpus: Sequence[int | None] = (),
    file: Path | None = None,
    write: Callable[[Sequence[R]], None] = lambda _: None,
) -> Measured[R]:
    """Measure cell by cell, keep each result, and say what stops that or fails.

    Where the file cannot be written any more, nothing else is measured.

    Args:
        cells: the cells.
        measure: returns the result of one.
        progress: shown meanwhile.
        cpus: the cores to measure on, which are locked meanwhile.
        file: where results are kept; None where they are not.
        write: writes all finished results there.
    """
    found = Measured[R]()
    results = found.results
    try:
        with lock_cpu(*cpus), keep_off(*cpus), progress:
            for cell in cells:
                result = measure(cell)
                # First the file: what is said to be kept has to be in it.
                found.is_kept = keep(partial(write, [*results, result]))
                results.append(result)
                if not found.is_kept:
                    break
    except (OSError, LostWorkerError) as error:
        # Out of processes or open files, for instance: what is finished still counts.
        say(no_result(cells[len(results)].name, error))
        found.code = USAGE
    except KeyboardInterrupt:
        finished = f"{len(results)} of {len(cells)} cells are finished"
        say(f"interrupted; {finished}{f' and kept in {file}' if results and file else ''}")
        found.code = INTERRUPTED
    for result in results:
        if result.failure is not None:
            say(result.failure)
            found.code = found.code or FOUND
    return found
