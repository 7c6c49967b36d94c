"""Readers of public request-length traces.

Azure LLM inference trace 2023 (CSV): Patel et al., "Splitwise: Efficient generative LLM inference
using phase splitting", ISCA 2024. Mooncake traces (JSON lines): Qin et al., "Mooncake", FAST 2025.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from .errors import InputError
from .scenario import MAX_TOKENS, is_number


@dataclass(frozen=True)
class TraceRow:
    """One request of a trace.

    Attributes:
        prompt: prompt length in tokens, at least 1.
        output: generated tokens; 0 where the request ended with its prompt.
    """

    prompt: int
    output: int


def read_trace(path: str | Path) -> list[TraceRow]:
    """Return the requests of a trace file in file order.

    Args:
        path: a ``.csv`` file of the Azure trace or a ``.jsonl`` file of a Mooncake trace.

    Raises:
        InputError: the file cannot be read, is of another kind, is empty, or has a row that does
            not parse; the message names file and line.
    """
    path = Path(path)
    readers = {".csv": _azure_rows, ".jsonl": _mooncake_rows}
    reader = readers.get(path.suffix)
    if reader is None:
        raise InputError(f"{path}: a trace is a .csv (Azure) or a .jsonl (Mooncake) file")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: a pipe or a device, not a file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [_row(path, line, prompt, output) for line, prompt, output in reader(path, file)]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    if not rows:
        raise InputError(f"{path}: the trace has no requests")
    return rows


def _azure_rows(path: Path, file: TextIO) -> Iterator[tuple[int, object, object]]:
    reader = csv.DictReader(file)
    try:
        missing = {"ContextTokens", "GeneratedTokens"} - set(reader.fieldnames or ())
        if missing:
            raise InputError(f"{path}:1: no column {', '.join(sorted(missing))}")
        for row in reader:
            yield reader.line_num, row["ContextTokens"], row["GeneratedTokens"]
    except csv.Error as error:
        # The reader inside has counted this line; the outer one counts rows that it handed out.
        raise InputError(f"{path}:{reader.reader.line_num}: {error}") from None


def _mooncake_rows(path: Path, file: TextIO) -> Iterator[tuple[int, object, object]]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            yield line, row["input_length"], row["output_length"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{path}:{line}: not a JSON object with input_length and output_length"
            ) from None


def _row(path: Path, line: int, prompt: object, output: object) -> TraceRow:
    lengths = []
    for name, value, least in (("prompt", prompt, 1), ("output", output, 0)):
        digits = str(value)  # A JSON number or a CSV field; 12.5, true and None are not digits.
        if not is_number(digits) or not least <= int(digits) <= MAX_TOKENS:
            raise InputError(
                f"{path}:{line}: the {name} length is {_shortened(repr(value))}, "
                f"not a number of tokens from {least} to {MAX_TOKENS:,}"
            )
        lengths.append(int(digits))
    return TraceRow(*lengths)


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:60]}..."
