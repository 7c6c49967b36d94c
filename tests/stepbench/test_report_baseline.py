"""``stepbench report FILE --baseline FILE``, on a measured file and copies of it."""

import csv
import io
import json
from pathlib import Path

import pytest

from .conftest import Run, assert_refused, run_script


def change(source: str, target: str, *, slower: float = 1.0, **fields: object) -> str:
    """Write a copy with other metadata (None: without) and longer times; return its name."""
    document = json.loads(Path(source).read_text())
    for name, value in fields.items():
        document["metadata"].pop(name, None)
        if value is not None:
            document["metadata"][name] = value
    for benchmark in document["benchmarks"]:
        for run in benchmark["runs"]:
            run["values"] = [value * slower for value in run["values"]]
    Path(target).write_text(json.dumps(document))
    return target


def test_a_copy_that_took_twice_as_long(run_here: Run, results: str):
    slow = change(results, "slow.json", slower=2.0)

    ran = run_here("report", slow, "--baseline", results)

    assert (ran.code, ran.err) == (0, "")
    machine = json.loads(Path(results).read_text())["metadata"]["stepbench_machine"]
    assert ran.out.startswith(
        f"Times of slow.json beside the baseline x.json, both measured on machine {machine}:\n\n"
        "| Requests | Tokens per request | Arm | Baseline | Time | Ratio (95 % interval) |\n"
    )
    rows = [line.split(" | ") for line in ran.out.splitlines() if line.startswith("| 2 |")]
    assert [row[2] for row in rows] == ["full-copy", "incremental"]
    assert all(row[5].startswith("2.000 (") for row in rows)
    assert "This is no verdict" in ran.out
    assert "`stepbench compare`" in ran.out
    assert "other conditions" not in ran.out


def test_the_script_prints_the_same_in_every_format(run_here: Run, results: str):
    arguments = ("report", results, "--baseline", results, "--format")
    json_ran, csv_ran, terminal = (
        run_here(*arguments, style) for style in ("json", "csv", "terminal")
    )

    document = json.loads(json_ran.out)
    assert [cell["ratio"]["value"] for cell in document["cells"]] == [1.0, 1.0]
    assert [cell["seconds"] for cell in document["cells"]] == [
        cell["baseline_seconds"] for cell in document["cells"]
    ]
    rows = list(csv.DictReader(io.StringIO(csv_ran.out)))
    assert [(row["cell"], row["arm"], row["ratio"]) for row in rows] == [
        ("v2-2x64", "full-copy", "1.0"),
        ("v2-2x64", "incremental", "1.0"),
    ]
    assert terminal.out.count("1.000 (") == 2
    assert run_script(*arguments, "json") == json_ran


def test_other_conditions_are_told(run_here: Run, results: str):
    old = change(results, "old.json", python_version="3.9.1 (64-bit)", stepbench_revision="f" * 40)

    ran = run_here("report", results, "--baseline", old)

    assert ran.code == 0
    assert "Other conditions differ: revision ffffffffffff" in ran.out
    assert "; Python cpython 3.9.1 (64-bit) -> cpython " in ran.out


def test_another_host_and_another_boot_are_told_and_compared(run_here: Run, results: str):
    there = {"hostname": "elsewhere", "boot_time": "2020-01-01 00:00:00", "stepbench_kernel": "5"}
    old = change(results, "old.json", **there, stepbench_python_build="another")

    ran = run_here("report", results, "--baseline", old)

    assert ran.code == 0
    (line,) = [line for line in ran.out.splitlines() if line.startswith("Other conditions differ:")]
    for words in ("host elsewhere -> ", "booted 2020-01-01 00:00:00 -> ", "kernel 5 -> "):
        assert words in line
    assert "Python build another -> " in line
    assert "both measured on machine " in ran.out


def test_times_of_another_machine_are_refused(run_here: Run, results: str):
    fields = {"cores": "64", "memory_gib": "512"}
    other = change(
        results,
        "other.json",
        stepbench_machine="12ab34cd56ef",
        stepbench_machine_fields=json.dumps(fields),
    )

    ran = run_here("report", results, "--baseline", other)

    assert_refused(
        ran,
        "x.json: measured on another machine than other.json: ",
        " against 64",
        " against 512",
        code=4,
    )
    # Speedups travel.
    assert run_here("report", results, other).code == 0


def test_a_file_without_a_fingerprint_is_refused(run_here: Run, results: str):
    old = change(results, "old.json", stepbench_machine=None)

    ran = run_here("report", results, "--baseline", old)

    assert_refused(ran, "cannot be known: old.json has no machine fingerprint", code=4)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("x.json", "--baseline", "none.json"), "none.json: No such file"),
        (("none.json", "--baseline", "x.json"), "none.json: No such file"),
        (("x.json", "x.json", "--baseline", "x.json"), "--baseline goes with a single file"),
    ],
)
def test_bad_input_is_refused(run_here: Run, results: str, arguments: tuple[str, ...], text: str):
    assert results == "x.json"
    assert_refused(run_here("report", *arguments), text)
