"""What is told of a duet; the results are made up."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.arms.sources import ArmSource
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.verdict import Process, Verdict
from harness.stats.estimates import Estimate
from harness.stats.means import Means, Reading
from reports.kinds.duet import headline, write_duet
from scenarios.scenario import SteadyDecode, TraceReplay

A = ArmSource("git:HEAD~1:incremental", "incremental", "a.py", "# Before.\n")
B = ArmSource("incremental", "incremental", "b.py", "")
FIRST, SECOND = SteadyDecode(requests=16, tokens=8192), SteadyDecode(requests=2, tokens=64)
METADATA = {"where": "stepbench 1.2, host box.", "command": "stepbench compare a b", "python": "3"}


def process(seconds: float, ratio: float) -> Process:
    return Process(0.0, (0.0, 0.0), 1.0, (seconds, ratio * seconds))


SLOWER = CellResult(
    FIRST,
    Verdict(
        Kind.SLOWER,
        "",
        Estimate(1.02, 1.0151, 1.0249),
        0.0012,
        0.00876,
        Estimate(1.03, 1.02, 1.04),
    ),
    first=[process(s, 2) for s in (1.5e-3, 1.1e-3, 1.2e-3)],
    second=[process(s, 2) for s in (1.3e-3, 1.4e-3)],
    took=4.5,
)
SAME = CellResult(
    SECOND,
    Verdict(Kind.NO_DIFFERENCE, "", Estimate(1.0, 0.999, 1.001), 0.0, 0.009),
    first=[process(8e-6, 1)] * 6,
    took=9.96,
)
FAILED = CellResult(SECOND, Verdict(Kind.INCONCLUSIVE, "the worker died"), failure="it died")


def duet(*results: CellResult, a: ArmSource = A, b: ArmSource = B, **fields: object) -> Duet:
    return Duet(a, b, tuple(result.scenario for result in results), **fields)  # type: ignore[arg-type]


def written(results: Sequence[CellResult], style: str = "markdown", **fields: object) -> str:
    file = io.StringIO()
    write_duet(duet(*results, **fields), results, METADATA, style, file)  # type: ignore[arg-type]
    return file.getvalue()


def of(*kinds: Kind) -> list[CellResult]:
    return [CellResult(FIRST, Verdict(kind)) for kind in kinds]


def test_the_whole_report():
    assert written([SLOWER, SAME], seed=7) == (
        "`incremental` is slower than `git:HEAD~1:incremental` (2 cells: 1 slower, 1 no "
        "difference).\n"
        "\n"
        "| Requests | Tokens per request | `git:HEAD~1:incremental` | incremental "
        "| Ratio (95 % interval) | Mean ratio | Control | Detectable | Processes | Verdict |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- |\n"
        "| 16 | 8,192 | 1.30 ms | 2.60 ms | 1.0200 (1.0151 to 1.0249) "
        "| 1.0300 (1.0200 to 1.0400) | 0.12% | 0.88% | 3 + 2 | slower |\n"
        "| 2 | 64 | 8.00 us | 8.00 us | 1.0000 (0.9990 to 1.0010) | - | 0.00% | 0.90% | 6 "
        "| no difference beyond 0.50% |\n"
        "\n"
        "Both arms, and a second copy of each as a control, ran side by side on "
        "the same workload in each of the processes, in random order: 10 warm-up iterations, then "
        "0 measured ones, the garbage collector off. A process gives the median log "
        "ratio of each copy of the one to each of the other, and their mean; ratios and intervals "
        "are over processes, of the mean without up to a fifth at either end. Mean ratio is that "
        "of the mean of all steps, as far as both copies of an arm agree on a step, with what "
        "they leave to other threads and processes. Slower or faster "
        "means: wholly beyond 0.50% and beyond the control, in two runs of fresh processes, of "
        "which the second one's figures are shown. A mean that is slower, of steps that both "
        "copies agree on or of every sample, is enough for slower. Each has to be clear at 98.9%, "
        "a mean at 99.4%: then, although it is looked for again and again, arms that differ by "
        "just the threshold are called "
        "different in any of 2 comparisons with a chance of at most about 2.5 %. No difference "
        "means: typical step and mean "
        "wholly within the threshold, at 99 % in a look. A cell ends when that is clear, and the "
        "intervals are those of that moment. Detectable is about the smallest slowdown that as "
        "many processes in each of two runs would find, if the noise stays as it was. The longest "
        "cell took 10.0 s. Times are those of arms that run side by side and "
        "share their caches. Ratio is the time of the one named second over that of the first. "
        "Control is how far the interval of the second copies against the first reaches from 1; "
        "where the copies of either arm alone are further apart than the threshold, no verdict is "
        "given. "
        "stepbench 1.2, host box. Seed 7. "
        "Repeat with `stepbench compare a b`.\n"
    )


def test_a_cell_that_was_not_measured_and_why():
    parts = written([FAILED, SAME]).split("\n\n")

    assert parts[0].startswith("Inconclusive: no verdict on `incremental` against ")
    assert parts[1].splitlines()[2] == (
        "| 2 | 64 | not measured | not measured | - | - | - | - | 0 | inconclusive |"
    )
    assert parts[2] == "v2-2x64: the worker died."
    assert len(parts) == 4


def test_every_reason_is_told_with_its_cell():
    other = CellResult(FIRST, Verdict(Kind.INCONCLUSIVE, "busy core"))

    assert written([FAILED, other]).split("\n\n")[2:4] == [
        "v2-2x64: the worker died.",
        "v2-16x8192: busy core.",
    ]


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (
            [Kind.NO_DIFFERENCE] * 2,
            "No difference between `git:HEAD~1:incremental` and `incremental` beyond 0.50% "
            "(2 cells: 2 no difference).",
        ),
        (
            [Kind.NO_DIFFERENCE, Kind.FASTER],
            "`incremental` is faster than `git:HEAD~1:incremental` (2 cells: 1 faster, 1 no "
            "difference).",
        ),
        (
            [Kind.FASTER, Kind.INCONCLUSIVE],
            "Inconclusive: no verdict on `incremental` against `git:HEAD~1:incremental` "
            "(2 cells: 1 faster, 1 inconclusive).",
        ),
        (
            [Kind.INCONCLUSIVE, Kind.SLOWER, Kind.FASTER, Kind.NO_DIFFERENCE],
            "`incremental` is slower than `git:HEAD~1:incremental` (4 cells: 1 slower, 1 faster, "
            "1 no difference, 1 inconclusive).",
        ),
        (
            [Kind.SLOWER],
            "`incremental` is slower than `git:HEAD~1:incremental` (1 cell: 1 slower).",
        ),
    ],
)
def test_the_verdict_on_the_whole_in_a_sentence(kinds: list[Kind], text: str):
    results = of(*kinds)

    assert headline(duet(*results), results) == text


def test_another_threshold_is_told():
    results = of(Kind.NO_DIFFERENCE)

    assert "beyond 2.50% (" in headline(duet(*results, threshold=0.025), results)
    assert "wholly beyond 2.50% and" in written(results, threshold=0.025)


FAR = (
    "Arms that are far apart leave each other's caches in different states, which biases their "
    "ratio by several per cent: for named arms, take it from `speedup`."
)


def with_ratio(value: float, kind: Kind = Kind.SLOWER, reason: str = "") -> CellResult:
    return CellResult(FIRST, Verdict(kind, reason, Estimate(value, value, value), 0.0, 0.0))


# exp(0.05) is 1.05127, and 1 / 1.05127 is 0.95123.
@pytest.mark.parametrize(
    ("ratio", "is_far"),
    [
        *[(1.0, False), (1.0512, False), (1.0513, True), (3.0, True)],
        *[(0.9513, False), (0.9512, True), (0.3, True)],
    ],
)
def test_a_note_says_what_arms_that_are_far_apart_do_to_their_ratio(ratio: float, is_far: bool):
    parts = written([with_ratio(ratio)]).split("\n\n")

    assert (FAR in parts) == is_far
    assert len(parts) == 3 + is_far


@pytest.mark.parametrize("kind", Kind)
def test_the_note_comes_once_after_the_reasons_whatever_the_verdict(kind: Kind):
    results = [with_ratio(1.5, kind, "busy core"), SAME, with_ratio(0.5, kind), FAILED]

    parts = written(results).split("\n\n")

    assert parts[2:5] == ["v2-16x8192: busy core.", "v2-2x64: the worker died.", FAR]
    assert len(parts) == 6


def test_the_note_is_none_of_the_json_document():
    assert "far apart" not in written([with_ratio(1.5)], "json")


def test_an_arm_against_itself_has_two_columns_that_can_be_told_apart():
    head = written([SAME], a=B).splitlines()[2]

    assert head.startswith("| Requests | Tokens per request | incremental | incremental again | ")


def test_cells_of_all_kinds_are_told_apart():
    trace = CellResult(TraceReplay(path="/a/code.csv", max_batch=8), Verdict(Kind.SLOWER))
    v1 = CellResult(SteadyDecode(requests=2, tokens=64, manager="v1"), Verdict(Kind.SLOWER))

    head, _, *rows = written([trace, v1]).split("\n\n")[1].splitlines()

    assert head.startswith("| Requests | Tokens per request | Manager | Settings | ")
    assert rows[0].startswith("| 8 | ")
    assert "nan" not in "".join(rows).lower()
    assert "| V2 | trace=code batch=8 |" in rows[0]
    assert rows[1].startswith("| 2 | 64 | V1 |  | not measured |")


def test_the_terminal_gets_the_same_without_markup():
    text = written([SLOWER, FAILED], "terminal")

    lines = text.splitlines()
    assert lines[0] == (
        "'incremental' is slower than 'git:HEAD~1:incremental' (2 cells: 1 slower, 1 inconclusive)."
    )
    assert "`" not in text
    assert "|" not in text
    (row,) = [line for line in lines if "8,192" in line]
    assert row.split() == [
        *["16", "8,192", "1.30", "ms", "2.60", "ms", "1.0200", "(1.0151", "to", "1.0249)"],
        *["1.0300", "(1.0200", "to", "1.0400)"],
        *["0.12%", "0.88%", "3", "+", "2", "slower"],
    ]
    assert "v2-2x64: the worker died." in lines


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def test_json_is_one_document_with_null_for_what_is_no_number():
    text = written([SLOWER, FAILED], "json", threshold=0.01)

    assert text.endswith("}\n")
    document = json.loads(text, parse_constant=no_constant)
    scenarios = [json.loads(json.dumps(cell.to_dict())) for cell in (FIRST, SECOND)]
    nothing = dict.fromkeys(("seconds", "mean_seconds", "p99_seconds", "background_cpu_seconds"))
    nothing |= {"alive": []}
    assert document == {
        "a": "git:HEAD~1:incremental",
        "b": "incremental",
        "provider": "python",
        "threshold": 0.01,
        "comparisons": 2,
        "seconds": 10.0,
        "apart": False,
        "verdict": "slower",
        "metadata": METADATA,
        "cells_missing": 0,
        "cells": [
            {
                "cell": "v2-16x8192",
                "scenario": scenarios[0],
                "kind": "slower",
                "reason": "",
                "ratio": {"value": 1.02, "low": 1.0151, "high": 1.0249},
                "reach": 0.0012,
                "detectable": 0.00876,
                "mean": {"value": 1.03, "low": 1.02, "high": 1.04},
                "parts": False,
                "arms": [nothing | {"seconds": 1.3e-3}, nothing | {"seconds": 2.6e-3}],
                "processes": 3,
                "repeated": 2,
                "cores_left_out": [],
                "took": 4.5,
            },
            {
                "cell": "v2-2x64",
                "scenario": scenarios[1],
                "kind": "inconclusive",
                "reason": "the worker died",
                "ratio": None,
                "reach": None,
                "detectable": None,
                "mean": None,
                "parts": False,
                "arms": [nothing, nothing],
                "processes": 0,
                "repeated": 0,
                "cores_left_out": [],
                "took": 0.0,
            },
        ],
    }


def parting(background: float = 0.0, parts: bool = True) -> CellResult:
    """A cell whose second arm is dear in some steps, or leaves work to others."""
    means = Means(
        Reading(1.0, (0.0,)),
        Reading(1.0, (0.0, 0.0)),
        (2e-4, 5e-4),
        (3e-4, 9e-3),
        (0.0, background),
    )
    verdict = Verdict(
        Kind.SLOWER, "", Estimate(1.0, 0.99, 1.01), 0.0, 0.01, Estimate(2.7183, 2.6, 2.8), parts
    )
    return CellResult(
        FIRST,
        verdict,
        samples=[[[1e-4] * 40] * 4, [[1e-4] * 152] * 4],
        first=[Process(0.0, (0.0, 0.0), 1.0, (1.9e-4, 1.9e-4), means)] * 2,
        alive=[[], ["pool_0"], [], ["pool_1", "pool_0"]] if background else [[]] * 4,
    )


def test_where_the_mean_parts_from_the_typical_step_all_of_them_are_told():
    text = written([parting()])

    assert (
        "v2-16x8192: the mean of all steps parts from the typical step: 2.7183 times as long "
        "instead of 1.0000; `git:HEAD~1:incremental` takes 0.19 ms in a typical step, 0.20 ms in "
        "the mean and 0.30 ms at the 99th percentile; `incremental` takes 0.19 ms in a typical "
        "step, 0.50 ms in the mean and 9.00 ms at the 99th percentile."
    ) in text.split("\n\n")
    assert "then 40 to 152 measured ones" in text
    assert "parts from" not in written([parting(parts=False)])


def test_work_that_is_left_to_others_is_told_with_who_is_there():
    (words,) = [part for part in written([parting(3e-4)]).split("\n\n") if "leaves" in part]

    assert words == (
        "`incremental` leaves work to other threads or processes: 0.30 ms of CPU time a step in "
        "v2-16x8192, which counts as part of its mean; alive after a call: pool_0, pool_1."
    )
    (words,) = [part for part in written([parting(1e-9)]).split("\n\n") if "leaves" in part]
    assert words == (
        "`incremental` leaves threads or processes behind; alive after a call: pool_0, pool_1."
    )
    assert json.loads(written([parting(3e-4)], "json"))["cells"][0]["arms"][1] == {
        "seconds": 1.9e-4,
        "mean_seconds": 5e-4,
        "p99_seconds": 9e-3,
        "background_cpu_seconds": 3e-4,
        "alive": ["pool_0", "pool_1"],
    }


def test_processes_at_once_are_told():
    text = written([SAME], cpus=(0, 1))

    assert "in each of the processes, up to 2 at once on a core each, in random order" in text


@pytest.mark.parametrize(
    ("cores", "told"),
    [
        ([0, 1, 0, 1, 0, 1], ""),
        ([0, 1, 0, 0, 0, 0], "core 1 in v2-2x64, after 1 process"),
        ([0, 1, 0, 1, 1, 1], "core 0 in v2-2x64, after 2 processes"),
        ([0, 1, 2, 0, 1, 2, 0, 1], "core 2 in v2-2x64, after 2 processes"),
    ],
)
def test_a_core_that_was_left_out_is_told(cores: list[int | None], told: str):
    result = replace(SAME, cores=cores)

    text = written([result], cpus=(0, 1))

    words = f"\n\nOther work had a core, and the cell went on without it: {told}.\n\n"
    assert words in text if told else "Other work" not in text


def test_that_both_are_the_same_code_is_told():
    note = "Both arms are the same code: what they differ by here is noise."

    assert note in written([SAME], a=B).split("\n\n")
    assert note not in written([SAME])
