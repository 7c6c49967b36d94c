"""``stepbench report`` on what pytest-benchmark wrote: as equal a source as a file of ours."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scenarios.scenario import SteadyDecode

from ..harness.helpers import make_plan, write_results
from ..harness.pytest_documents import pytest_document
from .conftest import Run, assert_refused

CELLS = Path(__file__).parents[1] / "benchmarks" / "test_cells.py"
PLAN = make_plan(
    "full-copy",
    "incremental",
    "floor",
    scenarios=(SteadyDecode(requests=2, tokens=40), SteadyDecode(requests=3, tokens=40)),
    processes=1,
    command="pytest tests/benchmarks/test_cells.py --benchmark-only",
)
NOTED: dict[str, Any] = {
    "stepbench_machine": "0123456789ab",
    "stepbench_verified_runs": 20,
    "date": "2026-03-04 05:06:07",
    "load_avg_1min": 0.5,
}


@pytest.fixture
def bench() -> str:
    """The name of a file of pytest-benchmark in the working folder; own.json has the same times."""
    Path("bench.json").write_text(json.dumps(pytest_document(PLAN, **NOTED)))
    write_results(Path("own.json"), PLAN, **NOTED)
    return "bench.json"


def test_its_table_is_the_one_of_a_file_of_ours(run_here: Run, bench: str):
    theirs, ours = (
        run_here("report", name, "--format", "markdown") for name in (bench, "own.json")
    )

    assert (theirs.code, theirs.err) == (0, "")
    table, *_, provenance = theirs.out.rstrip().split("\n\n")
    own_table, *_, own_provenance = ours.out.rstrip().split("\n\n")
    assert table == own_table
    assert "(one process: no interval)" in table
    assert provenance != own_provenance


def test_its_records_are_those_of_a_file_of_ours(run_here: Run, bench: str):
    rows, documents = [], []
    for name in (bench, "own.json"):
        table = run_here("report", name, "--format", "csv").out
        rows.append([row | {"file": ""} for row in csv.DictReader(io.StringIO(table))])
        (document,) = json.loads(run_here("report", name, "--json").out)["results"]
        documents.append(document | {"file": "", "provenance": ""})

    assert len(rows[0]) == 6
    assert rows[0] == rows[1]
    assert documents[0] == documents[1]


def test_the_paragraph_tells_what_was_done(run_here: Run, bench: str):
    text = run_here("report", bench, "--format", "markdown").out

    assert (
        "pytest-benchmark 5.3.1 timed all arms of all cells in one process, one after the other: "
        "each for 2 warm-up iterations, then 2 rounds of 3, with the garbage collector off in each "
        "timed call."
    ) in text
    assert "there is no interval" in text
    assert "Before that, the arms gave the same outputs in 20 random runs." in text
    assert "Repeat with `pytest tests/benchmarks/test_cells.py --benchmark-only`." in text
    for claim in ("taking turns", "side by side", "of its own", "pairs of processes", "Student t"):
        assert claim not in text


def test_it_stands_beside_a_file_of_ours(run_here: Run, bench: str):
    ran = run_here("report", bench, "--baseline", "own.json")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("1.000 (one process: no interval)") == 6
    assert "tool stepbench -> pytest-benchmark 5.3.1" in ran.out


def test_what_is_missing_is_named(run_here: Run, bench: str):
    document = json.loads(Path(bench).read_text())
    del document["benchmarks"][4]
    Path(bench).write_text(json.dumps(document))

    ran = run_here("report", bench, "--format", "markdown")

    assert ran.code == 0
    assert "Incomplete: v2-3x40 with `incremental` (0 of 1 processes)." in ran.out
    assert "--resume" not in ran.out


def test_no_measurement_of_ours_carries_on_with_it(run_here: Run, bench: str):
    before = Path(bench).read_text()

    assert_refused(run_here("speedup", "--resume", bench), f"{bench}: written by pytest-benchmark")
    assert Path(bench).read_text() == before


def test_another_project_s_is_refused_by_name(run_here: Run, bench: str):
    document = json.loads(Path(bench).read_text())
    for benchmark in document["benchmarks"]:
        benchmark["extra_info"] = {}
    Path("other.json").write_text(json.dumps(document))

    # A good file before it must not come out half-way.
    refused = run_here("report", bench, "other.json")
    assert_refused(refused, "other.json: a pytest-benchmark file, but not of ")


def run_pytest(*options: str, **env: str) -> str:
    """Run the tests that time the cells in a process of their own; return what it printed."""
    # What would make it a worker of the pytest that runs this.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTEST_ADDOPTS" and not name.startswith("PYTEST_XDIST")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(CELLS), *options],
        env=environment | {"STEPBENCH_CELLS": "2x64", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_cells_are_timed_and_reported(run_here: Run):
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
    options = ("--benchmark-only", "--benchmark-disable-gc", "--benchmark-json=bench.json")
    # All that it may measure is measured, from the floor to the arm that copies all.
    printed = run_pytest(*options, STEPBENCH_ARMS="floor,full-copy,incremental")

    assert "3 passed" in printed
    ran = run_here("report", "bench.json", "--json")
    assert (ran.code, ran.err) == (0, "")
    (result,) = json.loads(ran.out)["results"]
    (cell,) = result["cells"]
    assert cell["cell"] == "v2-2x64"
    assert cell["processes"] == {"floor": 1, "full-copy": 1, "incremental": 1}
    assert cell["requests"] == 2
    # The prompt, 10 iterations to warm up, then the 135 that are timed.
    assert cell["tokens_mean"] == 64 + 10 + (135 + 1) / 2
    assert all(time["value"] > 0 for time in cell["seconds"].values())
    assert list(cell["speedup"]) == ["incremental"]
    words = result["provenance"]
    assert "collector off in each timed call" in words
    assert "10 warm-up iterations, then 9 rounds of 15" in words
    assert "same outputs in 20 random runs" in words
    assert "Repeat with `STEPBENCH_CELLS=2x64 STEPBENCH_ARMS=floor,full-copy,incremental " in words
    assert run_here("report", "bench.json", "--baseline", "bench.json").code == 0


def test_the_collector_s_state_is_told_as_it_was(run_here: Run):
    pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")
    run_pytest("--benchmark-only", "--benchmark-json=bench.json", STEPBENCH_ARMS="incremental")

    assert "collector running." in run_here("report", "bench.json").out


@pytest.mark.parametrize("options", [(), ("-p", "no:benchmark")])
def test_without_being_asked_for_nothing_is_timed(options: tuple[str, ...]):
    assert "2 skipped" in run_pytest(*options)
