"""Which thresholds a gate's noise can carry, from processes whose noise is made up."""

import random
from dataclasses import replace

import pytest

from harness.compare import processes as duet_processes
from harness.compare.duet import CellResult
from harness.compare.figure import Kind
from harness.compare.run import processes_within
from harness.compare.verdict import Process, Rule, judge
from harness.gate.config import GateConfig, parse_config
from harness.gate.noise import Proposal, duets_of, propose, thresholds, toml_line
from harness.stats.means import Means, Reading
from scenarios.catalogue import find_scenarios
from stepbench_core.errors import InputError, NoBaselineError

CELLS = ("v2-16x8192", "v2-64x2048")
CONFIG = GateConfig(arms=("incremental", "batched"), cells=CELLS)
SCENARIOS = {scenario.name: scenario for scenario in find_scenarios("reference")}


def processes(
    noise: float,
    seed: int,
    count: int,
    agreed: float | None = None,
    every: float | None = None,
    share: float = 1.0,
    offset: float = 0.0,
) -> list[Process]:
    """Processes of the same code; the noise of the means is that of the step if not given."""
    rng = random.Random(seed)

    def reading(noise: float) -> Reading:
        return Reading(rng.gauss(offset, noise), (rng.gauss(0, noise), rng.gauss(0, noise)))

    def process() -> Process:
        typical = reading(noise)
        means = [reading(noise if one is None else one) for one in (agreed, every)]
        found = Means(means[0], means[1], (1.0, 1.0), (1.0, 1.0), (0.0, 0.0))
        return Process(typical.effect, (0.0, 0.0), share, (1.0, 1.0), found)

    return [process() for _ in range(count)]


def result(cell: str, noise: float, count: int = 1_000, **settings: float) -> CellResult:
    """A run of many processes, so that its noise is what was asked for; half a second each."""
    found = CellResult(SCENARIOS[cell], first=processes(noise, 1, count, **settings))
    found.took = count / 2
    return found


def proposal(cell: str, arm: str, noise: float, config: GateConfig, **settings: float) -> Proposal:
    found = propose(config, arm, [result(cell, noise, **settings)])
    assert found is not None
    return found


@pytest.mark.parametrize(
    "means",
    [
        {},
        # The mean of all steps is as a rule noisier than the typical step, and judged as well.
        {"agreed": 0.012},
        {"every": 0.05},
        {"agreed": 0.01, "every": 0.03},
    ],
)
def test_within_the_needed_threshold_the_same_code_is_found_to_be_the_same(means: dict[str, float]):
    found = proposal(CELLS[0], "batched", 0.008, CONFIG, **means)

    def same(threshold: float) -> int:
        count = processes_within(10.0, 0.5)
        runs = (processes(0.008, seed, count, **means) for seed in range(2, 102))
        return sum(judge(run, Rule(threshold)).kind is Kind.NO_DIFFERENCE for run in runs)

    # In 99 of 100, hardly ever fewer than 96. And not far more than needed.
    assert same(found.needed) >= 96
    assert same(found.needed / 2) < 90


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

    found = proposal(CELLS[0], "batched", noise, config)

    assert found.proposed == proposed
    assert found.configured == configured
    assert found.is_raised == (proposed not in (configured, None))
    if proposed is None:
        assert found.detectable is None
        assert found.reason.startswith("its noise needs a threshold of ")
    else:
        assert found.detectable is not None
        assert found.needed <= proposed < found.detectable


def test_the_gate_s_own_rule_has_to_find_the_processes_seen_to_be_the_same():
    # Copies of the same code that differ by 0.9 % in each process: there is no noise, and yet.
    noisy = proposal(CELLS[0], "batched", 0.5, CONFIG, share=0.5)
    off = proposal(CELLS[0], "batched", 0.0005, CONFIG, offset=0.009)
    busy = proposal(CELLS[0], "batched", 0.0005, CONFIG, share=0.5)

    assert off.needed < 0.0025
    assert off.proposed == 0.01
    assert off.noise.verdict.kind is Kind.SLOWER
    assert (busy.proposed, busy.is_raised) == (None, False)
    assert busy.reason == "busy core: the measuring processes got 50% of it"
    # What is the matter comes before what follows from it.
    assert noisy.reason == busy.reason


def test_of_too_few_processes_nothing_is_proposed():
    assert propose(CONFIG, "batched", [result(CELLS[0], 0.01, count=1)]) is None


def test_the_line_to_paste_is_read_back_by_the_gate():
    # Globs that TOML has to quote, and shares that a rounded number would change.
    shares = {"*/batched": 0.0075, f"{CELLS[0]}/*": 1 / 3000, '*[!"\\]/batched': 0.1234567891}
    config = replace(CONFIG, thresholds=shares)
    proposals = [
        proposal(CELLS[0], "incremental", 0.00001, config),
        proposal(CELLS[0], "batched", 0.00001, config),
        proposal(CELLS[1], "incremental", 0.02, config),
        proposal(CELLS[1], "batched", 0.03, config),
    ]

    line = toml_line(thresholds(config, proposals))
    text = (
        f'[gate]\narms = ["incremental", "batched"]\ncells = ["{CELLS[0]}", "{CELLS[1]}"]\n{line}\n'
    )
    again = parse_config(text, "stepbench.toml", ("gate",))

    assert "\n" not in line
    for each in proposals:
        assert again.threshold_of(each.cell, each.arm) == each.proposed
    assert [each.is_raised for each in proposals] == [False, False, True, True]
    assert {glob: again.thresholds[glob] for glob in shares} == shares


def test_a_cell_whose_arms_all_need_the_same_stands_for_itself():
    proposals = [proposal(CELLS[1], arm, 0.02, CONFIG) for arm in CONFIG.arms]

    shares = thresholds(CONFIG, proposals)

    assert shares == {f"{CELLS[1]}/*": 0.05}
    assert toml_line(shares) == f'thresholds = {{ "{CELLS[1]}/*" = 0.05 }}'


def test_each_arm_is_held_against_itself_as_the_gate_would_time_it():
    config = replace(CONFIG, thresholds={f"{CELLS[1]}/batched": 0.03}, seconds=7.0)

    duets = duets_of(config, (3,))

    assert [(duet.b.spec, [cell.name for cell in duet.scenarios]) for duet in duets] == [
        (arm, [cell]) for cell in CELLS for arm in CONFIG.arms
    ]
    assert all(duet.a == duet.b for duet in duets)
    assert {(duet.seconds, duet.cpus, duet.provider) for duet in duets} == {(7.0, (3,), "python")}
    # As many as the gate makes where all arms have changed.
    assert {duet.rule.comparisons for duet in duets} == {4}
    assert [duet.threshold for duet in duets] == [0.005, 0.005, 0.005, 0.03]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"arms": ("batchd",)}, InputError, "did you mean 'batched'"),
        ({"arms": ("file:x.py",)}, InputError, "only arms of this project can be named here"),
        ({"cells": ("v2-1x1",)}, NoBaselineError, "no such cell in scenario reference: v2-1x1"),
        ({"thresholds": {"v9*": 0.1}}, InputError, "thresholds: 'v9*' matches nothing"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_measured(
    settings: dict[str, object], error: type[Exception], text: str
):
    with pytest.raises(error) as caught:
        duets_of(replace(CONFIG, **settings), ())  # type: ignore[arg-type]
    assert text in str(caught.value)


def test_memory_that_is_not_there_as_well(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duet_processes, "available_memory", lambda: 1_000_000)
    with pytest.raises(InputError, match="would not fit the memory"):
        duets_of(CONFIG, ())
