"""The power study: what is run when, that it goes on where it was, and what a trial keeps."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import power_file
import power_study
import power_trials
import psutil
import pytest
from click.testing import CliRunner

from harness.duet import CellResult
from harness.duet_file import cell_document
from harness.loading import ArmOfSource, ArmSource, find_source, load_apart
from harness.statistics import Estimate
from harness.verdict import Kind, Process, Verdict
from harness.verification import Contest, play_briefly
from scenarios.errors import NoBaselineError
from scenarios.scenario import SteadyDecode

FOUND = {"cells": [{"kind": "no difference"}]}


def setting(told: list[str], seconds: float = 10.0) -> Any:  # noqa: ANN401
    return power_trials.Setting(None, "python", seconds, told.append)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Parts that only note that they ran, one of them three times as often."""
    ran: list[tuple[str, int]] = []

    def note(part: str) -> Any:  # noqa: ANN401
        return lambda _setting, index: ran.append((part, index)) or FOUND

    monkeypatch.setattr(power_study, "PARTS", {"x": (1, note("x")), "y": (3, note("y"))})
    return ran


def test_the_default_study_has_what_it_is_to_show():
    counts = Counter(part for part, _ in power_study.schedule(40))

    assert (counts["a/a grid"], counts["1 %"]) == (40, 100)
    assert [counts[part] for part in ("0.5 %", "2 %", "5 %")] == [40, 40, 40]
    assert counts["1 % in each cell"] == 96
    assert (counts["a/a beside a hog"], counts["1 % beside a hog"]) == (40, 20)
    for peer in ("pyperf", "pytest-benchmark", "asv"):
        assert [counts[f"{peer}: {label}"] for label in ("a/a", "1 %", "5 %")] == [20, 20, 10]


def test_each_part_is_spread_over_the_whole_study():
    plan = power_study.schedule(40)

    half = Counter(part for part, _ in plan[: len(plan) // 2])
    for part, total in Counter(part for part, _ in plan).items():
        assert abs(half[part] - total / 2) <= 1
        indices = [index for own, index in plan if own == part]
        assert indices == list(range(total))


def test_a_study_goes_on_where_it_was(tmp_path: Path, parts: list[tuple[str, int]]):
    path, told = tmp_path / "t.jsonl", list[str]()
    power_study.run_trials(path, 1, setting(told), [], time.monotonic() + 60)
    assert sorted(parts) == [("x", 0), ("y", 0), ("y", 1), ("y", 2)]
    assert len(told) == 4
    assert told[0].startswith("1/4 y 0: 1 no difference; ")

    power_study.run_trials(path, 1, setting(told), [], time.monotonic() + 60)
    assert len(parts) == 4
    power_study.run_trials(path, 2, setting(told), ["x"], time.monotonic() + 60)
    assert parts[4:] == [("x", 1)]
    trials = power_file.load_trials(path, ["x", "y"])
    assert [(trial["part"], trial["index"]) for trial in trials] == parts
    assert all(trial["cells"] == FOUND["cells"] for trial in trials)
    assert all(trial["budget"] == 10.0 for trial in trials)


def test_a_study_stops_when_its_time_is_over(tmp_path: Path, parts: list[tuple[str, int]]):
    told: list[str] = []
    power_study.run_trials(tmp_path / "t", 1, setting(told), [], time.monotonic() - 1)

    assert (parts, told) == ([], ["out of time: 4 trials are missing"])


@pytest.mark.parametrize(
    ("name", "other"),
    [("machine", "abc"), ("python", "2.7.18"), ("provider", "nanobind"), ("budget", 3.0)],
)
def test_trials_that_were_made_differently_are_not_added_to(
    tmp_path: Path, parts: list[tuple[str, int]], name: str, other: object
):
    path = tmp_path / "t.jsonl"
    power_study.run_trials(path, 1, setting([]), ["x"], time.monotonic() + 60)
    run, trial = map(json.loads, path.read_text().splitlines())
    path.write_text(f"{json.dumps({**run, name: other})}\n{json.dumps(trial)}\n")

    with pytest.raises(NoBaselineError, match=f"trials of another {name}, {other} instead of "):
        power_study.run_trials(path, 1, setting([]), [], time.monotonic() + 60)
    assert parts == [("x", 0)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--report-only"], 4, "there are no trials to report"),
        (["--cpu", "x", "--rounds", "1"], 2, "--cpu takes a core number or 'none', not 'x'"),
        (["--only", "nothing"], 2, "Invalid value for '--only'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, arguments: list[str], code: int, words: str
):
    file = str(tmp_path / "t.jsonl")
    ran = CliRunner().invoke(power_study.main, ["--trials", file, *arguments])

    assert ran.exit_code == code
    assert words in ran.stderr


def test_an_interruption_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(power_study, "PARTS", {"x": (1, interrupted)})
    ran = CliRunner().invoke(power_study.main, ["--trials", str(tmp_path / "t.jsonl")])

    assert (ran.exit_code, ran.stdout) == (130, "")
    assert ran.stderr.endswith("interrupted; the same command goes on from here\n")


def test_a_slowed_arm_gives_the_outputs_of_the_arm():
    slowed = ArmSource("slowed", "slowed", "slowed.py", power_trials.slowed_arm(0.01))
    arm = ArmOfSource(find_source("incremental"))

    assert play_briefly(Contest({"slowed": ArmOfSource(slowed)}, "arm", arm)).failure is None


@pytest.mark.parametrize(("share", "spent"), [(0.0, 1.0), (0.02, 1.02), (0.5, 1.5)])
def test_a_slowed_arm_takes_longer_by_its_share(
    monkeypatch: pytest.MonkeyPatch, share: float, spent: float
):
    now = [0.0]

    def clock() -> float:
        now[0] += 1e-6  # What a look at the clock takes.
        return now[0]

    monkeypatch.setattr(time, "perf_counter", clock)
    text = power_trials.slowed_arm(share)
    module = load_apart(ArmSource("slowed", "slowed", "slowed.py", text), f"_slowed_{spent}")

    def work(_self: object, *_arguments: object) -> str:
        now[0] += 1
        return "output"

    monkeypatch.setattr(module._Arm, "build_scheduler_output", work)
    arm = module.KvCacheConnectorSchedulerOutputManager()

    assert arm.build_scheduler_output(None, None, None) == "output"
    assert now[0] == pytest.approx(spent, abs=4e-6)


def test_what_is_kept_of_a_cell():
    result = CellResult(
        SteadyDecode(requests=2, tokens=64),
        Verdict(Kind.SLOWER, "", Estimate(1.5, 1.4, 1.6), 0.003, 0.009),
        # Of two processes with three iterations each.
        [
            [[1.0, 1.0, 1.0], [2.0, 4.0, 8.0], [1.0, 1.0, 1.0]],
            [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        ],
        [[2, 0, 1], [1, 2, 0]],
        [[[0, 1, 2], [1, 0, 2], [0, 2, 1]], [[0, 1, 2], [0, 1, 2], [2, 0, 1]]],
        [Process(0.4, 0.001, 0.99, (1e-3, 2e-3, 3e-3))],
        [Process(0.5, -0.002, 0.98, (4e-3, 5e-3, 6e-3))],
        None,
        7.25,
    )

    assert power_trials._kept(cell_document(result)) == {
        "cell": "v2-2x64",
        "kind": "slower",
        "reason": "",
        "ratio": {"value": 1.5, "low": 1.4, "high": 1.6},
        "detectable": 0.009,
        "took": 7.25,
        "first": 1,
        "effects": [0.4, 0.5],
        "controls": [0.001, -0.002],
        "cpu_shares": [0.99, 0.98],
        "imported_first": [True, False],
        # Logarithms of 2 and 8, whose median is that of 4; then of 4 alone.
        "by_place": [[1.386294, 1.386294], [0.0, None]],
    }


def test_a_hog_is_there_for_as_long_as_it_is_wanted():
    with power_trials._hog(None):
        assert [command[-1] for command in _children()] == ["while True: pass"]
    assert _children() == []


def _children() -> list[list[str]]:
    return [child.cmdline() for child in psutil.Process().children()]


def test_a_trial_runs_for_real(monkeypatch: pytest.MonkeyPatch):
    """In a small cell, with no time: the fewest processes and, whatever it says, one verdict."""
    cells = (SteadyDecode(requests=1, tokens=8), SteadyDecode(requests=2, tokens=8))
    monkeypatch.setattr(power_trials, "find_scenarios", lambda _name: cells)

    found = power_trials.each_cell(setting([], seconds=0.1), 3, 0.5)

    (cell,) = found["cells"]
    assert cell["cell"] == "v2-2x8"
    assert cell["first"] == 6
    assert cell["kind"] in {"slower", "inconclusive"}
    assert len(cell["effects"]) == len(cell["imported_first"]) == len(cell["by_place"])
    assert min(cell["effects"]) > 0.2
