"""Runs of a history written by hand: the times are chosen, nothing is measured."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from harness.history.history import ArmOfRun, Folder, Run, file_name, find_folder, write_run
from harness.stats.estimates import Estimate

START = datetime(2026, 3, 4, 5, 6, 7)
ONE = {("v2-2x64", "incremental"): 1e-3}


def make_run(
    day: int = 0,
    seconds: Mapping[tuple[str, str], float] | None = None,
    *,
    samples: Sequence[Sequence[float]] = ((0.5, 1.5), (2.5, 3.5)),
    source: str | None = None,
    **others: Any,  # noqa: ANN401
) -> Run:
    """A run of a day after the first one, with an arm of a cell or with these."""
    arms = tuple(
        ArmOfRun(
            cell=cell,
            arm=arm,
            source=source,
            requests=2.0,
            tokens=65.5,
            seconds=Estimate(value, value * 0.99, value * 1.01),
            processes=tuple(range(len(samples))),
            samples=tuple(map(tuple, samples)),
        )
        for (cell, arm), value in (seconds or ONE).items()
    )
    fields: dict[str, Any] = {
        "date": START + timedelta(days=day),
        "machine": "0123456789ab",
        "host": "box",
        "cpu": "Test CPU 9000",
        "python": "cpython 3.12.1 (64-bit)",
        "provider": "python",
        "tool": "stepbench",
        "gc": False,
        "version": "0.1",
        "revision": f"{day:012x}",
        "round_size": 2,
        "metadata": {"cpu_count": 8},
    }
    return Run(arms=arms, **{**fields, **others})


def write(address: object, *runs: Run) -> Folder:
    """Write runs into a history; return it."""
    folder = find_folder(str(address))
    for number, run in enumerate(runs):
        write_run(folder, file_name(run, f"{number:016x}"), run)
    return folder


def write_some(address: str, numbers: Sequence[int]) -> None:
    """Write runs of these days: what a process of its own does."""
    folder = find_folder(address)
    for number in numbers:
        run = make_run(number, samples=[[float(number)] * 1_000] * 4)
        write_run(folder, file_name(run, f"{number:016x}"), run)
