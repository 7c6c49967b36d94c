import io
import json
import math

import pandas as pd

from harness.speedup.plan import Protocol
from reports.speedup.records import render_csv, render_json
from reports.speedup.summary import summarise
from scenarios.scenario import SteadyDecode

from ..conftest import WriteResults, make_cell, make_plan, make_summary

SCENARIO = SteadyDecode(requests=2, tokens=64)
SEVERAL = make_summary(
    make_cell(
        SCENARIO,
        # Digits that a table would round away.
        {"full-copy": 0.0012345678901234, "incremental": 1.0000000000001e-05},
        {"incremental": (123.456789012345, 120.000000000001, 125.99999999999)},
        requests=2.5,
        tokens=65.125,
    ),
    notes=("A note.",),
)


def test_json_has_every_figure_unrounded():
    document = json.loads(render_json([SEVERAL]))

    assert document["warning"] is None
    (result,) = document["results"]
    assert result["file"] == "results.json"
    assert result["machine"] == {
        "hostname": "box",
        "cpu_model_name": "Test CPU 9000",
        "cpu_count": "8",
        "python_implementation": "cpython",
        "python_version": "3.12.1 (64-bit)",
    }
    assert result["arms"] == ["full-copy", "incremental"]
    assert result["notes"] == ["A note."]
    assert result["provenance"] == SEVERAL.provenance
    (cell,) = result["cells"]
    assert cell["cell"] == "v2-2x64"
    assert cell["scenario"]["kind"] == "SteadyDecode"
    assert (cell["scenario"]["requests"], cell["scenario"]["tokens"]) == (2, 64)
    assert (cell["requests"], cell["tokens_mean"]) == (2.5, 65.125)
    assert cell["processes"] == {"full-copy": 3, "incremental": 3}
    assert cell["seconds"]["full-copy"]["value"] == 0.0012345678901234
    assert cell["seconds"]["incremental"]["value"] == 1.0000000000001e-05
    assert cell["speedup"] == {
        "incremental": {
            "value": 123.456789012345,
            "low": 120.000000000001,
            "high": 125.99999999999,
        }
    }
    assert cell["times_floor"] == {}


def test_the_interval_of_one_process_is_null_and_the_document_valid(write_results: WriteResults):
    plan = make_plan(protocol=Protocol(processes=1, warmups=1, rounds=1, samples=3))
    results = write_results(plan, {(0, "full-copy", 0): 2.0, (0, "incremental", 0): 1.0})

    text = render_json([summarise(results)])

    # Infinity is no JSON, though Python writes and reads it.
    assert "Infinity" not in text
    assert "NaN" not in text
    (cell,) = json.loads(text)["results"][0]["cells"]
    assert cell["speedup"] == {"incremental": {"value": 2.0, "low": None, "high": None}}
    assert cell["seconds"]["full-copy"] == {"value": 2.0, "low": None, "high": None}


def test_json_carries_the_warning_of_two_machines():
    there = make_summary(file="b.json", machine=("crate", "Test CPU 9000", "8", "c", "3"))

    document = json.loads(render_json([make_summary(), there]))

    assert document["warning"].startswith("These results come from 2 different machines")
    assert [result["file"] for result in document["results"]] == ["results.json", "b.json"]
    assert [result["machine"]["hostname"] for result in document["results"]] == ["box", "crate"]


def test_csv_has_a_row_for_each_file_cell_and_arm():
    v1 = make_cell(
        SteadyDecode(requests=1, tokens=9, manager="v1"),
        {"full-copy": 1.0, "incremental": 2.0},
        {"incremental": (0.5, 0.0, math.inf)},
    )
    frame = pd.read_csv(io.StringIO(render_csv([SEVERAL, make_summary(v1, file="b, c.json")])))

    assert list(frame.columns) == [
        "file",
        "hostname",
        "cpu",
        "cell",
        "manager",
        "requests",
        "tokens",
        "arm",
        "processes",
        "seconds",
        "seconds_low",
        "seconds_high",
        "speedup",
        "speedup_low",
        "speedup_high",
        "times_floor",
        "times_floor_low",
        "times_floor_high",
        "mean_seconds",
        "p99_seconds",
        "background_cpu_seconds",
    ]
    assert list(frame["file"]) == ["results.json"] * 2 + ["b, c.json"] * 2
    assert list(frame["hostname"]) == ["box"] * 4
    assert list(frame["cpu"]) == ["Test CPU 9000"] * 4
    assert list(frame["cell"]) == ["v2-2x64", "v2-2x64", "v1-1x9", "v1-1x9"]
    assert list(frame["manager"]) == ["v2", "v2", "v1", "v1"]
    assert list(frame["arm"]) == ["full-copy", "incremental"] * 2
    assert list(frame["processes"]) == [3] * 4
    assert list(frame["requests"]) == [2.5, 2.5, 2.0, 2.0]
    assert list(frame["tokens"]) == [65.125, 65.125, 65.0, 65.0]
    assert list(frame["seconds"]) == [0.0012345678901234, 1.0000000000001e-05, 1.0, 2.0]
    assert list(frame["seconds_low"]) == [0.0006172839450617, 5.0000000000005e-06, 0.5, 1.0]
    # The first arm is what the others are compared with; one process has no interval.
    assert frame["speedup"].isna().tolist() == [True, False, True, False]
    assert frame["speedup"].dropna().tolist() == [123.456789012345, 0.5]
    assert frame["speedup_low"].dropna().tolist() == [120.000000000001]
    assert frame["speedup_high"].dropna().tolist() == [125.99999999999]
    # No floor was measured.
    assert frame["times_floor"].isna().all()


LADDER = make_summary(
    make_cell(
        SCENARIO,
        {"floor": 1e-5, "full-copy": 2e-3, "incremental": 1e-3},
        {"incremental": (2.0, 1.9, 2.1)},
        times_floor={
            "full-copy": (200.000000000001, 190.0, 210.0),
            "incremental": (100.0, 0.0, math.inf),
        },
    ),
    arms=("floor", "full-copy", "incremental"),
)


def test_json_has_how_many_times_the_floor_each_arm_takes():
    (cell,) = json.loads(render_json([LADDER]))["results"][0]["cells"]

    assert cell["times_floor"] == {
        "full-copy": {"value": 200.000000000001, "low": 190.0, "high": 210.0},
        "incremental": {"value": 100.0, "low": None, "high": None},
    }
    assert cell["speedup"] == {"incremental": {"value": 2.0, "low": 1.9, "high": 2.1}}
    assert cell["seconds"]["floor"]["value"] == 1e-5


def test_csv_has_how_many_times_the_floor_each_arm_takes():
    frame = pd.read_csv(io.StringIO(render_csv([LADDER]))).set_index("arm")

    assert list(frame.index) == ["floor", "full-copy", "incremental"]
    assert frame["times_floor"].dropna().to_dict() == {
        "full-copy": 200.000000000001,
        "incremental": 100.0,
    }
    assert frame["times_floor_low"].dropna().to_dict() == {"full-copy": 190.0}
    assert frame["times_floor_high"].dropna().to_dict() == {"full-copy": 210.0}
    assert frame["speedup"].dropna().to_dict() == {"incremental": 2.0}


def test_csv_leaves_blank_what_was_not_measured():
    cell = make_cell(SCENARIO, {"full-copy": 1.0}, {})
    cell.processes["incremental"] = 0

    frame = pd.read_csv(io.StringIO(render_csv([make_summary(cell)])))

    assert list(frame["arm"]) == ["full-copy", "incremental"]
    assert list(frame["processes"]) == [3, 0]
    assert frame["seconds"].isna().tolist() == [False, True]
    assert frame["speedup"].isna().all()
