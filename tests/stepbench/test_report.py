import csv
import io
import json
from pathlib import Path

import pytest

from .conftest import TINY, Run, assert_refused, run_script


@pytest.mark.thorough
@pytest.mark.parametrize("style", ["terminal", "markdown", "csv", "json"])
def test_a_report_is_what_the_measurement_printed(run_here: Run, style: str):
    measured = run_here("speedup", *TINY, "-o", "x.json", "--format", style)
    reported = run_here("report", "x.json", "--format", style)

    assert (measured.code, reported.code) == (0, 0)
    assert measured.out
    assert reported.out == measured.out
    assert reported.err == ""


def test_the_script_reports_as_well(results: str, run_here: Run):
    ran = run_script("report", results)

    assert ran.code == 0
    assert ran.out.startswith("| Requests | Tokens per request | full-copy | incremental |")
    assert ran == run_here("report", results)


def test_json_is_short_for_the_format(results: str, run_here: Run):
    short = run_here("report", results, "--json")

    assert short == run_here("report", results, "--format", "json")
    assert json.loads(short.out)["results"][0]["file"] == results


def test_several_files_are_reported_in_the_order_given(results: str, run_here: Run):
    Path("a folder").mkdir()
    other = "a folder/y.json"
    Path(other).write_text(Path(results).read_text())

    ran = run_here("report", other, results, other, "--format", "csv")

    assert ran.code == 0
    files = [row["file"] for row in csv.DictReader(io.StringIO(ran.out))]
    assert files == [other, other, results, results, other, other]


def test_results_of_two_machines_are_marked(results: str, run_here: Run):
    text = Path(results).read_text()
    there = {"stepbench_machine": "000011112222", "hostname": "crate"}
    Path("there.json").write_text(_with_metadata(text, **there))

    together = run_here("report", results, "there.json")
    alone = run_here("report", "there.json")

    assert together.code == 0
    assert together.out.startswith("**These results come from 2 different machines")
    assert "(they differ in fingerprint)" in together.out
    assert "different machines" not in alone.out


def _with_metadata(text: str, **fields: object) -> str:
    document = json.loads(text)
    document["metadata"].update(fields)
    return json.dumps(document)


def _without(text: str, field: str) -> str:
    document = json.loads(text)
    del document["metadata"][field]
    return json.dumps(document)


FOREIGN = {
    "empty": lambda _: "",
    "truncated": lambda text: text[: len(text) // 2],
    "no JSON": lambda _: "| Requests | Tokens per request |",
    "other JSON": lambda _: '{"benchmarks": 3}',
    "a list": lambda _: "[]",
    "a number": lambda _: "1",
    "pyperf's, not ours": lambda text: _without(text, "stepbench_format"),
    "of a later version": lambda text: _with_metadata(text, stepbench_format=3),
    "without its plan": lambda text: _without(text, "stepbench_plan"),
    "with a damaged plan": lambda text: _with_metadata(text, stepbench_plan="{}"),
    "with words for numbers in its plan": lambda text: text.replace(
        '\\"processes\\":2', '\\"processes\\":\\"two\\"'
    ),
    "with a sample too many": lambda text: text.replace('"values":[', '"values":[1.0,'),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_results_file_is_refused_by_name(
    stored_text: str, run_here: Run, results: str, kind: str
):
    Path("bad.json").write_text(FOREIGN[kind](stored_text))

    # A good file before it must not come out half-way.
    assert_refused(run_here("report", results, "bad.json"), "bad.json: ")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("truncated", "truncated"),
        ("pyperf's, not ours", "not one that stepbench wrote"),
        ("of a later version", "later stepbench: format 3, this one reads 2"),
        ("with a damaged plan", "damaged"),
    ],
)
def test_the_refusal_says_what_is_wrong(stored_text: str, run_here: Run, kind: str, text: str):
    Path("bad.json").write_text(FOREIGN[kind](stored_text))

    assert_refused(run_here("report", "bad.json"), text)


def test_a_file_that_cannot_be_read_is_refused_by_name(run_here: Run):
    Path("folder.json").mkdir()
    Path("binary.json").write_bytes(b"\xff\xfe\x00")

    assert_refused(run_here("report", "none.json"), "none.json: No such file or directory")
    assert_refused(run_here("report", "folder.json"), "folder.json: Is a directory")
    assert_refused(run_here("report", "binary.json"), "binary.json: ", "not text")
