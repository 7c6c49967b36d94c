"""What a command line asks to be measured, without measuring it."""

import shlex
from collections.abc import Callable

import pytest

from harness.speedup.plan import Plan
from stepbench import speedup

from .conftest import Run

PlanOnly = Callable[..., tuple[Plan, str]]


class Planned(KeyboardInterrupt):
    """Raised in place of measuring."""


@pytest.fixture
def plan_only(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    """Runs a command up to where it would measure; returns the plan and what was said."""
    plans = []

    def measure(plan: Plan, *_: object) -> None:
        plans.append(plan)
        raise Planned

    monkeypatch.setattr(speedup, "measure", measure)

    def run(*arguments: str) -> tuple[Plan, str]:
        ran = run_here("speedup", *arguments)
        assert (ran.code, ran.out) == (130, "")
        return plans.pop(), ran.err

    return run


def test_without_options_the_reference_cells_are_measured(plan_only: PlanOnly):
    plan, _ = plan_only()

    assert [scenario.name for scenario in plan.scenarios] == [
        "v2-16x8192",
        "v2-16x32768",
        "v2-64x2048",
        "v2-64x8192",
        "v2-256x2048",
        "v2-256x4096",
        "v2-8x131072",
        "v1-64x8192",
    ]
    assert plan.arms == ("full-copy", "incremental")
    # As the pull request measured: 10 warm-up iterations, nine rounds of 15.
    assert (plan.protocol.warmups, plan.protocol.rounds, plan.protocol.samples) == (10, 9, 15)
    assert plan.command == "stepbench speedup"


def test_ratios_are_to_be_precise_within_a_time_that_grows_with_what_is_compared(
    plan_only: PlanOnly,
):
    usual, _ = plan_only()
    assert (usual.precision, usual.seconds) == (0.05, 90.0)
    quick, _ = plan_only("--quick")
    assert (quick.precision, quick.seconds) == (0.15, 15.0)
    four, _ = plan_only("--cells", "1x1", "--arms", "full-copy,incremental,batched,floor")
    assert four.seconds == 3 * 90 / 8
    alone, _ = plan_only("--cells", "1x1,1x2", "--arms", "batched")
    assert alone.seconds == 2 * 90 / 8


def test_precision_and_time_are_what_was_asked_for(plan_only: PlanOnly):
    plan, _ = plan_only("--cells", "1x1", "--precision", "2%", "--seconds", "7.5")
    assert (plan.precision, plan.seconds, plan.protocol.processes) == (0.02, 7.5, 4)


def test_a_number_of_processes_is_exact(plan_only: PlanOnly):
    plan, _ = plan_only("--cells", "1x1", "--processes", "6")
    assert (plan.precision, plan.seconds, plan.protocol.processes) == (None, 0.0, 6)


def test_quick_is_one_round_in_fewer_processes(plan_only: PlanOnly):
    usual, _ = plan_only("--cells", "1x1")
    quick, _ = plan_only("--cells", "1x1", "--quick")

    assert quick.protocol.rounds == 1
    assert 2 <= quick.protocol.processes < usual.protocol.processes


def test_what_layer_groups_leave_out_of_the_reference_cells_is_said(plan_only: PlanOnly):
    plan, said = plan_only("--layer-groups", "full,window=4096")

    assert len(plan.scenarios) == 7
    assert "stepbench: left out v1-64x8192: " in said


def test_a_command_with_blanks_is_kept_so_that_it_can_be_repeated(plan_only: PlanOnly):
    plan, _ = plan_only("--cells", "1x1, 2x2", "--arms", "full-copy, incremental", "-o", "a b.json")

    assert [scenario.name for scenario in plan.scenarios] == ["v2-1x1", "v2-2x2"]
    assert shlex.split(plan.command) == [
        *("stepbench", "speedup", "--cells", "1x1, 2x2"),
        *("--arms", "full-copy, incremental", "-o", "a b.json"),
    ]
