"""The order of the gate, what ends it, and its configuration; what takes long is made up."""

from pathlib import Path

import pytest

from harness.count.work import FIGURES
from harness.gate import steps as gate_steps
from harness.gate.config import Outcome, Step, outcome_of
from harness.verify.episode import Difference
from harness.verify.runs import Failure
from scenarios.operations import random_run
from stepbench_core.errors import InputError, Missing, NotRunnableError, WorkerError

from ..gate_worlds import FOUND, INCONCLUSIVE, NOTHING, PASSED, World, outcomes, run


def test_a_change_of_nothing_passes_and_is_not_timed(world: World):
    steps = run()
    assert list(steps) == ["equivalence", "exact work", "growth", "time of batched"]
    assert set(outcomes(steps).values()) == {PASSED}
    assert world.runs == [(["batched"], 300)]
    assert "300 random runs" in steps["equivalence"].summary
    assert steps["exact work"].summary.startswith(f"{4 * len(FIGURES)} figures ")
    assert steps["time of batched"].summary.endswith("HEAD~1: not timed")
    assert world.timed == []


def test_arms_that_differ_end_the_gate(world: World):
    episode = random_run(0, 3)[0]
    difference = Difference("batched", 2, "cached_requests[0].new_tokens", "[1]", "[]")
    world.failure = Failure(3, episode.setting, episode.operations[:1], difference)

    steps = run(runs=7)

    assert outcomes(steps) == {"equivalence": FOUND}
    assert world.runs == [(["batched"], 7)]
    assert "batched departs from full-copy" in steps["equivalence"].summary
    assert steps["equivalence"].details == "described 7"


def test_a_reference_that_raises_ends_the_gate_in_words_of_its_own(world: World):
    episode = random_run(0, 3)[0]
    difference = Difference("full-copy", 2, "exception", "none", "KeyError(7)", "KeyError: 7")
    world.failure = Failure(3, episode.setting, episode.operations[:1], difference)

    words = "full-copy, the reference, raised an exception"
    assert run(runs=7) == {"equivalence": Step("equivalence", FOUND, words, "described 7")}


@pytest.mark.parametrize("step", ["equivalence", "exact work"])
def test_an_arm_that_cannot_be_run_here_is_no_finding(world: World, step: str):
    missing = Missing("batched", "LlmRequest.py_request_id", "batched.py", 7)
    arm = "batched" if step == "equivalence" else "count batched"
    world.broken = {arm: NotRunnableError(missing)}

    steps = run(runs=7)

    assert steps[step] == Step(step, Outcome.CANNOT_RUN, str(missing))
    assert list(steps)[-1] == step
    assert outcome_of(list(steps.values())) == 2


def test_the_reference_alone_has_nothing_to_differ_from(world: World):
    assert run(arms=("full-copy",))["equivalence"].outcome is PASSED
    assert world.runs == []


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    ("arms", "text"), [(("batchd",), "did you mean 'batched'"), (("floor",), "unknown arm 'floor'")]
)
def test_an_unknown_arm_is_refused(arms: tuple[str, ...], text: str):
    with pytest.raises(InputError, match=text):
        run(arms=arms)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "settings",
    [
        {"thresholds": {"v3-*": 0.1}},
        {"thresholds": {"*/batched": 0.1, "*/incremental": 0.1}},
        {"growth": {"page-*": 0.1}},
    ],
)
def test_a_glob_that_matches_nothing_is_refused(settings: dict[str, object]):
    # A slip of the pen would switch a check off.
    with pytest.raises(InputError, match="matches nothing"):
        run(**settings)


def test_a_base_that_is_not_there_is_found_first(world: World):
    steps = run(base="origin/gone")
    assert list(outcomes(steps).values()) == [NOTHING]
    (step,) = steps.values()
    assert "'origin/gone'" in step.summary
    assert world.runs == []


DIED = WorkerError("runs 0 to 24: a process of play_runs was killed or died")


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"batched": DIED}, f"batched: {DIED}"),
        ({"full-copy": DIED, "batched": DIED}, f"full-copy: {DIED}"),
        (
            {"incremental": SyntaxError("invalid\nsyntax")},
            "incremental: SyntaxError: invalid syntax",
        ),
        ({"batched": SystemExit(0)}, "batched: SystemExit: 0"),
        ({"batched": InputError("cannot be made")}, "batched: cannot be made"),
    ],
    ids=["died", "the reference", "no Python", "leaves", "cannot be made"],
)
def test_an_arm_that_breaks_the_random_runs_ends_the_gate(
    world: World, broken: dict[str, BaseException], words: str
):
    world.broken = broken
    steps = run(arms=("incremental", "batched"))
    assert steps == {"equivalence": Step("equivalence", FOUND, words)}
    assert world.timed == []


def test_an_arm_that_breaks_what_is_counted_ends_the_gate(world: World):
    world.broken = {"count batched": DIED}
    steps = run(arms=("incremental", "batched"), limit=7.0)
    assert list(outcomes(steps).values()) == [PASSED, FOUND]
    assert steps["exact work"].summary == f"batched: {DIED}"
    # Both arms, both of them once more, each alone.
    assert world.limits == [7.0] * 4


def test_what_no_arm_alone_breaks_may_be_the_machine(world: World):
    world.broken = {"count floor": MemoryError()}
    words = "MemoryError; but each arm by itself passes"
    assert run()["exact work"] == Step("exact work", INCONCLUSIVE, words)


CONFIGURED = 'arms = ["batched"]\ncells = ["v2-16x8192", "v2-64x2048"]\n'


@pytest.mark.parametrize(
    ("before_it", "outcome", "words"),
    [
        (CONFIGURED, None, ""),
        ('arms = ["batched"]\ncells = ["v2-16x8192"]\nruns = 3\n', None, ""),
        (CONFIGURED.replace("]\nc", ', "incremental"]\nc'), NOTHING, "arm incremental"),
        (CONFIGURED.replace('2048"]', '2048", "v1-64x8192"]'), NOTHING, "cell v1-64x8192"),
        (f"{CONFIGURED}runs = 400\n", PASSED, "runs 400 -> 300"),
        (
            f"{CONFIGURED}threshold = 0.001\nthresholds = {{ 'v2-16*/*' = 0.5 }}\n",
            PASSED,
            "threshold of v2-64x2048/batched 0.10% -> 0.50%",
        ),
        (f"{CONFIGURED}growth = {{ batched = 0.5 }}\n", PASSED, "growth of batched 0.5 -> none"),
        (f"{CONFIGURED}budget = 'b.toml'\n", PASSED, "budget b.toml -> budgets.toml"),
        ("no table", None, ""),
    ],
)
def test_what_is_checked_no_more_is_no_pass(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    before_it: str,
    outcome: Outcome | None,
    words: str,
):
    monkeypatch.setattr(gate_steps, "ROOT", Path.cwd())
    monkeypatch.setattr(gate_steps, "shared_code", lambda _config: [])
    world.base["stepbench.toml"] = f"[gate]\n{before_it}"
    steps = run(file=Path("stepbench.toml"))
    step = steps.get("configuration")
    assert (None if step is None else step.outcome) == outcome
    if step is not None:
        sentence = "no longer checked" if outcome is NOTHING else "less strict than at the base"
        assert step.summary == f"{sentence}: {words}"
