"""What is told of counted instructions; the counts are made up."""

import io
import json
from collections.abc import Sequence

import pytest

from harness.arms.sources import ArmSource
from harness.compare.duet import Duet
from harness.compare.instructions import CellCount, Valgrind
from reports.kinds.instructions import write_instructions
from scenarios.scenario import SteadyDecode, TraceReplay

A = ArmSource("git:HEAD~1:incremental", "incremental", "a.py", "")
B = ArmSource("incremental", "incremental", "b.py", "")
LARGE, SMALL = SteadyDecode(requests=64, tokens=2048), SteadyDecode(requests=2, tokens=64)
METADATA = {"where": "stepbench 1.2, host box.", "command": "stepbench compare a b", "python": "3"}

MORE = CellCount(LARGE, 5, [(10_000_000, 10_100_003)] * 3, took=2.04)
SAME = CellCount(SMALL, 32, [(320, 320)] * 3, took=1.5)
DIFFER = CellCount(SMALL, 32, [(320, 640), (352, 640), (384, 640)])
FAILED = CellCount(SMALL, 32, failure="the worker died")


def written(
    results: Sequence[CellCount], style: str = "markdown", *, b: ArmSource = B, missing: int = 0
) -> str:
    file = io.StringIO()
    cells = tuple(result.scenario for result in results) + (SMALL,) * missing
    duet = Duet(A, b, cells, seed=7)
    write_instructions(duet, Valgrind("v", "3.99"), results, METADATA, style, file)
    return file.getvalue()


def test_the_whole_report():
    assert written([MORE, SAME]) == (
        "Machine instructions per iteration: identical over 3 runs in 2 cells. Advisory: "
        "instructions are not time, and no verdict is given.\n"
        "\n"
        "| Requests | Tokens per request | `git:HEAD~1:incremental` | incremental | Ratio "
        "| Difference | Iterations | 3 runs |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| 64 | 2,048 | 2,000,000.0 | 2,020,000.6 | 1.01000 | +20,000.6 | 5 | identical |\n"
        "| 2 | 64 | 10.0 | 10.0 | 1.00000 | 0 | 32 | identical |\n"
        "\n"
        "Valgrind 3.99 (callgrind) counted what a call of each arm executes, without what a call "
        "that does nothing does, as a mean over the given iterations after 10 iterations of "
        "warm-up, in each of 3 fresh processes with the same hash seed and input seed and the "
        "collector off; two more under other hash seeds tell whether the work depends on them. "
        "Both arms begin with the same memory and see the same workload. Where "
        "fewer iterations are counted than a block has tokens, the crossing of block boundaries "
        "can weigh more or less than it does in the long run. A difference of a few hundredths of "
        "a per cent can come from where things lie in memory. Counts hold for this Python, its C "
        "library and this machine's kind of processor. How long an instruction takes, waits for "
        "memory above all, is not in them. The longest cell took 2.0 s. stepbench 1.2, host box. "
        "Seed 7. Repeat with `stepbench compare a b`.\n"
    )


@pytest.mark.parametrize(("cell", "said"), [(MORE, True), (SAME, False)])
def test_crossings_are_spoken_of_where_not_all_are_counted(cell: CellCount, said: bool):
    assert ("the crossing of block boundaries" in written([cell])) == said


def test_what_is_not_identical_or_missing_is_said_plainly():
    parts = written([MORE, DIFFER, FAILED], missing=1).split("\n\n")

    assert parts[0] == "Incomplete: 1 cell of 4 missing."
    assert parts[1].startswith(
        "Machine instructions per iteration: identical over 3 runs in 1 cell, not identical in 1 "
        "cell, not counted in 1 cell. Advisory"
    )
    assert parts[2].splitlines()[3:] == [
        "| 2 | 64 | 11.0 | 20.0 | 1.81818 | +9.0 | 32 | differ |",
        "| 2 | 64 | not counted | not counted | - | - | - | - |",
    ]
    assert parts[3:5] == [
        "v2-2x64: the worker died.",
        "v2-2x64: the runs differ: `git:HEAD~1:incremental` 10.0 to 12.0, `incremental` 20.0; the "
        "medians are shown.",
    ]
    assert len(parts) == 6


def test_work_that_depends_on_the_hash_seed_is_told():
    cell = CellCount(SMALL, 32, [(320, 640)] * 3, [(320, 704), (320, 672)])
    assert written([cell]).split("\n\n")[2] == (
        "Work depends on the hash seed: `incremental` in v2-2x64: instructions 20.0 to 22.0."
    )


def test_an_arm_against_itself_and_a_trace_have_their_columns():
    trace = CellCount(TraceReplay(path="/a/code.csv", max_batch=8), 5, [(0, 10)] * 3)

    head, _, row = written([trace], b=A).split("\n\n")[1].splitlines()

    assert "| `git:HEAD~1:incremental` | `git:HEAD~1:incremental again` | Ratio |" in head
    assert row.startswith("| 8 | - | trace=code batch=8 | 0.0 | 2.0 | - | +2.0 | 5 |")


def test_the_terminal_gets_the_same_without_markup():
    lines = written([MORE], "terminal").splitlines()

    assert lines[0].endswith("no verdict is given.")
    (row,) = [line for line in lines if "2,048" in line]
    assert row.split() == [
        *["64", "2,048", "2,000,000.0", "2,020,000.6", "1.01000", "+20,000.6", "5", "identical"]
    ]


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def test_json_is_one_document_with_null_for_what_is_unknown():
    text = written([MORE, FAILED], "json", missing=2)

    assert text.endswith("}\n")
    scenarios = [json.loads(json.dumps(cell.to_dict())) for cell in (LARGE, SMALL)]
    assert json.loads(text, parse_constant=no_constant) == {
        "a": "git:HEAD~1:incremental",
        "b": "incremental",
        "provider": "python",
        "measure": "instructions",
        "valgrind": "3.99",
        "verdict": None,
        "metadata": METADATA,
        "cells_missing": 2,
        "cells": [
            {
                "cell": "v2-64x2048",
                "scenario": scenarios[0],
                "iterations": 5,
                "instructions_a": 2_000_000.0,
                "instructions_b": 2_020_000.6,
                "ratio": 1.0100003,
                "difference": pytest.approx(20_000.6),
                "runs": [[10_000_000, 10_100_003]] * 3,
                "identical": True,
                "other_hash_seeds": [],
                "depends_on_hash_seed": [False, False],
                "failure": None,
                "took": 2.04,
            },
            {
                "cell": "v2-2x64",
                "scenario": scenarios[1],
                "iterations": 32,
                "instructions_a": None,
                "instructions_b": None,
                "ratio": None,
                "difference": None,
                "runs": [],
                "identical": False,
                "other_hash_seeds": [],
                "depends_on_hash_seed": [False, False],
                "failure": "the worker died",
                "took": 0.0,
            },
        ],
    }
