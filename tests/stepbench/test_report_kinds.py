"""``stepbench report`` on what the other commands wrote, in all formats."""

import json
from pathlib import Path

import pytest

from .conftest import Run, assert_refused, run_script

COMPARE = ("incremental", "batched", "--cells", "2x64", "--seconds", "0.1", "--cpu", "none", "-q")


@pytest.fixture
def evidence(results: str, run_here: Run) -> list[str]:
    """The names of a file of each kind, but for the gate's."""
    run_here("compare", *COMPARE, "--no-verify", "-o", "duet.json")
    counted = run_here("count", "--cells", "2x64,2x128", "--arms", "full-copy,batched", "--json")
    Path("work.json").write_text(counted.out)
    verified = run_here("verify", "batched", "--runs", "5", "--jobs", "1", "--json")
    Path("same.json").write_text(verified.out)
    return [results, "duet.json", "work.json", "same.json"]


@pytest.mark.thorough
def test_all_kinds_together_in_all_formats(evidence: list[str], run_here: Run):
    """Measured once, since that takes longer than all the rest."""
    comment = run_here("report", *evidence, "--format", "comment")
    assert comment.code == 0
    assert comment.out.startswith("<!-- stepbench -->\n**")
    assert comment.out.count("### ") == 4

    markdown = run_here("report", *evidence, "--format", "markdown")
    assert [line for line in markdown.out.splitlines() if line.startswith("## ")] == [
        "## Slower or faster?",
        "## Speedup: x.json",
        "## Same outputs?",
        "## How much work?",
    ]
    assert "`batched` gave the outputs of `full-copy`" in markdown.out

    terminal = run_here("report", *evidence, "--format", "terminal")
    assert "How much work?" in terminal.out
    assert "`" not in terminal.out

    document = json.loads(run_here("report", *evidence, "--json").out)
    assert [one["title"] for one in document["sections"]] == [
        "Slower or faster?",
        "Same outputs?",
        "How much work?",
    ]
    assert len(document["results"]) == 1

    table = run_here("report", *evidence, "--format", "csv")
    assert table.out.count("\n") == 3
    assert table.err == "stepbench: CSV holds speedup tables alone: the other files are left out\n"

    page = run_here("report", *evidence, "--format", "html", "-o", "page.html")
    assert (page.code, page.out) == (0, "")
    text = Path("page.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "How much work?" in text

    plots = run_here("report", *evidence, "--plots", "plots", "--format", "csv")
    assert plots.out == table.out
    assert "16 files in plots" in plots.err
    assert len(list(Path("plots").iterdir())) == 16  # The two cells of the table share no length.
    for ran in (comment, markdown, terminal):
        assert ran.err == ""


@pytest.mark.thorough
def test_what_a_command_printed_alone(evidence: list[str], run_here: Run):
    for file in evidence[1:]:
        ran = run_here("report", file)
        assert ran.code == 0
        assert ran.out.startswith("## ")
    assert_refused(run_here("report", "work.json", "--format", "csv"), "CSV holds speedup tables")
    drawn = run_here("report", "same.json", "--plots", "plots")
    assert (drawn.code, drawn.out[:3]) == (2, "## ")
    assert drawn.err == "stepbench: error: --plots: nothing to draw: the files hold no samples\n"
    assert not Path("plots").exists()


def test_a_report_goes_to_a_file(results: str, run_here: Run):
    printed = run_here("report", results, "--format", "markdown")
    written = run_here("report", results, "--format", "markdown", "-o", "table.md")

    assert (written.code, written.out, written.err) == (0, "", "")
    assert Path("table.md").read_text() == printed.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--baseline", "x.json", "--plots", "p"), "--baseline goes with a table alone"),
        (("--baseline", "x.json", "--format", "comment"), "--baseline goes with a table alone"),
        (("--baseline", "x.json", "-o", "y"), "--baseline goes with a table alone"),
        (("-o", "."), ".: a folder, not a file"),
        (("-o", "x.json/y"), "x.json: cannot be written"),
        (("-o", "x.json"), "x.json: is read by the report: it would be lost"),
        (("-o", "x.json", "--force"), "x.json: is read by the report: it would be lost"),
        (("-o", "there.json"), "there.json: exists; --force overwrites it"),
        (("--format", "pdf"), "'pdf' is not one of"),
    ],
)
def test_options_that_do_not_go_together(
    results: str, run_here: Run, arguments: tuple[str, ...], text: str
):
    before = Path(results).read_text()
    Path("there.json").write_text("{}")

    assert_refused(run_here("report", results, *arguments), text)
    assert Path(results).read_text() == before


@pytest.mark.parametrize(
    "text",
    [
        '{"stepbench_gate_format": 1}',
        '{"stepbench_work_format": 1, "work": []}',
        '{"stepbench_verification_format": 9}',
        '{"stepbench_duet_format": 2, "cells": []}',
    ],
)
def test_a_damaged_document_is_refused_by_name(results: str, run_here: Run, text: str):
    Path("bad.json").write_text(text)

    assert_refused(run_here("report", results, "bad.json", "--format", "comment"), "bad.json: ")


def test_the_script_makes_a_comment(results: str):
    ran = run_script("report", results, "--format", "comment")

    assert (ran.code, ran.err) == (0, "")
    assert "xychart-beta" in ran.out
