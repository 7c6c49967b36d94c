import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from stepbench import options
from stepbench_core.errors import InputError

from .conftest import SCRIPT, Run, assert_refused


@pytest.mark.parametrize(
    ("style", "as_json", "chosen"),
    [
        ("csv", False, "csv"),
        ("terminal", False, "terminal"),
        (None, True, "json"),
        ("json", True, "json"),
    ],
)
def test_the_format_is_the_one_asked_for(style: str | None, as_json: bool, chosen: str):
    assert options.chosen_format(style, as_json) == chosen


@pytest.mark.parametrize(("terminal", "chosen"), [(True, "terminal"), (False, "markdown")])
def test_the_default_suits_where_the_result_goes(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, chosen: str
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)

    assert options.chosen_format(None, False) == chosen


@pytest.mark.parametrize("style", ["terminal", "markdown", "csv"])
def test_json_and_another_format_contradict_each_other(style: str):
    with pytest.raises(click.UsageError, match=f"--json contradicts --format {style}"):
        options.chosen_format(style, True)


@pytest.mark.parametrize("command", [("report", "x.json"), ("speedup",)])
def test_the_contradiction_is_found_before_anything_else(run_here: Run, command: tuple[str, ...]):
    assert_refused(run_here(*command, "--json", "--format", "csv"), "--json contradicts --format")
    assert list(Path().iterdir()) == []


def test_the_formats_offered_are_those_there_are(run_here: Run, results: str):
    assert options.FORMATS == ("terminal", "markdown", "csv", "json")
    assert_refused(run_here("speedup", "--format", "html"), "'html'", *options.FORMATS)
    more = (*options.FORMATS, "comment", "html")
    assert_refused(run_here("report", results, "--format", "pdf"), "'pdf'", *more)


def _jobs(*arguments: str) -> int:
    """What ``--jobs`` makes of its text."""
    command = click.command()(options.jobs_option(lambda jobs: jobs))
    return command.main(list(arguments), standalone_mode=False)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("16", 16), ("007", 7), ("9999", 9999)])
def test_jobs_are_a_number_of_processes(text: str, number: int):
    assert _jobs("--jobs", text) == number


@pytest.mark.parametrize("arguments", [(), ("--jobs", "auto")])
def test_automatic_jobs_are_one_for_each_core_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
):
    monkeypatch.setattr(options, "allowed_cpus", lambda: [1, 4, 6])

    assert _jobs(*arguments) == 3


@pytest.mark.parametrize(
    "text", ["0", "000", "-1", "+1", "1.5", "1e3", "10000", "", " 1", "Auto", "\N{SUPERSCRIPT TWO}"]
)
def test_jobs_that_are_none_are_refused(text: str):
    with pytest.raises(InputError, match="--jobs takes a number of processes or 'auto', not '"):
        _jobs("--jobs", text)


def test_a_command_may_offer_fewer_formats(run_here: Run):
    ran = run_here("count", "--format", "csv")
    assert_refused(ran, "'csv'", "'terminal', 'markdown', 'json'")


def test_a_terminal_gets_a_table_of_its_width(results: str):
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"}
    process = subprocess.Popen(
        [SCRIPT, "report", results], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65_536):
            written += part
    except OSError:  # How Linux says that the other end of a terminal is closed.
        pass
    finally:
        os.close(ours)

    assert process.wait() == 0
    text = written.decode()
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", text)
    assert "full-copy" in plain
    assert "|" not in plain
    assert max(map(len, plain.splitlines())) <= 80
