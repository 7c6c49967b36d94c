"""All plots of a report, and the files of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from harness.system.files import write_atomically
from reports.evidence import Evidence
from stepbench_core.errors import InputError

from . import distribution, duet, overlap, scaling, speedup, timeline
from .style import THEMES, Plot, render

T = TypeVar("T")
_KINDS = ("svg", "png")


def plots(evidence: Evidence) -> list[Plot]:
    """Return the plots that the evidence allows; those of several files of a kind are numbered."""
    return list(_plots(evidence))


def _plots(evidence: Evidence) -> Iterator[Plot]:
    measured = list(zip(evidence.results, evidence.summaries, strict=True))
    for suffix, (results, summary) in _numbered(measured):
        found = (
            speedup.plot(summary, f"speedup{suffix}"),
            scaling.plot(summary, f"scaling{suffix}"),
            timeline.plot(results, f"timeline{suffix}"),
            distribution.plot(results, summary.samples, f"distribution{suffix}"),
        )
        yield from filter(None, found)
    for suffix, file in _numbered(evidence.duets):
        yield from filter(None, [duet.plot(file, f"duet{suffix}")])
    for suffix, looped in _numbered(evidence.overlaps):
        yield from filter(None, [overlap.plot(looped, f"overlap{suffix}")])


def _numbered(files: Sequence[T]) -> Iterator[tuple[str, T]]:
    """Yield each file with what ends the names of its plots: a number where there are several."""
    for number, file in enumerate(files, start=1):
        yield f"-{number}" if len(files) > 1 else "", file


def write_plots(
    found: Sequence[Plot], folder: Path, progress: Callable[[int], None] = lambda _count: None
) -> list[Path]:
    """Write each plot as SVG and PNG, for light and for dark pages; return the files.

    Args:
        found: the plots.
        folder: where to; it is made if it is missing.
        progress: called with 1 after each plot.

    Raises:
        InputError: a file cannot be written.
    """
    files = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for plot in found:
            for theme in THEMES:
                for kind in _KINDS:
                    file = folder / f"{plot.name}-{theme.name}.{kind}"
                    drawn = render(plot, theme, kind)
                    write_atomically(file, partial(_write, drawn), "wb")
                    files.append(file)
            progress(1)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}"
        ) from None
    return files


def _write(drawn: bytes, file: IO[bytes]) -> None:
    file.write(drawn)
