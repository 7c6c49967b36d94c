import io
import re
from collections import Counter

import pytest

from reports.render.table import Column, ColumnKind, Table, figures, names
from reports.render.terminal import print_parts
from reports.speedup.formats import print_summaries
from scenarios.scenario import SteadyDecode, TraceReplay

from ..conftest import make_cell, make_summary

TIMES = {"full-copy": 2e-3, "incremental": 4e-4}
COLOUR = re.compile(r"\x1b\[[\d;]*\b(3[0-7]|9[0-7]|38)\b[\d;]*m")
ESCAPE = re.compile(r"\x1b\[[\d;]*m")

# A row of each kind, with long words, and with notes that are wider than a terminal.
SUMMARY = make_summary(
    make_cell(
        SteadyDecode(requests=64, tokens=2048, manager="v1", draft_tokens=3, overlap=True),
        TIMES,
        {"incremental": (5.0, 4.5, 5.5)},
    ),
    make_cell(TraceReplay(path=f"/{'long' * 30}.csv"), TIMES, {"incremental": (0.5, 0.4, 0.6)}),
    make_cell(SteadyDecode(requests=1, tokens=64), TIMES, {"incremental": (1.0, 0.9, 1.1)}),
    make_cell(SteadyDecode(requests=1, tokens=65), {"full-copy": 1e-3}, {}),
    notes=(f"`incremental` is slower: {'word ' * 40}.",),
    provenance=f"Measured {'somewhere ' * 40}. Repeat with `stepbench speedup --cells '2x64'`.",
)

LADDER_TIMES = {"full-copy": 2e-3, "page-growth": 4e-4, "floor": 2e-5}
LADDER = make_summary(
    *(
        make_cell(
            SteadyDecode(requests=64, tokens=tokens, manager="v1"),
            LADDER_TIMES,
            {"page-growth": (5.0, 4.5, 5.5)},
            times_floor={"full-copy": (100.0, 95.0, 105.0), "page-growth": (20.0, 19.0, 21.0)},
            requests=64.0,
        )
        for tokens in (2048, 131_072)
    ),
    arms=tuple(LADDER_TIMES),
    provenance="Measured.",
)
LADDER_TEXT = """
           Tokens per                                              Speedup               x floor
 Requests     request  Manager  Arm             Time       (95 % interval)       (95 % interval)
 RULE
       64       2,048  V1       full-copy    2.00 ms                     1    100x (95.0 to 105)
                                page-growth  0.40 ms  5.00x (4.50 to 5.50)  20.0x (19.0 to 21.0)
                                floor        20.0 us                                           1

       64     131,072  V1       full-copy    2.00 ms                     1    100x (95.0 to 105)
                                page-growth  0.40 ms  5.00x (4.50 to 5.50)  20.0x (19.0 to 21.0)
                                floor        20.0 us                                           1

Measured.
""".replace("RULE", "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * 95)


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch):
    """What rich reads of the environment: no colour forced or refused, 80 columns."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def _printed(file: io.StringIO, *summaries: object) -> str:
    print_summaries(summaries or (SUMMARY,), file)  # type: ignore[arg-type]
    return file.getvalue()


def test_a_pipe_gets_no_escape_codes_and_every_row_on_one_line():
    text = _printed(io.StringIO())

    assert "\x1b" not in text
    lines = [line.strip() for line in text.splitlines()]
    assert len([line for line in lines if re.search(r"\dx \(", line)]) == 3
    assert any(line.endswith("0.50x (0.40 to 0.60) slower") for line in lines)
    assert any(f"trace={'long' * 30} batch=64" in line for line in lines)
    # A paragraph is a line of its own, for a pipe to cut as it likes.
    assert f"incremental is slower: {'word ' * 40}." in lines
    assert lines[-1].endswith("Repeat with 'stepbench speedup --cells '2x64''.")


def test_a_terminal_gets_colours_where_they_say_something():
    lines = _printed(Terminal()).splitlines()

    coloured = [line for line in lines if COLOUR.search(line)]
    assert any("\x1b[31m" in line and "0.50x" in line for line in lines)  # Red: slower.
    assert any("\x1b[33m" in line and "1.00x" in line for line in lines)  # Yellow: unclear.
    assert not any("5.00x" in line for line in coloured)


def test_a_terminal_of_80_columns_is_not_overrun():
    other = make_summary(
        file=f"{'folder/' * 15}results.json", machine=("crate", "x", "8", "c", "3")
    )

    text = ESCAPE.sub("", _printed(Terminal(), SUMMARY, other))

    assert max(map(len, text.splitlines())) <= 80


def test_a_narrow_terminal_folds_the_table_and_loses_nothing(monkeypatch: pytest.MonkeyPatch):
    wide = _printed(io.StringIO())
    monkeypatch.setenv("COLUMNS", "60")

    narrow = ESCAPE.sub("", _printed(Terminal()))

    assert max(map(len, narrow.splitlines())) <= 60
    assert _signs(narrow) == _signs(wide)


def _signs(text: str) -> Counter[str]:
    """How often each sign is printed, whatever stands between: folded words are still there."""
    return Counter("".join(text.replace("\N{BOX DRAWINGS LIGHT HORIZONTAL}", "").split()))


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")

    text = _printed(Terminal())

    assert COLOUR.search(text) is None
    assert "0.50x" in text


def test_several_files_are_titled_and_several_machines_marked_first():
    there = make_summary(file="there.json", machine=("crate", "Test CPU 9000", "8", "c", "3"))

    text = _printed(io.StringIO(), make_summary(file="here.json"), there)

    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("These results come from 2 different machines or Pythons")
    assert lines[1] == "here.json"
    assert "there.json" in lines
    assert len([line for line in lines if line.endswith("5.00x (4.50 to 5.50)")]) == 2


def test_a_name_with_brackets_is_no_markup():
    cell = make_cell(TraceReplay(path="/traces/[bold]x[red].csv"), TIMES, {})

    text = _printed(io.StringIO(), make_summary(cell, file="[red].json", notes=("[/b] note",)))

    assert "trace=[bold]x[red] batch=64" in text
    assert "[/b] note" in text


@pytest.mark.parametrize("columns", [100, 140])
def test_the_rows_of_a_cell_stand_together_and_their_words_on_the_left(
    monkeypatch: pytest.MonkeyPatch, columns: int
):
    monkeypatch.setenv("COLUMNS", str(columns))

    lines = [line.rstrip() for line in ESCAPE.sub("", _printed(Terminal(), LADDER)).splitlines()]

    assert lines == LADDER_TEXT.splitlines()


def test_a_cell_of_one_row_has_no_gap_after_it():
    text = _printed(io.StringIO())

    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if "draft=3 overlap" in line)
    assert all(line.strip() for line in lines[first : first + 4])


def test_a_narrow_terminal_loses_nothing_of_several_arms(monkeypatch: pytest.MonkeyPatch):
    wide = _printed(io.StringIO(), LADDER)
    monkeypatch.setenv("COLUMNS", "60")

    narrow = ESCAPE.sub("", _printed(Terminal(), LADDER))

    assert max(map(len, narrow.splitlines())) <= 60
    assert _signs(narrow) == _signs(wide)


WIDE = Table.of(
    (
        Column("Requests", ColumnKind.SIZE),
        *names("Arm"),
        *figures(*(f"Figure {number}" for number in range(6))),
    ),
    (
        ("64", "full-copy", *("1,234,567.89" for _ in range(6))),
        ("", "incremental", *("12.00" for _ in range(6))),
    ),
    rows_per_cell=2,
)


def test_a_table_that_is_too_wide_goes_on_below_with_the_names_of_its_rows():
    file = Terminal()
    print_parts([WIDE], file)

    lines = ESCAPE.sub("", file.getvalue()).splitlines()
    assert max(map(len, lines)) <= 80
    heads = [line.split("Figure") for line in lines if "Figure" in line]
    assert [number.strip() for head in heads for number in head[1:]] == list("012345")
    assert all(head[0].split() == ["Requests", "Arm"] for head in heads)
    assert len(heads) > 1
    assert sum("full-copy" in line for line in lines) == len(heads)


def test_in_a_pipe_a_table_is_as_wide_as_it_is():
    file = io.StringIO()
    print_parts([WIDE], file)

    assert (
        sum("Figure 0" in line and "Figure 5" in line for line in file.getvalue().splitlines()) == 1
    )


def test_a_table_that_cannot_fit_keeps_its_figures_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    file = Terminal()
    print_parts([WIDE], file)

    assert ESCAPE.sub("", file.getvalue()).count("1,234,567.89") == 6
