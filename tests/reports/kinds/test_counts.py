"""Counted work as text, Markdown and JSON."""

import io
import json
from collections import Counter

import pytest

from harness.count.budget import PYTHON, Excess, Finding
from harness.count.bytecodes import METHOD
from harness.count.delegated import Delegated
from harness.count.exactness import notes
from harness.count.work import FIGURES, Variation, Work
from reports.kinds.counts import render_finding, render_finding_json, write_work
from scenarios.scenario import SteadyDecode, TraceReplay

SMALL = SteadyDecode(requests=2, tokens=64)
LARGE = SteadyDecode(requests=2, tokens=1_024)
V1 = SteadyDecode(requests=2, tokens=64, manager="v1", tokens_per_block=16)
TRACE = TraceReplay(path="/data/a|b.csv", max_batch=8)


def make_work(
    scenario: SteadyDecode | TraceReplay = SMALL,
    arm: str = "full-copy",
    *,
    calls: dict[str, int] | None = None,
    iterations: int = 4,
    **totals: float,
) -> Work:
    """Work of a few iterations with two requests in each; figures are sums over them."""
    tokens = scenario.tokens if isinstance(scenario, SteadyDecode) else 300
    work = Work(scenario, arm, iterations, 2 * iterations, 2 * iterations * tokens)
    work.calls = Counter(calls or {})
    work.totals = Counter(dict.fromkeys(FIGURES, 0) | totals)
    if arm == "floor":
        del work.totals["retained_bytes"]
    return work


def render(works: list[Work], style: str = "markdown", **options: bool) -> str:
    file = io.StringIO()
    settings = {"per_request": False, "calls": False} | options
    write_work(works, style, file, command="stepbench count", **settings)  # type: ignore[arg-type]
    return file.getvalue()


PAIR = [
    make_work(
        calls={"get_tokens()": 8, "state": 8},
        native_calls=16,
        arguments=6,
        tokens=5_002,
        bytecodes=4_939,
        retained_bytes=4_000_000,
    ),
    make_work(arm="floor", bytecodes=1),
]
LEGEND = (
    "Native calls are calls and reads of native attributes, arguments the numbers handed to them; "
    "tokens, page indices, hashes and priorities are those handed to Python. Objects are the "
    "containers and numbers handed to Python and what the output has beyond them. Bytecodes are "
    f"the instructions that the arm and what it has others do executed (Python {PYTHON}, by "
    f"{METHOD}); engine bytecodes those of the engine's own Python around native calls. Retained "
    "bytes are what the arm keeps between reports (tracemalloc), pickled bytes the size of the "
    "output (protocol 5). Repeat with `stepbench count`.\n"
)


def test_a_small_case_as_markdown():
    assert render(PAIR) == (
        "Work per iteration, mean over 4 iterations, exact:\n"
        "\n"
        "| Requests | Tokens per request | Arm | Native calls | Arguments | Tokens | Bytecodes "
        "| Retained bytes |\n"
        "| ---: | ---: | :--- | ---: | ---: | ---: | ---: | ---: |\n"
        "| 2 | 64 | full-copy | 4 | 1.50 | 1,250.50 | 1,234.75 | 1,000,000 |\n"
        "|  |  | floor | 0 | 0 | 0 | 0.25 | - |\n"
        "\n"
        f"{LEGEND}"
    )


def test_figures_per_request_and_native_calls_by_name():
    assert render(PAIR, per_request=True, calls=True) == (
        "Work per request and iteration, mean over 4 iterations, exact:\n"
        "\n"
        "| Requests | Tokens per request | Arm | Native calls | Arguments | Tokens | Bytecodes "
        "| Retained bytes |\n"
        "| ---: | ---: | :--- | ---: | ---: | ---: | ---: | ---: |\n"
        "| 2 | 64 | full-copy | 2 | 0.75 | 625.25 | 617.38 | 500,000 |\n"
        "|  |  | floor | 0 | 0 | 0 | 0.12 | - |\n"
        "\n"
        "Native calls and reads of native attributes, by name:\n"
        "\n"
        "| Cells | Call | full-copy | floor |\n"
        "| :--- | :--- | ---: | ---: |\n"
        "| v2-2x64 | get_tokens() | 1 | 0 |\n"
        "|  | state | 1 | 0 |\n"
        "\n"
        f"{LEGEND}"
    )


def test_growth_is_against_tokens_and_requests():
    works = [
        make_work(SMALL, tokens=64, objects=8, hashes=1),
        make_work(SMALL, "floor", objects=5),
        make_work(LARGE, tokens=1_024, objects=4),
        make_work(LARGE, "floor", objects=5),
    ]
    rows = render(works).split("\n\n")
    assert rows[2] == (
        "Growth: the log-log slope of each figure per iteration against tokens per request, among "
        "cells of as many requests / against requests, among cells of as many tokens (1 is linear, "
        "0 does not grow)."
    )
    # Halved while the tokens are sixteen times as many; hashes are 0 in one of the two cells.
    assert rows[3] == (
        "| Cells | Arm | Tokens | Hashes | Objects |\n"
        "| :--- | :--- | ---: | ---: | ---: |\n"
        "| v2 | full-copy | 1.000 / - | inf / - | -0.250 / - |\n"
        "| v2 | floor | - | - | 0.000 / - |"
    )
    lines = rows[1].splitlines()
    assert lines[0] == "| Requests | Tokens per request | Arm | Tokens | Hashes | Objects |"
    assert lines[4] == "| 2 | 1,024 | full-copy | 256 | 0 | 1 |"
    assert lines[5] == "|  |  | floor | 0 | 0 | 1.25 |"


@pytest.mark.parametrize(
    ("requests", "tokens", "text"), [(2, 64, "- / 1.000"), (1, 128, "1.000 / -")]
)
def test_what_cannot_be_told_is_a_dash(requests: int, tokens: int, text: str):
    other = SteadyDecode(requests=requests, tokens=tokens)
    works = [make_work(SteadyDecode(requests=1, tokens=64), tokens=8), make_work(other, tokens=16)]
    works[0].requests, works[0].sequence_tokens = 4, 4 * 64
    works[1].requests = 4 * requests
    works[1].sequence_tokens = works[1].requests * tokens
    assert f"| v2 | full-copy | {text} |" in render(works)


def test_a_slope_that_rounds_to_zero_has_no_sign():
    # -0.0004, and 0.0006 which has three decimals.
    works = [make_work(SMALL, objects=1_000), make_work(LARGE, objects=999)]
    assert "| v2 | full-copy | 0.000 / - |" in render(works)
    works = [make_work(SMALL, objects=1_000), make_work(LARGE, objects=1_001.7)]
    assert "| v2 | full-copy | 0.001 / - |" in render(works)


def test_cells_that_differ_have_columns_that_tell_them():
    lines = render([make_work(SMALL, tokens=4), make_work(V1, tokens=4), make_work(TRACE)]).split(
        "\n"
    )
    assert lines[2] == "| Requests | Tokens per request | Manager | Settings | Arm | Tokens |"
    assert lines[4] == "| 2 | 64 | V2 |  | full-copy | 1 |"
    assert lines[5] == "| 2 | 64 | V1 | block=16 | full-copy | 1 |"
    assert lines[6] == "| 2 | 300 (mean) | V2 | trace=a\\|b batch=8 | full-copy | 0 |"


@pytest.mark.parametrize(
    ("iterations", "words"), [((4, 32, 4), "4 or 32 iterations"), ((1,), "1 iteration")]
)
def test_it_says_over_how_many_iterations(iterations: tuple[int, ...], words: str):
    works = [make_work(SMALL, iterations=number) for number in iterations]
    assert render(works).splitlines()[0] == f"Work per iteration, mean over {words}, exact:"


def test_a_terminal_gets_the_same_words():
    text = render([*PAIR], "terminal", calls=True)
    assert text.splitlines()[0] == "Work per iteration, mean over 4 iterations, exact:"
    assert "|" not in text
    words = [line.split() for line in text.splitlines()]
    assert ["2", "64", "full-copy", "4", "1.50", "1,250.50", "1,234.75", "1,000,000"] in words
    assert ["v2-2x64", "get_tokens()", "2", "0"] in words
    assert ["state", "2", "0"] in words
    assert text.splitlines()[-1] == LEGEND.replace("`", "'").strip()


def test_what_is_not_the_same_each_time_or_not_all_is_told():
    work = make_work(bytecodes=4_939)
    work.variations = [
        Variation("bytecodes", 1_234.75, 1_300, by_hash=True),
        Variation("retained_bytes", 0, 16, by_hash=False),
        Variation("objects", 0, 1, by_hash=True),
    ]
    names = [f"pool-{number}" for number in range(5)]
    work.delegated = Delegated(4_000, names, ["os.fork"], is_restless=True)
    lines = [
        "Work depends on the hash seed: full-copy in v2-2x64: bytecodes 1,234.75 to 1,300, objects "
        "0 to 1.",
        "Work differs between two runs under one hash seed: full-copy in v2-2x64: retained bytes 0 "
        "to 16; this is not held against a budget.",
        "Work on other threads: full-copy in v2-2x64: 1,000 of 1,234.75 bytecodes per iteration; "
        "alive after a call: pool-0, pool-1, pool-2 and 2 more.",
        "Threads that never rest: full-copy in v2-2x64: not all that they do is counted.",
        "Work in child processes, which is not counted: full-copy in v2-2x64: os.fork.",
    ]

    parts = render([work]).split("\n\n")

    # What differs between two runs is not exact.
    first = "Work per iteration, mean over 4 iterations, exact but for what is named below:"
    assert (parts[0], parts[2:7]) == (first, lines)
    told = notes([work])
    assert render_finding(finding(), "b.toml", told).splitlines()[1:] == lines
    assert json.loads(render_finding_json(finding(), told))["notes"] == told


def test_json_holds_everything():
    document = json.loads(render(PAIR, "json"))

    assert list(document) == [
        "stepbench_work_format",
        "python",
        "bytecodes_by",
        "origins",
        "metadata",
        "notes",
        "work",
        "growth",
    ]
    assert (document["python"], document["bytecodes_by"]) == (PYTHON, METHOD)
    first, second = document["work"]
    nothing = dict.fromkeys(FIGURES, 0)
    own = {"native_calls": 16, "arguments": 6, "tokens": 5_002, "bytecodes": 4_939}
    own["retained_bytes"] = 4_000_000
    assert first == {
        "cell": "v2-2x64",
        "scenario": SMALL.to_dict() | {"layer_groups": [{"window": None, "sink_tokens": 0}]},
        "arm": "full-copy",
        "iterations": 4,
        "requests_mean": 2,
        "tokens_mean": 64,
        "per_iteration": nothing | {name: value / 4 for name, value in own.items()},
        "per_request": nothing | {name: value / 8 for name, value in own.items()},
        "calls_per_iteration": {"get_tokens()": 2, "state": 2},
        "variations": [],
        "delegated": {"bytecodes": 0, "threads": [], "processes": [], "is_restless": False},
    }
    assert document["notes"] == []
    assert second["arm"] == "floor"
    assert second["per_iteration"]["retained_bytes"] is None
    assert len(document["growth"]) == 2 * len(FIGURES)
    assert document["growth"][2] == {
        "kind": "v2",
        "arm": "full-copy",
        "figure": "tokens",
        "requests": None,
        "tokens": None,
    }


def test_json_has_a_word_for_a_slope_without_bound():
    works = [make_work(SMALL, tokens=64, hashes=1), make_work(LARGE, tokens=1_024)]
    text = render(works, "json")
    slopes = {row["figure"]: row["tokens"] for row in json.loads(text)["growth"]}
    assert (slopes["tokens"], slopes["hashes"], slopes["objects"]) == (1.0, "infinite", None)
    assert "Infinity" not in text


def test_json_does_not_depend_on_what_is_shown():
    assert render(PAIR, "json", per_request=True, calls=True) == render(PAIR, "json")


def finding(**fields: object) -> Finding:
    values = {"checked": 20, "excesses": (), "below": 0, "missing": ()} | fields
    return Finding(**values)  # type: ignore[arg-type]


OVER = (
    Excess("v2-2x64", "batched", "tokens", 2_000, 2_500.25),
    Excess("v2-2x64", "floor", "hashes", 0, 3),
)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (finding(), f"Within budget: 20 figures of b.toml on Python {PYTHON}.\n"),
        (finding(checked=1), f"Within budget: 1 figure of b.toml on Python {PYTHON}.\n"),
        (
            finding(below=2),
            f"Within budget: 20 figures of b.toml on Python {PYTHON}.\n"
            "2 figures below the budget: --update would lower it.\n",
        ),
        (
            finding(excesses=OVER, missing=("v2-2x64, new: no budget",), below=1),
            "Over budget: v2-2x64, batched: tokens 2,500.25 per iteration, budget 2,000 (+25.0%).\n"
            "Over budget: v2-2x64, floor: hashes 3 per iteration, budget 0.\n"
            "Nothing to compare with: v2-2x64, new: no budget.\n"
            "1 figure below the budget: --update would lower it.\n",
        ),
    ],
)
def test_a_finding_in_words(found: Finding, text: str):
    assert render_finding(found, "b.toml") == text


def test_a_finding_as_json():
    found = finding(excesses=OVER[:1], missing=("v2-2x64, new: no budget",), below=1)
    assert json.loads(render_finding_json(found)) == {
        "python": PYTHON,
        "checked": 20,
        "below": 1,
        "excesses": [
            {
                "cell": "v2-2x64",
                "arm": "batched",
                "figure": "tokens",
                "budget": 2_000,
                "actual": 2_500.25,
            }
        ],
        "missing": ["v2-2x64, new: no budget"],
        "unsteady": 0,
        "notes": [],
    }
