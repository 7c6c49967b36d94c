"""What is told of a duet; the results are made up."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.duet import CellResult, Duet
from harness.sources import ArmSource
from harness.statistics import Estimate
from harness.verdict import Kind, Process, Verdict
from reports.duet import headline, write_duet
from scenarios.scenario import SteadyDecode, TraceReplay

A = ArmSource("git:HEAD~1:incremental", "incremental", "a.py", "# Before.\n")
B = ArmSource("incremental", "incremental", "b.py", "")
FIRST, SECOND = SteadyDecode(requests=16, tokens=8192), SteadyDecode(requests=2, tokens=64)
METADATA = {"where": "stepbench 1.2, host box.", "command": "stepbench compare a b", "python": "3"}


def process(seconds: float, ratio: float) -> Process:
    return Process(0.0, (0.0, 0.0), 1.0, (seconds, ratio * seconds))


SLOWER = CellResult(
    FIRST,
    Verdict(Kind.SLOWER, "", Estimate(1.02, 1.0151, 1.0249), 0.0012, 0.00876),
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
        "| Ratio (95 % interval) | Control | Detectable | Processes | Verdict |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- |\n"
        "| 16 | 8,192 | 1.30 ms | 2.60 ms | 1.0200 (1.0151 to 1.0249) | 0.12% | 0.88% | 3 + 2 "
        "| slower |\n"
        "| 2 | 64 | 8.00 us | 8.00 us | 1.0000 (0.9990 to 1.0010) | 0.00% | 0.90% | 6 "
        "| no difference |\n"
        "\n"
        "Both arms, and a second copy of each as a control, ran side by side on "
        "the same workload in each of the processes, in random order: 10 warm-up iterations, then "
        "at most 152 measured ones, the garbage collector off. A process gives the median log "
        "ratio of each copy of the one to each of the other, and their mean; ratios and intervals "
        "are over processes, of the mean without up to a fifth at either end. Slower or faster "
        "means: wholly beyond 0.50% and beyond the control, in two runs of fresh processes, of "
        "which the second one's figures are shown. Each has to be clear at 97.8%: then, although "
        "it is looked for again and again, arms that differ by just the threshold are called "
        "different in any of 2 comparisons with a chance of at most about 2.5 %. No difference "
        "means: "
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
        "| 2 | 64 | not measured | not measured | - | - | - | 0 | inconclusive |"
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
    assert document == {
        "a": "git:HEAD~1:incremental",
        "b": "incremental",
        "provider": "python",
        "threshold": 0.01,
        "comparisons": 2,
        "seconds": 10.0,
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
                "floor": 0.0012,
                "detectable": 0.00876,
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
                "floor": None,
                "detectable": None,
                "processes": 0,
                "repeated": 0,
                "cores_left_out": [],
                "took": 0.0,
            },
        ],
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
