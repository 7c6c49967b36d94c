import re

import pytest

from reports.speedup.formats import render_markdown
from scenarios.scenario import SteadyDecode, TraceReplay

from ..conftest import make_cell, make_summary

TIMES = {"full-copy": 2e-3, "incremental": 4e-4}
FASTER = {"incremental": (5.0, 4.5, 5.5)}


def _cells(line: str) -> list[str]:
    """The cells that GitHub sees in a line of a table: an escaped bar separates nothing."""
    assert line.startswith("| ")
    assert line.endswith(" |")
    return re.split(r" (?<!\\)\| ", line[2:-2])


def _tables(text: str) -> list[list[str]]:
    return [block.splitlines() for block in text.split("\n\n") if block.lstrip().startswith("| ")]


def test_the_document_is_table_notes_and_provenance():
    text = render_markdown(
        [make_summary(notes=("A note.", "Another."), provenance="Measured somewhere.")]
    )

    assert text == (
        "| Requests | Tokens per request | full-copy | incremental | Speedup (95 % interval) |\n"
        "| ---: | ---: | ---: | ---: | ---: |\n"
        "| 2 | 64 | 1.00 ms | 0.20 ms | 5.00x (4.50 to 5.50) |\n"
        "\n"
        "A note.\n"
        "\n"
        "Another.\n"
        "\n"
        "Measured somewhere.\n"
    )


def test_every_row_has_as_many_cells_as_the_heading():
    summary = make_summary(
        make_cell(SteadyDecode(requests=2, tokens=64), TIMES, FASTER),
        make_cell(SteadyDecode(requests=2, tokens=64, manager="v1", overlap=True), TIMES, {}),
        make_cell(TraceReplay(path="/traces/a|b.csv"), {"full-copy": 1e-3}, {}),
    )

    (table,) = _tables(render_markdown([summary]))

    assert [len(_cells(line)) for line in table] == [7] * 5
    assert _cells(table[0]) == [
        "Requests",
        "Tokens per request",
        "Manager",
        "Settings",
        "full-copy",
        "incremental",
        "Speedup (95 % interval)",
    ]
    # Numbers read from the right, words from the left.
    assert _cells(table[1]) == ["---:", "---:", ":---", ":---", "---:", "---:", "---:"]


def test_several_arms_have_a_row_each_with_words_on_the_left():
    v1 = SteadyDecode(requests=2, tokens=64, manager="v1", overlap=True)
    cell = make_cell(
        v1, TIMES | {"floor": 1e-5}, FASTER, times_floor={"incremental": (40.0, 39.0, 41.0)}
    )
    arms = ("full-copy", "incremental", "floor")

    (table,) = _tables(render_markdown([make_summary(cell, arms=arms)]))

    assert table == [
        "| Requests | Tokens per request | Manager | Settings | Arm | Time "
        "| Speedup (95 % interval) | x floor (95 % interval) |",
        "| ---: | ---: | :--- | :--- | :--- | ---: | ---: | ---: |",
        "| 2 | 64 | V1 | overlap | full-copy | 2.00 ms | 1 | not measured |",
        "|  |  |  |  | incremental | 0.40 ms | 5.00x (4.50 to 5.50) | 40.0x (39.0 to 41.0) |",
        "|  |  |  |  | floor | 10.0 us |  | 1 |",
    ]


def test_signs_that_mean_something_to_markdown_are_shown_as_they_are():
    cell = make_cell(TraceReplay(path="/traces/a|b<script>\\d.csv"), TIMES, FASTER)

    (table,) = _tables(render_markdown([make_summary(cell)]))

    assert _cells(table[2])[2] == r"trace=a\|b&lt;script>\\d batch=64"
    assert len(_cells(table[2])) == len(_cells(table[0]))


def test_a_backslash_before_a_bar_does_not_set_the_bar_free():
    cell = make_cell(TraceReplay(path="/traces/a\\|b.csv"), TIMES, FASTER)

    (table,) = _tables(render_markdown([make_summary(cell)]))

    # Both escaped: the reader sees a\|b. One backslash more, and the bar would end the cell.
    assert r"trace=a\\\|b batch=64" in table[2]


@pytest.mark.parametrize(
    ("arm", "shown"),
    [
        # No address to write to, nothing struck out.
        ("trtllm:~/TensorRT-LLM@v1.2.0", "`trtllm:~/TensorRT-LLM@v1.2.0`"),
        ("trtllm:a|b<i>", "`trtllm:a\\|b<i>`"),
        ("file:a`b.py", "`` file:a`b.py ``"),
        ("file:a\\|b.py", "file:a\\\\\\|b.py"),
    ],
)
def test_the_name_of_a_foreign_arm_is_shown_as_it_is(arm: str, shown: str):
    cell = make_cell(SteadyDecode(requests=2, tokens=64), {arm: 2e-3}, {})

    (table,) = _tables(render_markdown([make_summary(cell, arms=(arm,))]))

    assert _cells(table[0])[-1] == shown


def test_several_files_have_a_section_each():
    text = render_markdown([make_summary(file="a<b.json"), make_summary(file="c.json")])

    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "### a&lt;b.json",
        "### c.json",
    ]
    assert len(_tables(text)) == 2
    assert "**" not in text  # One machine: no warning.


def test_the_warning_of_two_machines_comes_first():
    here, there = make_summary(), make_summary(machine=("crate", "Test CPU 9000", "8", "c", "3"))

    text = render_markdown([here, there])

    assert text.startswith("**These results come from 2 different machines or Pythons")
    assert text.index("hostname") < text.index("### ")
