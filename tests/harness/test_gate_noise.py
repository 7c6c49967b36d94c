"""Which thresholds a gate's noise can carry, from processes whose noise is made up."""

import itertools
import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness import gate_noise, noise_floor
from harness.duet import CellResult, Duet, processes_within
from harness.figure import Kind
from harness.gate import GateConfig, parse_config
from harness.gate_noise import (
    check_timed,
    comparisons_of,
    propose,
    run_arms_against_themselves,
    thresholds,
    toml_lines,
)
from harness.verdict import Process, Rule, judge
from scenarios.catalogue import find_scenarios
from scenarios.errors import InputError, NoBaselineError
from scenarios.scenario import SteadyDecode, TraceReplay

CELLS = ("v2-16x8192", "v2-64x2048")
CONFIG = GateConfig(arms=("incremental", "batched"), cells=CELLS)
SCENARIOS = {scenario.name: scenario for scenario in find_scenarios("reference")}


def processes(noise: float, seed: int, count: int) -> list[Process]:
    rng = random.Random(seed)
    return [
        Process(rng.gauss(0, noise), (rng.gauss(0, noise), 0.0), 1.0, (1.0, 1.0))
        for _ in range(count)
    ]


def result(cell: str, noise: float, count: int = 200) -> CellResult:
    """A run of many processes, so that its noise is what was asked for; half a second each."""
    found = CellResult(SCENARIOS[cell], first=processes(noise, 1, count))
    found.took = count / 2
    return found


def test_within_the_needed_threshold_the_same_code_is_found_to_be_the_same():
    found = propose(CONFIG, "batched", [result(CELLS[0], 0.008)])

    assert found is not None
    count = processes_within(10.0, 0.5)
    kinds = [
        judge(processes(0.008, seed, count), Rule(found.needed)).kind for seed in range(2, 302)
    ]
    # At least 99 of 100: of 300 trials, hardly ever fewer than 292. And not far more than needed.
    assert kinds.count(Kind.NO_DIFFERENCE) >= 292
    less = [
        judge(processes(0.008, seed, count), Rule(found.needed / 2)).kind for seed in range(2, 302)
    ]
    assert less.count(Kind.NO_DIFFERENCE) < 250


@pytest.mark.parametrize(
    ("noise", "configured", "proposed"),
    [
        (0.001, 0.005, 0.005),
        (0.008, 0.005, 0.02),
        # Never below what somebody has configured.
        (0.001, 0.04, 0.04),
        (0.5, 0.005, None),
    ],
)
def test_what_is_proposed_is_a_round_number_above_what_is_needed(
    noise: float, configured: float, proposed: float | None
):
    config = replace(CONFIG, threshold=configured)

    found = propose(config, "batched", [result(CELLS[0], noise)])

    assert found is not None
    assert found.proposed == proposed
    assert found.configured == configured
    assert found.is_raised == (proposed != configured)
    if proposed is not None:
        assert found.needed <= proposed < found.detectable


def test_of_too_few_processes_nothing_is_proposed():
    assert propose(CONFIG, "batched", [result(CELLS[0], 0.01, count=1)]) is None


def test_the_lines_to_paste_are_read_back_by_the_gate():
    config = replace(CONFIG, thresholds={"*/batched": 0.0075, f"{CELLS[0]}/*": 0.001})
    noises = {(CELLS[0], "incremental"): 0.0001, (CELLS[0], "batched"): 0.0001}
    noises |= {(CELLS[1], "incremental"): 0.02, (CELLS[1], "batched"): 0.03}
    proposals = []
    for (cell, arm), noise in noises.items():
        found = propose(config, arm, [result(cell, noise)])
        assert found is not None
        proposals.append(found)

    line = toml_lines(thresholds(config, proposals))
    text = (
        f'[gate]\narms = ["incremental", "batched"]\ncells = ["{CELLS[0]}", "{CELLS[1]}"]\n{line}\n'
    )
    again = parse_config(text, "stepbench.toml", ("gate",))

    assert "\n" not in line
    for each in proposals:
        assert again.threshold_of(each.cell, each.arm) == each.proposed
    assert [each.is_raised for each in proposals] == [False, False, True, True]


def test_a_cell_whose_arms_all_need_the_same_stands_for_itself():
    proposals = [propose(CONFIG, arm, [result(CELLS[1], 0.02)]) for arm in CONFIG.arms]

    shares = thresholds(CONFIG, [each for each in proposals if each is not None])

    assert shares == {f"{CELLS[1]}/*": 0.05}
    assert toml_lines(shares) == f'thresholds = {{ "{CELLS[1]}/*" = 0.05 }}'


def test_each_arm_is_held_against_itself_as_the_gate_would_time_it(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[Duet] = []

    def compare(duet: Duet, scenario: SteadyDecode | TraceReplay, *_: object) -> CellResult:
        asked.append(duet)
        return result(scenario.name, 0.001)

    monkeypatch.setattr(noise_floor, "compare_cell", compare)
    # A run takes all of the time.
    clock = SimpleNamespace(monotonic=itertools.count(0, 9).__next__)
    monkeypatch.setattr(noise_floor, "time", clock)
    told: list[str] = []
    config = replace(CONFIG, thresholds={f"{CELLS[1]}/batched": 0.03}, seconds=7.0)

    found = list(run_arms_against_themselves(config, (3,), told.append))

    assert [(arm, results[0].scenario.name) for arm, results in found] == [
        (arm, cell) for cell in CELLS for arm in CONFIG.arms
    ]
    assert told == [f"{arm} against itself in {cell}" for cell in CELLS for arm in CONFIG.arms]
    assert all(duet.a == duet.b for duet in asked)
    assert {(duet.seconds, duet.cpus, duet.comparisons) for duet in asked} == {(7.0, (3,), 4)}
    assert [duet.threshold for duet in asked] == [0.005, 0.005, 0.005, 0.03]
    assert comparisons_of(config) == 4


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"arms": ("batchd",)}, InputError, "did you mean 'batched'"),
        ({"cells": ("v2-1x1",)}, NoBaselineError, "not in scenario reference: v2-1x1"),
        ({"thresholds": {"v9*": 0.1}}, InputError, "thresholds: 'v9*' matches nothing"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_measured(
    settings: dict[str, object], error: type[Exception], text: str
):
    check_timed(CONFIG)
    with pytest.raises(error) as caught:
        check_timed(replace(CONFIG, **settings))  # type: ignore[arg-type]
    assert text in str(caught.value)
    assert math.isclose(gate_noise.STEPS[1], Rule.threshold)
