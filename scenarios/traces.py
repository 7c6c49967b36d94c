"""Readers of public request-length traces, told apart by what they hold and not by their names.

Azure LLM inference traces 2023 (CSV): Patel et al., "Splitwise: Efficient generative LLM inference
using phase splitting", ISCA 2024; and 2024 (the same columns): Stojkovic et al., "DynamoLLM", HPCA
2025. BurstGPT (CSV): Wang et al., "BurstGPT: A real-world workload dataset to optimize LLM serving
systems", KDD 2025. Mooncake traces (JSON lines): Qin et al., "Mooncake", FAST 2025.
"""

from __future__ import annotations

import csv
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from stepbench_core.errors import InputError
from stepbench_core.input_files import open_input

from .scenario import MAX_TOKENS, is_number

# The columns of the prompt and of the output, of Azure's layout and of BurstGPT's.
_COLUMNS = (("ContextTokens", "GeneratedTokens"), ("Request tokens", "Response tokens"))
_FIELDS = ("input_length", "output_length")
_EXPECTED = (
    "expected a trace: CSV with the columns ContextTokens and GeneratedTokens (Azure) or Request "
    "tokens and Response tokens (BurstGPT), or JSON lines with input_length and output_length "
    "(Mooncake)"
)
# No line of a trace is longer, whatever lies in the file.
_LONGEST_LINE = 2**20

# Line, prompt and output of each row.
_Rows = Iterator[tuple[int, object, object]]


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request of a trace.

    Attributes:
        prompt: prompt length in tokens, at least 1.
        output: generated tokens, at least 1 in what ``read_trace`` returns.
    """

    prompt: int
    output: int


@dataclass(frozen=True)
class Trace:
    """The requests of a trace.

    Attributes:
        rows: the requests in file order.
        without_output: how many have failed, and are not among them.
    """

    rows: tuple[TraceRow, ...]
    without_output: int


def read_trace(path: str | Path) -> Trace:
    """Return the requests of a trace file.

    Args:
        path: a file of an Azure, BurstGPT or Mooncake trace, plain or gzipped.

    Raises:
        InputError: the file cannot be read, is of another kind, is empty, or has a row that does
            not parse; the message names file and line.
    """
    path = Path(path)
    rows, without_output = [], 0
    try:
        with open_input(path) as file:
            for line, prompt, output in _read(path, file):
                row = _row(f"{path}:{line}", prompt, output)
                if row.output:
                    rows.append(row)
                else:
                    without_output += 1
    except FileNotFoundError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not rows:
        words = f" with output: all {without_output:,} have failed" if without_output else ""
        raise InputError(f"{path}: the trace has no requests{words}")
    return Trace(tuple(rows), without_output)


def _read(path: Path, file: TextIO) -> _Rows:
    """Return the rows of a trace, of the layout that its first line has."""
    lines = _lines(path, file)
    for number, first in enumerate(lines, start=1):
        if first.strip():
            rest = itertools.chain([first], lines)
            read = _json_rows if first.lstrip().startswith("{") else _csv_rows
            return read(path, number, rest)
    raise InputError(f"{path}: it is empty: {_EXPECTED}")


def _csv_rows(path: Path, first: int, lines: Iterator[str]) -> _Rows:
    """Yield the rows of a table whose header is line ``first`` of the file."""
    header = next(lines)
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(itertools.chain([header], lines), delimiter=delimiter)
    try:
        prompt, output = _places(f"{path}:{first}", next(reader))
        for row in reader:
            if any(field.strip() for field in row):
                line = first - 1 + reader.line_num
                yield line, _field(row, prompt), _field(row, output)
    except csv.Error as error:
        raise InputError(f"{path}:{first - 1 + reader.line_num}: {error}") from None


def _field(row: list[str], place: int) -> str | None:
    return row[place].strip() if place < len(row) else None


def _places(where: str, header: list[str]) -> tuple[int, int]:
    """Return which columns are the prompt's and the output's, whatever their case and order."""
    names = [_plain(name) for name in header]
    for columns in _COLUMNS:
        missing = [name for name in columns if _plain(name) not in names]
        if not missing:
            prompt, output = (names.index(_plain(name)) for name in columns)
            return prompt, output
        if len(missing) < len(columns):
            raise InputError(f"{where}: no column {', '.join(missing)}")
    raise InputError(f"{where}: {_EXPECTED}; found {_shortened(repr(','.join(header)))}")


def _json_rows(path: Path, first: int, lines: Iterator[str]) -> _Rows:
    for line, text in enumerate(lines, start=first):
        if not text.strip():
            continue
        try:
            row = {_plain(name): value for name, value in json.loads(text).items()}
            prompt, output = (row[_plain(name)] for name in _FIELDS)
        except (ValueError, KeyError, AttributeError, RecursionError):
            raise InputError(
                f"{path}:{line}: not a JSON object with {' and '.join(_FIELDS)}"
            ) from None
        yield line, prompt, output


def _row(where: str, prompt: object, output: object) -> TraceRow:
    has_failed = is_number(f"{output}") and int(f"{output}") == 0
    # It may have been noted without its prompt.
    least = 0 if has_failed else 1
    return TraceRow(_length(where, "prompt", prompt, least), _length(where, "output", output, 0))


def _length(where: str, name: str, value: object, least: int) -> int:
    digits = str(value)  # A JSON number or a CSV field; 12.5, true and None are not digits.
    if not is_number(digits) or not least <= int(digits) <= MAX_TOKENS:
        raise InputError(
            f"{where}: the {name} length is {_shortened(repr(value))}, "
            f"not a number of tokens from {least} to {MAX_TOKENS:,}"
        )
    return int(digits)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:60]}..."


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, none of which can fill the memory."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise InputError(f"{path}:{number}: a line of more than {_LONGEST_LINE:,} characters")
        yield line
