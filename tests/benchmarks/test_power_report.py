"""The report of the power study, from trials whose figures are made up."""

import math
from pathlib import Path
from typing import Any

import power_report
import pytest

from scenarios.catalogue import find_scenarios

RUN = {
    "machine": "abc",
    "processor": "Some CPU",
    "cores": 2,
    "python": "3.11.7",
    "provider": "nanobind",
    "budget": 10.0,
    "revision": "0123456789abcdef",
    "dirty": False,
    "date": "2026-11-30T10:00:00+00:00",
    "seconds": 90.0,
}
NAMES = [scenario.name for scenario in find_scenarios("grid")]


@pytest.fixture(autouse=True)
def few_grids(monkeypatch: pytest.MonkeyPatch):
    """Resampling takes a hundredth of a second a grid."""
    monkeypatch.setattr(power_report, "_RESAMPLED_GRIDS", 3)


def cell(name: str, kind: str, effect: float = 0.0, took: float = 2.0) -> dict[str, Any]:
    """A cell of six processes, half of them with either order of the imports."""
    effects = [effect - 0.001, effect + 0.001] * 3
    return {
        "cell": name,
        "kind": kind,
        "ratio": {"value": math.exp(effect), "low": 0.99, "high": 1.01},
        "detectable": 0.008,
        "took": took,
        "effects": effects,
        "controls": [0.0005, -0.0005] * 3,
        "cpu_shares": [1.0] * 6,
        "imported_first": [True, False] * 3,
        "by_place": [[0.01, -0.01]] * 6,
    }


def trial(part: str, *cells: dict[str, Any], **more: object) -> dict[str, Any]:
    return {**RUN, "part": part, "index": 0, "cells": cells, **more}


def grid(index: int, kind: str = "no difference", code: int = 0) -> dict[str, Any]:
    """A grid whose first cell has this verdict."""
    kinds = [kind, *["no difference"] * 11]
    cells = [cell(name, own) for name, own in zip(NAMES, kinds, strict=True)]
    return trial("a/a grid", *cells, index=index, exit_code=code)


def peer(
    label: str, alarm: bool, ratio: float, rule: str = "pytest-benchmark mean:5%"
) -> dict[str, Any]:
    ratios = {"mean": ratio, "median": ratio + 0.001, "min": 1.0}
    found = {"peer": rule, "alarm": alarm, "ratios": ratios, "seconds": 9.0}
    return {**RUN, "part": f"tool: {label}", "index": 0, "peers": [found]}


def section(trials: list[dict[str, Any]], title: str) -> str:
    text = power_report.render(trials, "plot.svg")
    return text.partition(f"## {title}\n\n")[2].partition("\n\n##")[0]


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[word.strip() for word in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize(("kind", "alarms"), [("slower", 1), ("faster", 1), ("inconclusive", 0)])
def test_an_alarm_of_a_cell_is_one_of_its_grid(kind: str, alarms: int):
    found = section([grid(0), grid(1, kind, 1), grid(2)], "False alarms")

    share = {0: "0.0% to 70.8%", 1: "0.8% to 90.6%"}[alarms]
    cells = {0: "0.0% to 9.7%", 1: "0.1% to 14.5%"}[alarms]
    assert rows(found) == [
        ["grids of 12 cells", f"{alarms} of 3 ({share})"],
        ["cells", f"{alarms} of 36 ({cells})"],
    ]
    assert f"Of the cells: 35 times no difference, 1 times {kind}." in found
    assert "The command ended 2 with 0, 1 with 1 (" in found


def test_each_slowdown_has_its_verdicts():
    trials = [
        trial("1 %", cell("v2-64x2048", "slower", took=3.0)),
        trial("1 %", cell("v2-64x2048", "inconclusive", took=8.0)),
        trial("1 %", cell("v2-64x2048", "slower", took=4.0)),
        trial("5 %", cell("v2-64x2048", "no difference")),
    ]

    assert rows(section(trials, "Injected slowdowns")) == [
        ["1 %", "2 of 3 (9.4% to 99.2%)", "1", "0", "0", "4.0 s (at most 8.0)"],
        ["5 %", "0 of 1 (0.0% to 97.5%)", "0", "1", "0", "2.0 s (at most 2.0)"],
    ]


def test_each_cell_has_its_noise_and_what_was_found():
    trials = [grid(0), grid(1), trial("1 % in each cell", cell(NAMES[0], "slower"))]

    first, second, *_ = rows(section(trials, "Cell by cell"))
    # Twelve effects, 0.1 % up and down: they deviate by 0.1 % times the root of 12/11.
    assert first[:3] == [NAMES[0], "2 / 0 / 0", "0.10%"]
    assert first[3].startswith("1.00000 (0.99934 to 1.00066)")
    assert first[4:] == ["0.80%", "1 of 1", "2.0 s (at most 2.0)"]
    assert second[5] == "-"


@pytest.mark.parametrize(
    ("part", "kind", "wrong"),
    [
        ("a/a", "slower", 1),
        ("a/a", "faster", 1),
        ("a/a", "no difference", 0),
        ("1 %", "slower", 0),
        ("1 %", "faster", 1),
        ("1 %", "no difference", 1),
        ("1 %", "inconclusive", 0),
    ],
)
def test_what_is_wrong_beside_a_hog(part: str, kind: str, wrong: int):
    found = section(
        [trial(f"{part} beside a hog", cell(NAMES[0], kind))],
        "Beside a process that keeps a core busy",
    )

    ((label, count, *_),) = rows(found)
    assert (label, count.partition(" (")[0]) == (part, f"{wrong} of 1")


def test_a_peer_is_told_at_its_rule_and_at_equal_detection():
    same = [peer("a/a", False, ratio) for ratio in (0.98, 1.004, 1.02, 1.0)]
    slowed = [peer("1 %", ratio > 1.05, ratio) for ratio in (1.06, 1.012, 1.003, 1.03)]
    trials = [
        *same,
        *slowed,
        peer("5 %", True, 1.07),
        trial("1 %", cell("v2-64x2048", "slower")),
        trial("1 %", cell("v2-64x2048", "slower")),
        trial("1 %", cell("v2-64x2048", "slower")),
        trial("1 %", cell("v2-64x2048", "inconclusive")),
    ]

    own, rule, mean, median, least = rows(section(trials, "The usual tools on the same arms"))
    assert own[:5] == ["stepbench compare", "0.5 %", "0 of 0", "3 of 4", "0 of 0"]
    assert rule[:5] == ["pytest-benchmark mean:5%", "its own", "0 of 4", "1 of 4", "1 of 1"]
    # Three of four of the 1 % as well: down to 1.2 %, beyond which one of the same arms lies.
    assert mean[:5] == ["pytest-benchmark mean", "1.20%", "1 of 4", "3 of 4", "1 of 1"]
    assert median[:5] == ["pytest-benchmark median", "1.30%", "1 of 4", "3 of 4", "1 of 1"]
    assert least[:5] == ["pytest-benchmark min", "0.00%", "4 of 4", "4 of 4", "1 of 1"]


def test_a_tool_that_asks_for_significance_finds_nothing_without_it():
    rule = "asv continuous --factor=1"
    same = [peer("a/a", alarm, 1.05, rule) for alarm in (True, False, False)]
    slowed = [peer("1 %", alarm, ratio, rule) for alarm, ratio in ((True, 1.02), (False, 1.09))]

    found = {}
    for slower, kind in ((1, "inconclusive"), (2, "slower")):
        ours = [trial("1 %", cell("v2-64x2048", one)) for one in ("slower", kind)]
        *_, found[slower] = rows(
            section([*same, *slowed, *ours], "The usual tools on the same arms")
        )

    assert found[1][:5] == ["asv median", "2.10%", "1 of 3", "1 of 2", "0 of 0"]
    # Both of the 1 % cannot be had.
    assert found[2][:5] == ["asv median", "none", "-", "-", "-"]


def test_positions_are_told_apart():
    found = rows(section([grid(0)], "Position"))

    assert [(name, number) for name, number, _ in found] == [
        ("all", "72"),
        ("first arm imported before the second", "36"),
        ("second arm imported before the first", "36"),
        ("the control against the first arm", "72"),
        ("iterations in which the first arm ran first", "72"),
        ("iterations in which the second arm ran first", "72"),
    ]
    ratios = [float(ratio.partition(" ")[0]) for _, _, ratio in found]
    assert ratios == [1.0, 0.999, 1.001, 1.0, 1.01005, 0.99005]


def test_grids_are_resampled_and_labelled_so():
    found = section([grid(0), grid(1)], "Resampled, not run")

    assert rows(found) == [
        ["A/A", "0 of 3 (0.0% to 70.8%)", "0.00%", "0.00%", "100.00%", "0.00%"],
        ["1 %", "3 of 3 (29.2% to 100.0%)", "100.00%", "0.00%", "0.00%", "0.00%"],
    ]
    assert "3 grids of processes drawn from those of the live A/A grids" in found


def test_what_is_missing_is_said():
    text = power_report.render([trial("1 %", cell("v2-64x2048", "slower"))], "plot.svg")

    assert text.count("No trials yet.") == 6
    assert "machine `abc`: Some CPU, 2 cores allowed" in text
    assert "revision 0123456789ab;" in text


def test_report_and_plot_lie_beside_the_trials(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib is in the dependency group study")

    text = power_report.write_report([grid(0)], tmp_path / "t.jsonl")

    assert (tmp_path / "t.md").read_text() == text
    assert "![Detections and A/A ratios](t.svg)" in text
    plot = (tmp_path / "t.svg").read_text()
    assert "<svg" in plot
    power_report.write_report([grid(0)], tmp_path / "t.jsonl")
    assert (tmp_path / "t.svg").read_text() == plot
