"""The power study: what is run when, that it goes on where it was, and what a trial keeps."""

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import power_file
import power_study
import power_trials
import psutil
import pytest
from click.testing import CliRunner
from peers_trial import PeerTrial, Trial

from harness.arms.loading import ArmOfSource, load_apart
from harness.arms.sources import ArmSource, find_source
from harness.compare.duet import CellResult
from harness.compare.figure import Kind
from harness.compare.file import cell_document
from harness.compare.verdict import Process, Verdict
from harness.stats.estimates import Estimate
from harness.verify.runs import Contest, play_briefly
from scenarios.catalogue import find_scenarios
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError, NoBaselineError, WorkerError

FOUND = {"cells": [{"kind": "no difference"}]}


def setting(told: list[str], seconds: float = 10.0) -> Any:  # noqa: ANN401
    return power_trials.Setting((), "python", seconds, told.append)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Parts that only note that they ran, one of them three times as often."""
    ran: list[tuple[str, int]] = []

    def note(part: str) -> Any:  # noqa: ANN401
        return lambda _setting, _seed, index: ran.append((part, index)) or FOUND

    monkeypatch.setattr(power_study, "PARTS", {"x": (1, note("x")), "y": (3, note("y"))})
    return ran


def test_the_default_study_has_what_it_is_to_show():
    counts = Counter(part for part, _ in power_study.schedule(100))

    assert (counts["a/a grid"], counts["a/a grid at 0.25 %"]) == (100, 40)
    # As often in each of the twelve cells, and with each of the two kinds of hog.
    assert counts["1 % in each cell"] == 100 * 12
    assert [counts[f"{share} % in each cell"] for share in (0.5, 2, 5)] == [20 * 12] * 3
    assert (counts["a/a beside a hog"], counts["1 % beside a hog"]) == (48, 24)
    assert counts["0.5 % at 0.25 %"] == 100
    assert [counts[f"{label} apart"] for label in ("a/a", "3 %", "5 %")] == [100] * 3
    for peer in ("duet", "pyperf", "pytest-benchmark", "asv"):
        assert [counts[f"{peer}: {label}"] for label in ("a/a", "1 %", "5 %")] == [20, 20, 10]


def test_what_decides_a_verdict_is_there():
    assert all(
        (power_study.ROOT / "harness" / f"{name}.py").exists() for name in (power_study._DECIDING)
    )


def test_parts_that_are_not_as_usual_say_so_to_the_duet(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, dict[str, Any]]] = []

    def compare(_setting: object, _seed: int, *_arms: object, **changed: object) -> None:
        asked.append((str(_arms[-1]), changed))

    monkeypatch.setattr(power_trials, "_compare", compare)
    for part in ("1 % in each cell", "0.5 % at 0.25 %", "3 % apart"):
        power_study.PARTS[part][1](setting([]), 0, 0)

    assert asked == [
        ("v2-16x8192", {}),
        ("v2-64x2048", {"threshold": 0.0025}),
        ("v2-16x8192", {"is_apart": True}),
    ]


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


def test_a_trial_that_fails_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    errors = [WorkerError("it hung"), InputError("the core is taken"), None]

    def run(_setting: object, _seed: int, _index: int) -> dict[str, Any]:
        if error := errors.pop(0):
            raise error
        return FOUND

    monkeypatch.setattr(power_study, "PARTS", {"x": (1, run)})
    path, told = tmp_path / "t.jsonl", list[str]()
    for _ in range(4):
        power_study.run_trials(path, 1, setting(told), [], time.monotonic() + 60)

    assert [line.partition("0: ")[2][:15] for line in told] == [
        *("failed: it hung", "failed: the cor", "1 no difference")
    ]
    trials = power_file.load_trials(path, ["x"])
    assert [trial.get("failed") for trial in trials] == ["it hung", "the core is taken", None]
    assert power_file.of(trials, "x") == trials[2:]


def test_each_trial_has_a_seed_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    seeds: list[int] = []

    def run(_setting: object, seed: int, _index: int) -> dict[str, Any]:
        seeds.append(seed)
        return FOUND

    monkeypatch.setattr(power_study, "PARTS", {"x": (3, run), "y": (3, run)})
    power_study.run_trials(tmp_path / "t", 1, setting([]), [], time.monotonic() + 60)

    assert len(set(seeds)) == 6


@pytest.mark.parametrize(
    ("code", "cells", "failure"), [(1, 12, "a worker hung"), (130, 12, None), (0, 11, None)]
)
def test_a_grid_that_is_not_whole_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, code: int, cells: int, failure: str | None
):
    def command(arguments: list[str], **_: object) -> SimpleNamespace:
        file = Path(arguments[arguments.index("--output") + 1])
        file.write_text(json.dumps({"cells": [{"failure": failure}] * cells}))
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(power_trials, "run", command)

    with pytest.raises(WorkerError, match=f"ended with {code}: {failure or f'{cells} cells'}"):
        power_trials.grid(setting([]), 1, 0)


def test_beside_a_hog_each_cell_has_both_kinds(monkeypatch: pytest.MonkeyPatch):
    tried: list[tuple[str, int | None]] = []
    hogs: list[int | None] = []

    @contextlib.contextmanager
    def hog(cpu: int | None) -> Iterator[None]:
        hogs.append(cpu)
        yield

    def slowdown(_setting: object, _seed: int, _index: int, _share: float, cell: str) -> None:
        tried.append((cell, hogs[-1]))

    monkeypatch.setattr(power_trials, "_hog", hog)
    monkeypatch.setattr(power_trials, "slowdown", slowdown)
    where = dataclasses.replace(setting([]), cpus=(0, 1))
    for index in range(24):
        power_trials.hogged(where, 0, index, share=0.01)

    names = [scenario.name for scenario in find_scenarios("grid")]
    assert sorted(tried, key=str) == sorted(itertools.product(names, (None, 1)), key=str)


def test_the_duet_and_the_peers_are_asked_about_the_same(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str, float]] = []

    def compare(_setting: object, _seed: int, a: ArmSource, b: ArmSource, cell: str) -> None:
        assert (a.text, b.text) == (power_trials.slowed_arm(0.0), power_trials.slowed_arm(0.01))
        asked.append(("duet", cell, 10.0))

    def tool(trial: Trial) -> list[PeerTrial]:
        a, b = (find_source(spec).text for spec in (trial.a, trial.b))
        assert (a, b) == (power_trials.slowed_arm(0.0), power_trials.slowed_arm(0.01))
        asked.append(("tool", trial.cell, trial.seconds))
        return [PeerTrial("tool mean:5%", False, {"mean": 1.0}, 9.5)]

    monkeypatch.setattr(power_trials, "_compare", compare)
    monkeypatch.setattr(power_trials.peers, "PEERS", {"tool": tool})
    for index in range(5):
        power_trials.beside_peers(setting([]), 0, index, "duet", 0.01)
        found = power_trials.beside_peers(setting([]), 0, index, "tool", 0.01)

    assert found["cell"] == power_trials.CELL
    assert found["peers"] == [
        {"peer": "tool mean:5%", "alarm": False, "ratios": {"mean": 1.0}, "seconds": 9.5}
    ]
    cells = [*power_trials.PEER_CELLS, power_trials.CELL]
    assert asked == [(name, cell, 10.0) for cell in cells for name in ("duet", "tool")]


def test_a_study_stops_when_its_time_is_over(tmp_path: Path, parts: list[tuple[str, int]]):
    told: list[str] = []
    power_study.run_trials(tmp_path / "t", 1, setting(told), [], time.monotonic() - 1)

    assert (parts, told) == ([], ["out of time: 4 trials are missing"])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("machine", "abc"),
        ("python", "2.7.18"),
        ("provider", "nanobind"),
        ("budget", 3.0),
        ("cpus", "7"),
        ("code", "0"),
    ],
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
        (
            ["--cpu", "x", "--rounds", "1"],
            2,
            "--cpu takes core numbers, such as 1 or 0,1, or 'none', not 'x'",
        ),
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


def test_an_interruption_of_the_report_is_one_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(power_study, "write_report", interrupted)
    arguments = ["--trials", str(tmp_path / "t.jsonl"), "--report-only"]

    assert CliRunner().invoke(power_study.main, arguments).exit_code == 130


def test_a_slowed_arm_gives_the_outputs_of_the_arm():
    slowed = ArmSource("slowed", "slowed", "slowed.py", power_trials.slowed_arm(0.01))
    arm = ArmOfSource(find_source("incremental"))

    assert play_briefly(Contest({"slowed": ArmOfSource(slowed)}, "arm", arm)).failure is None


@pytest.mark.parametrize("share", [0.0, 0.005, 0.02, 0.5])
def test_a_slowed_arm_takes_longer_by_its_share(monkeypatch: pytest.MonkeyPatch, share: float):
    now = [0.0]

    def clock() -> float:
        now[0] += 5e-8  # What a look at the clock takes.
        return now[0]

    monkeypatch.setattr(time, "perf_counter", clock)
    text = power_trials.slowed_arm(share)
    module = load_apart(ArmSource("slowed", "slowed", "slowed.py", text), f"_slowed_{share}")

    def work(_self: object, *_arguments: object) -> str:
        now[0] += 1e-4  # A tenth of a millisecond: less than in any cell of the grid.
        return "output"

    monkeypatch.setattr(module._Arm, "build_scheduler_output", work)
    arm = module.KvCacheConnectorSchedulerOutputManager()

    assert arm.build_scheduler_output(None, None, None) == "output"
    # Both sides wait a microsecond, and look at the clock twice more: that is no difference.
    assert now[0] == pytest.approx(1e-4 * (1 + share) + 1e-6, abs=1.6e-7)


def test_what_is_kept_of_a_cell():
    result = CellResult(
        SteadyDecode(requests=2, tokens=64),
        Verdict(Kind.SLOWER, "", Estimate(1.5, 1.4, 1.6), 0.003, 0.009),
        # Of two processes with three iterations each.
        [
            [[1.0, 1.0, 1.0], [2.0, 4.0, 8.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
            [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        ],
        [[2, 0, 1, 3], [1, 2, 0, 3]],
        [
            [[0, 1, 2, 3], [3, 1, 0, 2], [0, 2, 1, 3]],
            [[0, 1, 3, 2], [3, 0, 1, 2], [2, 0, 1, 3]],
        ],
        [Process(0.4, (0.001, 0.003), 0.99, (1e-3, 2e-3))],
        [Process(0.5, (-0.002, 0.0), 0.98, (4e-3, 5e-3))],
        None,
        7.25,
        [0, 1],
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
        "controls": [[0.001, 0.003], [-0.002, 0.0]],
        "cores": [0, 1],
        "cpu_shares": [0.99, 0.98],
        "imported_first": [True, False],
        # Logarithms of 2 and 8, whose median is that of 4; then of 4 alone.
        "by_place": [[1.386294, 1.386294], [0.0, None]],
    }


def test_a_hog_is_there_for_as_long_as_it_is_wanted():
    cpu = max(os.sched_getaffinity(0))
    with power_trials._hog(cpu):
        hogs = [child for child in _children() if power_trials._HOG in child.cmdline()]
        assert [hog.cpu_affinity() for hog in hogs] == [[cpu]]
    assert _children() == []


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.mark.thorough
def test_a_trial_runs_for_real(monkeypatch: pytest.MonkeyPatch):
    """In a small cell, with no time: the fewest processes and, whatever it says, one verdict."""
    cells = (SteadyDecode(requests=1, tokens=8), SteadyDecode(requests=2, tokens=8))
    monkeypatch.setattr(power_trials, "find_scenarios", lambda _name: cells)

    found = power_trials.each_cell(setting([], seconds=0.1), 5, 3, 0.5)

    (cell,) = found["cells"]
    assert cell["cell"] == "v2-2x8"
    assert cell["first"] == 6
    assert cell["kind"] in {"slower", "inconclusive"}
    assert len(cell["effects"]) == len(cell["imported_first"]) == len(cell["by_place"])
    assert min(cell["effects"]) > 0.2
