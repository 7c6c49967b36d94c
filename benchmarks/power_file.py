"""The file of the power study's trials: a line of JSON each, only ever added to.

A line without a part describes a run of the script: the machine, the code, the settings. The
trials that it made follow it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.system.files import read_input
from stepbench_core.errors import InputError

Record = Mapping[str, Any]

# What the line of a run holds at least.
_OF_A_RUN = {"machine", "python", "provider", "budget", "cpus", "date", "revision"}


def load_trials(path: Path, parts: Collection[str]) -> list[Record]:
    """Return the trials in a file, each with what its run is described by.

    An empty list if there is no file. A last line that an interruption cut short is left out.

    Raises:
        InputError: the file cannot be read, or a line is neither a run nor a trial of these parts.
    """
    try:
        lines = read_input(path).split("\n")
    except FileNotFoundError:
        return []
    run: Record | None = None
    trials = []
    for number, text in enumerate(lines[:-1], 1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if isinstance(line, dict) and line.keys() >= _OF_A_RUN:
            run = line
        elif isinstance(line, dict) and line.get("part") in parts and "index" in line and run:
            trials.append({**run, **line})
        else:
            raise InputError(
                f"{path}, line {number}: no trial of this study, or one of an older form"
            )
    return trials


def add_line(path: Path, line: Record) -> None:
    """Put a line at the end of a file, over what an interruption may have left of one.

    Raises:
        InputError: the file cannot be written.
    """
    text = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    try:
        with path.open("r+b" if path.exists() else "wb+") as file:
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)
            file.seek(whole)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def of(trials: Iterable[Record], part: str) -> list[Record]:
    """Return the trials of a part, without those that failed."""
    return [trial for trial in trials if trial["part"] == part and "failed" not in trial]


def cells_of(trials: Iterable[Record]) -> list[Record]:
    """Return the cells of trials."""
    return [cell for trial in trials for cell in trial["cells"]]
