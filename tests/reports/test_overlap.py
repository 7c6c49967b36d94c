"""The report of ``stepbench overlap``, of made-up processes."""

import io
import json
import math
from typing import Any

import pytest

from harness.forward_time import ForwardTime
from harness.overlap_figures import CellFigures, figures
from harness.overlap_run import OverlapPlan
from harness.statistics import Estimate
from reports.overlap import (
    format_interval,
    format_part,
    format_saved,
    overlap_table,
    write_overlap,
)
from reports.overlap_words import assumptions, notes
from scenarios.scenario import SteadyDecode, TraceReplay
from tests.harness.overlap_runs import CELL, make_plan, make_run, make_segments

METADATA = {"where": "Somewhere.", "command": "stepbench overlap --cells 2x64"}


def render(plan: OverlapPlan, cells: list[CellFigures], style: str = "markdown") -> str:
    file = io.StringIO()
    write_overlap(plan, cells, [], METADATA, style, file)
    return file.getvalue()


def two_processes(plan: OverlapPlan, scenario: SteadyDecode = CELL) -> CellFigures:
    """Paths of 6 and 1 ms in one process, of 6.2 and 1.1 in the other; a forward of 4."""
    return figures(
        plan,
        make_run(
            scenario,
            [
                make_segments([0.006, 0.001], 0.004),
                make_segments([0.0062, 0.0011], 0.004),
            ],
        ),
    )


def test_the_table():
    plan = make_plan()

    table = overlap_table(plan, [two_processes(plan)])

    assert table.columns == (
        *("Requests", "Tokens per request", "Arm", "Path", "Host", "Forward", "Step, no overlap"),
        *("Saved", "Step, overlap", "Exposed", "Hidden", "Saved, overlap"),
    )
    assert table.rows == (
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

    assert "Saved" not in table.columns
    assert table.rows[0][2:] == (
        *("batched", "10.0 us", "10.0 us", "4.00 ms", "4.01 ms", "4.00 ms", "0", "10.0 us"),
    )
    assert "Saved" not in assumptions(plan)


def test_a_cell_that_was_not_measured_has_rows_that_say_so():
    plan = make_plan()
    cell = figures(plan, make_run(CELL, [], failure="cell v2-2x64, process 1: hung"))

    table = overlap_table(plan, [cell])

    assert [row[2:5] for row in table.rows] == [
        ("full-copy", "not measured", "not measured"),
        ("incremental", "not measured", "not measured"),
    ]
    assert {len(row) for row in table.rows} == {len(table.columns)}


ROOFLINE = ForwardTime(model="llama-3.1-8b", gpu="h100")


def test_a_cell_that_cannot_be_is_marked():
    cells = [SteadyDecode(requests=64, tokens=tokens) for tokens in (2_048, 8_192)]
    plan = make_plan(*cells, forward=ROOFLINE)
    known = [two_processes(plan, cell) for cell in cells]

    table = overlap_table(plan, known)

    assert table.columns[2] == "Memory"
    assert [row[2] for row in table.rows] == ["42%", "", "106%, not realistic", ""]
    assert notes(plan, known, [])[0] == (
        "Not realistic: v2-64x8192: weights and KV cache take 85 GB of the 80 GB."
    )


def test_cells_that_cannot_be_for_the_same_reason_share_a_sentence():
    cells = [SteadyDecode(requests=count, tokens=200_000) for count in (1, 2)]
    plan = make_plan(*cells, forward=ROOFLINE)

    found = notes(plan, [two_processes(plan, cell) for cell in cells], [])

    assert found[0] == (
        "Not realistic: v2-1x200000, v2-2x200000: llama-3.1-8b was made for 131,072 positions."
    )


def test_processes_that_disagree():
    plan = make_plan()
    processes = [make_segments(paths, 0.004) for paths in ([0.001, 0.001], [0.0012, 0.0013])]

    (*_, last) = notes(plan, [figures(plan, make_run(CELL, processes))], [])

    assert last == (
        "Noisy: processes of the same cell differ, v2-2x64 with `incremental` by a factor of 1.30."
    )
    processes = [make_segments(paths, 0.004) for paths in ([0.001, 0.001], [0.0022, 0.0013])]
    (*_, last) = notes(plan, [figures(plan, make_run(CELL, processes))], [])
    assert last.endswith("differ, v2-2x64 with `full-copy` by a factor of 2.20, and 1 more.")


def test_a_core_that_others_use_as_well():
    plan = make_plan()
    segments = make_segments([0.001, 0.001], 0.004)

    (*_, last) = notes(plan, [figures(plan, make_run(CELL, [segments], cpu_share=0.6))], [])

    assert last.startswith("Busy core: a process got 60% of it. What it waited for the core")


def test_where_an_arm_begins_to_be_exposed():
    cells = [SteadyDecode(requests=2, tokens=tokens, manager="v1") for tokens in (100, 1_600)]
    plan = make_plan(*cells, arms=["full-copy", "incremental", "batched"])
    paths = [(0.002, 0.001, 0.005), (0.008, 0.001, 0.005)]
    known = [
        figures(plan, make_run(cell, [make_segments(own, 0.004)]))
        for cell, own in zip(cells, paths, strict=True)
    ]

    assert notes(plan, known, [])[:3] == [
        "With 2 requests, V1, overlap: `full-copy` is hidden up to about 400 tokens per request, "
        "and exposed from there on.",
        "With 2 requests, V1, overlap: `incremental` is hidden at 100 to 1,600 tokens per request.",
        "With 2 requests, V1, overlap: `batched` is exposed at 100 to 1,600 tokens per request.",
    ]


def test_from_which_batch_on():
    cells = [SteadyDecode(requests=count, tokens=64, draft_tokens=2) for count in (4, 64)]
    plan = make_plan(*cells, arms=["full-copy"])
    known = [
        figures(plan, make_run(cell, [make_segments([path], 0.004)]))
        for cell, path in zip(cells, (0.016, 0.001), strict=True)
    ]

    assert notes(plan, known, [])[0] == (
        "With 64 tokens per request, V2, draft=2, overlap: `full-copy` is exposed up to about "
        "16 requests, and hidden from there on."
    )


def test_a_single_cell_says_what_would_tell_more():
    plan = make_plan()
    found = notes(plan, [two_processes(plan)], [])

    assert found[0].startswith("From which context or batch on the path is exposed, realistic cel")
    assert found[1] == (
        "The measured steps depart from those of the model by at most 0.0% (v2-2x64, "
        "`incremental`, overlap)."
    )


@pytest.mark.parametrize(("departure", "is_much"), [(0.02, False), (0.08, True)])
def test_steps_that_are_not_the_model_s(departure: float, is_much: bool):
    plan = make_plan()
    segments = make_segments([0.001, 0.002], 0.004, departure=departure)
    (*_, last) = notes(plan, [figures(plan, make_run(CELL, [segments]))], [])

    assert f"by at most {departure:.1%} (" in last
    assert ("That is much: the machine was busy" in last) == is_much


def states(*reasons: str) -> list[dict[str, Any]]:
    return [{"state_after": {"clocks_event_reasons.active": reason}} for reason in reasons]


def test_clocks_that_were_held_back():
    plan = make_plan()

    def last(*reasons: str) -> str:
        return notes(plan, [two_processes(plan)], states(*reasons))[-1]

    assert last("0x0000000000000004", "0x0", "0x0000000000000008") == (
        "The GPU's clocks were held back; the reasons that NVML gives: 0x0000000000000004, "
        "0x0000000000000008."
    )
    for harmless in ("0x0000000000000000", "0x0000000000000001", "[N/A]", ""):
        assert "held back" not in last(harmless)


def test_the_assumptions_stand_beside_the_table():
    text = assumptions(make_plan(forward=ROOFLINE, other_host=0.0015))

    assert (
        "1.5 ms of other host work before the launch (`--other-host-ms`), and the launch." in text
    )
    assert "roofline of meta-llama/Llama-3.1-8B" in text
    assert "Saved is how much shorter a step is than with `full-copy`" in text
    assert "4 processes of a cell" in text
    assert "5 warm-up iterations and then 20. A process gives the median" in text
    assert "caches are warm." in text
    assert "caches are swept before each path." in assumptions(make_plan(cold=True))
    assert "0 ms of other host work" in assumptions(make_plan())
    trace = assumptions(make_plan(TraceReplay(path="/x.csv")))
    assert "and then 100. A process gives the mean" in trace
    cuda = assumptions(make_plan(forward=ForwardTime(model="llama-3.1-8b"), device="cuda"))
    assert "on a real GPU, timed by its events" in cuda
    assert "the launch, and what the stand-ins do meanwhile." in cuda


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
