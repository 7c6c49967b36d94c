"""What stands below the table of ``stepbench overlap``, of made-up processes."""

from typing import Any

import pytest

from harness.forward.forward_time import ForwardTime
from harness.overlap.figures import figures
from reports.kinds.overlap_words import assumptions, notes
from scenarios.scenario import SteadyDecode, TraceReplay

from ...harness.overlap_runs import CELL, make_plan, make_run, make_segments
from ..overlap_cells import ROOFLINE, two_processes


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
        figures(plan, make_run(cell, [make_segments(own, 0.004)] * 2))
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
        figures(plan, make_run(cell, [make_segments([path], 0.004)] * 2))
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
    assert found[2] == (
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


def test_where_it_is_not_clear():
    cells = [SteadyDecode(requests=2, tokens=tokens) for tokens in (100, 400, 1_600)]
    plan = make_plan(*cells, arms=["full-copy", "incremental", "batched"])
    by_cell = [
        [(0.001, 0.0039, 0.0039), (0.001, 0.0043, 0.0043)],
        [(0.0039, 0.001, 0.0042), (0.0043, 0.001, 0.0039)],
        [(0.016, 0.002, 0.0042), (0.016, 0.002, 0.0039)],
    ]
    known = [
        figures(plan, make_run(cell, [make_segments(paths, 0.004) for paths in processes]))
        for cell, processes in zip(cells, by_cell, strict=True)
    ]

    assert notes(plan, known, [])[:3] == [
        "With 2 requests, V2, overlap: `full-copy` is hidden at 100 and exposed at 1,600 tokens "
        "per request; at 400 that is not clear.",
        "With 2 requests, V2, overlap: `incremental` is hidden at 400, 1,600 tokens per request; "
        "at 100 that is not clear.",
        "With 2 requests, V2, overlap: whether `batched` is exposed at 100, 400, 1,600 tokens per "
        "request is not clear.",
    ]


def test_what_is_saved_is_held_against_the_model():
    plan = make_plan(arms=["full-copy", "incremental"])
    processes = [make_segments([0.020, path], 0.004) for path in (0.010, 0.0101)]

    def note() -> str:
        found = notes(plan, [figures(plan, make_run(CELL, processes))], [])
        return next(each for each in found if each.startswith("What the model predicts"))

    assert note() == (
        "What the model predicts to be saved was saved, within 5% of it, in 2 of 2 comparisons; "
        "too noisy or too little to say in 0."
    )
    for process in processes:
        process[3]["step"] = [step + 0.002 for step in process[3]["step"]]
    assert note() == (
        "What the model predicts to be saved was saved, within 5% of it, in 1 of 2 comparisons; "
        "too noisy or too little to say in 0; not so in 1, most in v2-2x64 with `incremental`, "
        "overlap: off by 20%."
    )


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
    assert notes(plan, [two_processes(plan)], [{"state_before": {}, "state_after": {}}])[-1] == (
        "Clock state not readable."
    )
    assert "Clock state" not in last("0x0")
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
    assert "5 warm-up iterations and then 100. A process gives the median" in text
    assert "The host's caches are warm, as the loop leaves them." in text
    assert "Before each path 64 MiB were read and written, so that the host's caches hold" in (
        assumptions(make_plan(swept=2**26))
    )
    assert "0 ms of other host work" in assumptions(make_plan())
    trace = assumptions(make_plan(TraceReplay(path="/x.csv")))
    assert "and then 100. A process gives the mean" in trace
    cuda = assumptions(make_plan(forward=ForwardTime(model="llama-3.1-8b"), device="cuda"))
    assert "on a real GPU, timed by its events" in cuda
    assert "the launch, and what the stand-ins do meanwhile." in cuda
    assert "Exposed, engine is what the model makes of Host without that" in cuda
    cold = make_plan(forward=ForwardTime(model="llama-3.1-8b"), device="cuda", swept=2**26)
    assert "and what the stand-ins do meanwhile and the sweep." in assumptions(cold)
    assert "Exposed, engine" not in text


def test_work_that_a_path_leaves_to_others_is_told_as_host_time():
    plan = make_plan()
    segments = make_segments([0.001, 0.001], 0.004)
    for segment in segments:
        if segment["arm"] == 1:
            segment["background"] = [0.002] * len(segment["path"])
            segment["alive"] = ["pool_0"]
    cell = figures(plan, make_run(CELL, [segments] * 2))

    (words,) = [note for note in notes(plan, [cell], []) if "leaves" in note]

    assert words == (
        "`incremental` leaves work to other threads or processes in v2-2x64: 2.00 ms of CPU time a "
        "step, which competes for the interpreter lock and is part of Host; alive after a call: "
        "pool_0."
    )
    assert cell.arms[1].with_overlap.host.value == pytest.approx(0.003)


def test_steps_that_are_dear_now_and_then_are_told():
    plan = make_plan()
    processes = [make_segments([0.001, 0.001], 0.004, iterations=10) for _ in range(3)]
    for segment in (segment for process in processes for segment in process):
        if segment["arm"] == 1:
            segment["path"][4] = 0.011
    cell = figures(plan, make_run(CELL, processes))

    (words,) = [note for note in notes(plan, [cell], []) if "dear" in note]
    assert [arm.arm for arm in cell.dear] == ["incremental"]

    assert words == (
        "Some steps of `incremental` in v2-2x64 are dear: its path takes 1.00 ms in a typical step "
        "and 2.00 ms in the mean. The times of the table are those of typical steps."
    )
