"""The speedup table as rows of text, before any markup."""

from dataclasses import dataclass

from harness.statistics import Estimate
from scenarios.scenario import SteadyDecode

from .summary import Cell, Summary, is_open


@dataclass(frozen=True)
class Table:
    """A table of texts.

    Attributes:
        columns: the headings.
        rows: the texts, as many in each row as there are columns.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def speedup_table(summary: Summary) -> Table:
    """Return the table of a summary: the cell, a time for each arm, a speedup for all but one.

    Manager and settings have columns of their own where the cells differ in them.
    """
    settings = [" ".join(cell.scenario.settings()) for cell in summary.cells]
    managers = {cell.scenario.manager for cell in summary.cells}
    with_manager = managers != {"v2"}
    with_settings = any(settings)
    base, *others = summary.arms
    columns = ["Requests", "Tokens per request"]
    columns += ["Manager"] if with_manager else []
    columns += ["Settings"] if with_settings else []
    columns += [base, *others]
    if len(others) == 1:
        columns.append("Speedup (95 % interval)")
    else:
        columns += [f"{arm}: speedup (95 % interval)" for arm in others]
    rows = []
    for cell, words in zip(summary.cells, settings, strict=True):
        row = [f"{cell.requests:,.0f}", _tokens(cell)]
        row += [cell.scenario.manager.upper()] if with_manager else []
        row += [words] if with_settings else []
        row += [_time(cell, arm) for arm in summary.arms]
        row += [_speedup(cell, arm) for arm in others]
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows))


def format_time(seconds: float) -> str:
    """Return a time with three digits, in ms or, below a tenth of one, in us."""
    if seconds < 1e-4:
        return f"{_digits(seconds * 1e6)} us"
    return f"{_digits(seconds * 1e3)} ms"


def format_speedup(speedup: Estimate) -> str:
    """Return a speedup with its interval, and a word where it is none."""
    if is_open(speedup):
        return f"{_digits(speedup.value)}x (one process: no interval)"
    text = f"{_digits(speedup.value)}x ({_digits(speedup.low)} to {_digits(speedup.high)})"
    if speedup.high < 1:
        return f"{text} slower"
    if speedup.low <= 1:
        return f"{text} no clear difference"
    return text


def _digits(value: float) -> str:
    # Three digits, also where rounding carries into the next power of ten.
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}"


def _tokens(cell: Cell) -> str:
    if isinstance(cell.scenario, SteadyDecode):
        return f"{cell.scenario.tokens:,}"
    return f"{cell.tokens:,.0f} (mean)"


def _time(cell: Cell, arm: str) -> str:
    return format_time(cell.seconds[arm].value) if arm in cell.seconds else "not measured"


def _speedup(cell: Cell, arm: str) -> str:
    return format_speedup(cell.speedups[arm]) if arm in cell.speedups else "not measured"
