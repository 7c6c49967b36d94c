"""The report of ``stepbench overlap``, of made-up processes."""

import io
import json
import math

import pytest

from harness.forward.forward_time import ForwardTime
from harness.overlap.figures import CellFigures, figures
from harness.overlap.run import OverlapPlan
from harness.stats.estimates import Estimate
from reports.kinds.overlap import (
    format_interval,
    format_part,
    format_saved,
    overlap_table,
    write_overlap,
)
from reports.kinds.overlap_words import assumptions, notes
from scenarios.scenario import SteadyDecode

from ...harness.overlap_runs import CELL, make_plan, make_run, make_segments
from ..overlap_cells import ROOFLINE, two_processes

METADATA = {"where": "Somewhere.", "command": "stepbench overlap --cells 2x64"}


def render(plan: OverlapPlan, cells: list[CellFigures], style: str = "markdown") -> str:
    file = io.StringIO()
    write_overlap(plan, cells, [], METADATA, style, file)
    return file.getvalue()


def test_the_table():
    plan = make_plan()

    table = overlap_table(plan, [two_processes(plan)])

    assert table.titles == (
        *("Requests", "Tokens per request", "Arm", "Path", "Host", "Forward", "Step, no overlap"),
        *("Saved", "Step, overlap", "Exposed", "Hidden", "Saved, overlap"),
    )
    assert table.texts == (
        (
            *("2", "64", "full-copy", "6.10 ms", "6.10 ms", "4.00 ms", "10.1 ms"),
            *("", "6.10 ms", "2.10 ms (0.83 to 3.37)", "4.00 ms", ""),
        ),
        (
            *("", "", "incremental", "1.05 ms", "1.05 ms", "4.00 ms", "5.05 ms"),
            *("5.05 ms (4.41 to 5.69)", "4.00 ms", "0", "1.05 ms", "2.10 ms (0.83 to 3.37)"),
        ),
    )
    assert table.rows_per_cell == 2


def test_one_arm_saves_nothing_and_one_process_has_no_interval():
    plan = make_plan(arms=["batched"], processes=1)
    cell = figures(plan, make_run(CELL, [make_segments([0.00001], 0.004)]))

    table = overlap_table(plan, [cell])

    assert "Saved" not in table.titles
    assert table.texts[0][2:] == (
        *("batched", "10.0 us", "10.0 us", "4.00 ms", "4.01 ms", "4.00 ms", "0", "10.0 us"),
    )
    assert "Saved" not in assumptions(plan)


def test_a_cell_that_was_not_measured_has_rows_that_say_so():
    plan = make_plan()
    cell = figures(plan, make_run(CELL, [], failure="cell v2-2x64, process 1: hung"))

    table = overlap_table(plan, [cell])

    assert [row[2:5] for row in table.texts] == [
        ("full-copy", "not measured", "not measured"),
        ("incremental", "not measured", "not measured"),
    ]
    assert {len(row) for row in table.texts} == {len(table.titles)}


def test_a_cell_that_cannot_be_is_marked():
    cells = [SteadyDecode(requests=64, tokens=tokens) for tokens in (2_048, 8_192)]
    plan = make_plan(*cells, forward=ROOFLINE)
    known = [two_processes(plan, cell) for cell in cells]

    table = overlap_table(plan, known)

    assert table.titles[2] == "Memory"
    assert [row[2] for row in table.texts] == ["42%", "", "106%, not realistic", ""]
    assert notes(plan, known, [])[0] == (
        "Not realistic: v2-64x8192: weights and KV cache take 85 GB of the 80 GB."
    )


def test_on_a_real_gpu_the_engine_s_exposed_time_stands_beside_the_measured_one():
    cells = [SteadyDecode(requests=2, tokens=tokens) for tokens in (100, 400)]
    plan = make_plan(*cells, forward=ForwardTime(model="llama-3.1-8b"), device="cuda")
    segments = make_segments([0.003, 0.001], 0.004, between=0.002)
    known = [figures(plan, make_run(cell, [segments] * 2)) for cell in cells]

    table = overlap_table(plan, known)

    place = table.titles.index("Exposed, engine")
    assert table.titles[place - 1] == "Exposed"
    assert table.texts[0][place - 1 : place + 1] == ("1.00 ms (1.00 to 1.00)", "0")
    assert notes(plan, known, [])[0].startswith("From which context or batch on the path is exp")
    assert not any("hidden" in note for note in notes(plan, known, []))


def test_nothing_is_said_of_a_service():
    plan = make_plan(forward=ROOFLINE)
    for style in ("markdown", "terminal", "json"):
        text = render(plan, [two_processes(plan)], style).lower()
        assert "faster" not in text
        assert "throughput" not in text


def test_all_of_it_as_markdown():
    plan = make_plan(CELL, SteadyDecode(requests=3, tokens=64))

    parts = render(plan, [two_processes(plan)]).split("\n\n")

    assert parts[0] == "Incomplete: 1 cell of 2 missing."
    assert parts[1].startswith("| Requests | Tokens per request | Arm | Path |")
    assert parts[-2].startswith("Assumptions. Host is the path, 0 ms of other host work")
    assert parts[-1] == ("Somewhere. Seed 0. Repeat with `stepbench overlap --cells 2x64`.\n")


def test_the_gpu_is_named():
    plan = make_plan(forward=ForwardTime(model="llama-3.1-8b"), device="cuda")
    about = {"gpu": "X", "torch": "2.11", "cuda": "13.0", "layers": 32, "layers_held": 32}
    file = io.StringIO()
    write_overlap(plan, [two_processes(plan)], [about], METADATA, "markdown", file)
    assert "X, PyTorch 2.11, CUDA 13.0; the forward has all 32 layers, with matrices of their" in (
        file.getvalue()
    )
    file = io.StringIO()
    few = [about | {"layers_held": 3}]
    write_overlap(plan, [two_processes(plan)], few, METADATA, "markdown", file)
    assert "all 32 layers, with matrices for 3 of them, used in turn." in file.getvalue()


def test_json_is_strict_and_complete():
    cells = [SteadyDecode(requests=64, tokens=tokens) for tokens in (1_024, 2_048)]
    plan = make_plan(*cells, forward=ROOFLINE, other_host=0.001)

    def no_constant(name: str) -> None:
        pytest.fail(f"{name} is no JSON")

    one = figures(plan, make_run(cells[0], [make_segments([0.006, 0.001], 0.004)]))
    text = render(plan, [one, two_processes(plan, cells[1])], "json")
    document = json.loads(text, parse_constant=no_constant)

    assert document["arms"] == ["full-copy", "incremental"]
    assert document["forward"]["gpu"] == "h100"
    assert (document["device"], document["caches"], document["other_host_s"]) == (
        *("simulated", "warm"),
        0.001,
    )
    first, second = document["cells"]
    assert (first["cell"], first["bound_by"], first["unrealistic"]) == (
        *("v2-64x1024", "memory"),
        None,
    )
    assert second["share_of_memory"] == pytest.approx(0.4155, abs=1e-4)
    base, other = second["arms"]
    assert base["with_overlap"]["exposed_s"]["value"] == pytest.approx(0.0021)
    assert base["with_overlap"]["saved_s"] is None
    assert other["without_overlap"]["saved_s"]["value"] == pytest.approx(0.00505)
    assert first["arms"][0]["with_overlap"]["path_s"] == {"value": 0.006, "low": None, "high": None}
    assert document["exposures"][0]["cells"] == ["v2-64x1024", "v2-64x2048"]
    assert document["metadata"] == METADATA


def test_times():
    assert format_part(Estimate(0.0123, 0, 1)) == "12.3 ms"
    assert format_part(Estimate(0.0000123, 0, 1)) == "12.3 us"
    assert format_part(Estimate(-0.0000123, 0, 1)) == "-12.3 us"
    assert format_part(Estimate(1e-9, 0, 1)) == "0"
    assert format_interval(Estimate(0.002, -0.001, 0.005)) == "2.00 ms (-1.00 to 5.00)"
    assert format_interval(Estimate(0.002, -math.inf, math.inf)) == "2.00 ms"
    assert format_interval(Estimate(0.0, 0.0, 1e-9)) == "0"
    assert format_interval(Estimate(0.0, -0.001, 0.001)) == "0.00 ms (-1.00 to 1.00)"


def test_what_is_saved():
    assert format_saved(None) == ""
    assert format_saved(Estimate(0.002, 0.001, 0.003)) == "2.00 ms (1.00 to 3.00)"
    assert format_saved(Estimate(-0.002, -0.003, -0.001)) == "-2.00 ms (-3.00 to -1.00)"
    assert format_saved(Estimate(0.002, -0.001, 0.003)).endswith(" no clear difference")
    assert format_saved(Estimate(0.0, 0.0, 0.0)) == "0"
    assert format_saved(Estimate(0.002, -math.inf, math.inf)) == "2.00 ms"
