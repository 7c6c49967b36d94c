"""What each step of the gate makes of what it finds.

What takes long is made up: the random runs, the counting, the timing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from harness import gate_steps, gate_work, shared_code, sources
from harness.budget import load_budget, update, write_budget
from harness.counting import FIGURES, Work
from harness.duet import CellResult, Duet
from harness.equivalence import Difference
from harness.gate import GateConfig, Outcome, Step
from harness.gate_steps import run_gate
from harness.revision import ROOT
from harness.statistics import Estimate
from harness.verdict import Kind, Verdict
from harness.verification import Contest, Failure, Verification
from scenarios.errors import InputError, WorkerError
from scenarios.operations import random_run
from scenarios.scenario import SteadyDecode, TraceReplay

PASSED, FOUND, INCONCLUSIVE, NOTHING = (
    Outcome.PASSED,
    Outcome.FOUND,
    Outcome.INCONCLUSIVE,
    Outcome.NOTHING_TO_COMPARE,
)

REFERENCE_CELLS = ("v2-16x8192", "v2-64x2048")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def save(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def make_work(scenario: SteadyDecode, arm: str, **figures: float) -> Work:
    """Work of one iteration; each figure is 10 where nothing else is said."""
    work = Work(scenario, arm, 1, scenario.requests, scenario.requests * scenario.tokens)
    work.totals = Counter(dict.fromkeys(FIGURES, 10) | figures)  # type: ignore[arg-type]
    return work


def make_works(**figures: float) -> list[Work]:
    """Work that does not grow, of the arm and the floor in two cells; figures in the second."""
    cells = SteadyDecode(requests=8, tokens=64), SteadyDecode(requests=8, tokens=128)
    return [
        make_work(cell, arm, **(figures if (cell, arm) == (cells[1], "batched") else {}))
        for cell in cells
        for arm in ("batched", "floor")
    ]


class World:
    """What the gate finds. As it is here, everything passes, and nothing is timed."""

    def __init__(self) -> None:
        self.failure: Failure | None = None
        self.works: list[Work] | InputError = make_works()
        self.verdicts: dict[str, Verdict | str] = {}
        self.revisions = ["HEAD~1"]
        self.parted: str | None = None
        self.base: dict[str, str | None] = {}
        self.runs: list[tuple[list[str], int]] = []
        self.broken: dict[str, BaseException] = {}
        self.limits: list[float | None] = []
        self.timed: list[tuple[str, str, float, Duet]] = []

    def verify(
        self, contest: Contest, numbers: range, *_: object, limit: float | None, **__: object
    ) -> Verification:
        self.runs.append((list(contest.arms), len(numbers)))
        self.limits.append(limit)
        self.break_if_any(contest.arms)
        return Verification(
            tuple(contest.arms), contest.against, 0, len(numbers), 9, self.failure, {}
        )

    def break_if_any(self, arms: Iterable[str]) -> None:
        for arm in arms:
            if arm in self.broken:
                raise self.broken[arm]

    def count(
        self, _cells: object, arms: Sequence[str], *, limit: float | None, **__: object
    ) -> list[Work]:
        self.limits.append(limit)
        if isinstance(self.works, InputError):
            raise self.works
        self.break_if_any(f"count {arm}" for arm in arms)
        return self.works

    def compare(self, duet: Duet, scenario: SteadyDecode | TraceReplay, *_: object) -> CellResult:
        self.timed.append((duet.b.name, scenario.name, duet.threshold, duet))
        found = self.verdicts.get(scenario.name, Verdict(Kind.NO_DIFFERENCE))
        if isinstance(found, str):
            return CellResult(scenario, failure=found)
        return CellResult(scenario, found)

    def git(self, *arguments: str, **_: object) -> str | None:
        revision, _, path = arguments[-1].partition(":")
        if arguments[0] == "merge-base":
            return self.parted or arguments[-1]
        if arguments[0] == "ls-tree":
            return "\n".join(["connector/__init__.py", "connector/batched.py", *self.base])
        if "rev-parse" in arguments:
            return "0" * 40 if revision.removesuffix("^{commit}") in self.revisions else None
        path = path.removeprefix("./")
        return self.base[path] if path in self.base else (ROOT / path).read_text()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(gate_steps, "verify", world.verify)
    monkeypatch.setattr(gate_steps, "count_cells", world.count)
    monkeypatch.setattr(gate_steps, "compare_cell", world.compare)
    monkeypatch.setattr(gate_steps, "git", world.git)
    monkeypatch.setattr(gate_work, "git", world.git)
    monkeypatch.setattr(shared_code, "git", world.git)
    monkeypatch.setattr(sources, "git", world.git)
    write_budget(Path("budgets.toml"), update(None, make_works(), 0, whole=True))
    return world


def run(
    limit: float | None = None, file: Path | None = None, **settings: object
) -> dict[str, Step]:
    values = {"arms": ("batched",), "cells": REFERENCE_CELLS} | settings
    steps = run_gate(
        GateConfig(**values),  # type: ignore[arg-type]
        file=file,
        cpus=(),
        jobs=1,
        limit=limit,
        describe=lambda found: f"described {found.runs}",
        progress=lambda _what: None,
    )
    return {step.name: step for step in steps}


def outcomes(steps: dict[str, Step]) -> dict[str, Outcome]:
    return {name: step.outcome for name, step in steps.items()}


def before(
    arm: str, change: Callable[[str], str] = lambda text: f"{text}\n_before = True\n"
) -> dict[str, str]:
    """The file of an arm as another revision had it."""
    path = f"connector/{arm.replace('-', '_')}.py"
    return {path: change((ROOT / path).read_text())}


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


def test_work_over_budget_is_a_finding_that_names_it(world: World):
    world.works = make_works(tokens=11, bytecodes=12.5)

    step = run()["exact work"]

    assert (step.outcome, step.summary) == (FOUND, "2 figures over budget")
    assert step.details.splitlines() == [
        "- over budget: v2-8x128, batched: tokens 11 per iteration, budget 10",
        "- over budget: v2-8x128, batched: bytecodes 12.5 per iteration, budget 10",
    ]


def test_work_below_budget_passes(world: World):
    world.works = make_works(tokens=9)
    assert run()["exact work"].outcome is PASSED


@pytest.mark.parametrize(
    ("own", "base", "outcome"),
    [(True, "seed = 1", NOTHING), (True, None, NOTHING), (False, "seed = 1", PASSED)],
)
def test_a_budget_that_was_raised_by_hand_is_no_budget(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    own: bool,
    base: str | None,
    outcome: Outcome,
):
    # Figures are below it, and it is not what it was at the base, where it belongs to the project.
    if own:
        monkeypatch.setattr(gate_work, "ROOT", Path.cwd())
    world.base["budgets.toml"] = base
    world.works = make_works(tokens=9)
    step = run()["exact work"]
    assert step.outcome is outcome
    assert ("1 figures are below it" in step.summary) == (outcome is NOTHING)


@pytest.fixture
def at_base(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget file belongs to the project, and the base has it."""
    monkeypatch.setattr(gate_work, "ROOT", Path.cwd())
    world.base["budgets.toml"] = Path("budgets.toml").read_text()


@pytest.mark.usefixtures("at_base")
def test_a_budget_that_is_what_is_counted_may_change(world: World):
    world.works = make_works(tokens=12, bytecodes=8)
    write_budget(Path("budgets.toml"), update(None, world.works, 0, whole=True))
    # The larger figure is told: somebody should see that it was accepted.
    words = "44 figures within their budget; 1 budgets were raised"
    raised = "- raised: v2-8x128, batched: tokens 10 -> 12"
    assert run()["exact work"] == Step("exact work", PASSED, words, raised)


@pytest.mark.usefixtures("world", "at_base")
@pytest.mark.parametrize(
    ("table", "text"),
    [
        ("[v2-9x9.batched]", "v2-9x9, batched: in the budget, but not counted"),
        (
            "[v2-9x9]",
            "budgets.toml differs from HEAD~1 and is not what a whole `stepbench count --update`",
        ),
    ],
)
def test_a_budget_of_what_is_not_there_is_nothing_to_compare_with(table: str, text: str):
    save("budgets.toml", f"{Path('budgets.toml').read_text()}\n{table}\n")
    step = run()["exact work"]
    assert step.outcome is NOTHING
    assert text in step.summary + step.details


@pytest.mark.usefixtures("at_base", "world")
def test_what_changed_for_other_pythons_is_said_to_be_unchecked():
    budget = load_budget(Path("budgets.toml"))
    for arm in ("batched", "floor"):
        bytecodes = budget.cells["v2-8x64"][arm]["bytecodes"]
        assert isinstance(bytecodes, dict)
        bytecodes["3.9"] = 7
    write_budget(Path("budgets.toml"), budget)
    assert run()["exact work"] == Step(
        "exact work",
        PASSED,
        "44 figures within their budget; those that changed for Python 3.9 can only be checked "
        "there",
    )


def test_a_budget_of_another_seed_is_nothing_to_compare_with(world: World):
    write_budget(Path("budgets.toml"), update(None, make_works(), 3, whole=True))
    step = run()["exact work"]
    assert (step.outcome, step.summary) == (
        NOTHING,
        "the budget was counted with seed 3, not 0",
    )
    assert world.timed == []


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


@pytest.mark.parametrize("how", ["no file", "damaged", "no cell", "cell gone", "not counted"])
def test_without_a_budget_there_is_nothing_to_compare_with(world: World, how: str):
    works = make_works()
    if how == "no file":
        Path("budgets.toml").unlink()
    elif how == "damaged":
        save("budgets.toml", "seed = ")
    elif how == "no cell":
        write_budget(Path("budgets.toml"), update(None, works[:2], 0, whole=True))
    elif how == "cell gone":
        world.works = works[:2]
    else:
        world.works = InputError("the cells would not fit the memory")
    assert run()["exact work"].outcome is NOTHING


def test_one_figure_over_budget_weighs_more_than_a_missing_budget(world: World):
    write_budget(Path("budgets.toml"), update(None, make_works()[2:], 0, whole=True))
    world.works = make_works(tokens=11)
    step = run()["exact work"]
    assert step.outcome is FOUND
    assert "v2-8x64, batched: no budget" in step.details


@pytest.mark.parametrize(
    ("figure", "value", "limit", "outcome"),
    [
        ("tokens", 20, 1.0, PASSED),
        ("tokens", 20, 0.999, FOUND),
        ("objects", 10.1, 0.01, FOUND),  # 0.0144.
        ("objects", 10.06, 0.01, PASSED),  # 0.0086.
        ("native_calls", 0, 0.5, FOUND),  # 0 in one cell alone.
        ("bytecodes", 5, 0.0, PASSED),
        ("retained_bytes", 1_000, 0.01, PASSED),  # Memory is no work.
    ],
)
def test_growth_beyond_its_limit_is_a_finding(
    world: World, figure: str, value: float, limit: float, outcome: Outcome
):
    world.works = make_works(**{figure: value})
    step = run(growth={"batch*": limit})["growth"]
    assert step.outcome is outcome
    named = f"- v2, batched: {figure} grows with the context to the power of "
    assert step.details.startswith(named) == (outcome is FOUND)


def test_growth_without_a_limit_is_none_of_its_business(world: World):
    world.works = make_works(tokens=20)
    assert run()["growth"].outcome is PASSED


RATIO = Estimate(1.0312, 1.0201, 1.0423)


@pytest.mark.parametrize(
    ("verdict", "outcome", "words"),
    [
        (Verdict(Kind.SLOWER, ratio=RATIO), FOUND, "slower: ratio 1.0312 (1.0201 to 1.0423)"),
        (Verdict(Kind.FASTER, ratio=RATIO), PASSED, "faster: ratio 1.0312 (1.0201 to 1.0423)"),
        (Verdict(Kind.NO_DIFFERENCE), PASSED, "no difference"),
        (Verdict(Kind.INCONCLUSIVE, "busy core"), INCONCLUSIVE, "inconclusive; busy core"),
        ("the worker hung", FOUND, "the worker hung"),
    ],
)
def test_an_arm_whose_source_changed_is_timed_in_each_cell(
    world: World, verdict: Verdict | str, outcome: Outcome, words: str
):
    world.base = before("batched")
    world.verdicts["v2-64x2048"] = verdict

    steps = run()

    times = {name: step for name, step in steps.items() if name.startswith("time of ")}
    assert outcomes(times) == {
        "time of batched, v2-16x8192": PASSED,
        "time of batched, v2-64x2048": outcome,
    }
    assert times["time of batched, v2-64x2048"].summary == words
    assert [(arm, cell) for arm, cell, *_ in world.timed] == [
        ("batched", cell) for cell in REFERENCE_CELLS
    ]
    duet = world.timed[0][-1]
    assert (duet.a.spec, duet.b.spec) == ("git:HEAD~1:batched", "batched")
    assert duet.a.text == f"{duet.b.text}\n_before = True\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: f"# Before.\n{text}",
        lambda text: text.replace('"""', '"""Before. ', 1),
        lambda text: text.replace("return data", "return  data"),
    ],
    ids=["comment", "docstring", "space"],
)
def test_words_about_an_arm_do_not_make_it_another(world: World, change: Callable[[str], str]):
    world.base = before("batched", change)
    assert world.base["connector/batched.py"] != (ROOT / "connector/batched.py").read_text()
    assert run()["time of batched"].summary == "its code is that of HEAD~1: not timed"


def test_thresholds_are_those_of_cell_and_arm(world: World):
    world.base = before("batched") | before("incremental")
    run(
        arms=("batched", "incremental", "page-range"),
        threshold=0.01,
        thresholds={"v2-16*/batched": 0.03},
        seconds=2.5,
    )
    assert [timed[:3] for timed in world.timed] == [
        ("batched", "v2-16x8192", 0.03),
        ("batched", "v2-64x2048", 0.01),
        ("incremental", "v2-16x8192", 0.01),
        ("incremental", "v2-64x2048", 0.01),
    ]
    duets = [duet for *_, duet in world.timed]
    assert {duet.seconds for duet in duets} == {2.5}
    # Each comparison is one more chance of a false alarm: two cells of the two arms that changed.
    assert {duet.rule.comparisons for duet in duets} == {4}


def test_an_arm_that_the_base_did_not_have_has_nothing_to_compare_with(world: World):
    world.base["connector/batched.py"] = None
    steps = run()
    assert steps["time of batched"].outcome is NOTHING
    assert "does not exist at revision HEAD~1" in steps["time of batched"].summary
    assert world.timed == []


def test_a_cell_that_is_gone_is_nothing_to_compare_with(world: World):
    world.base = before("batched")
    steps = run(cells=("v2-16x8192", "v2-1x1"))
    assert NOTHING in outcomes(steps).values()
    assert any("v2-1x1" in step.summary for step in steps.values())
    assert world.timed == []


def test_an_arm_whose_outputs_are_not_those_of_the_base_is_not_timed(world: World):
    def wrong(text: str) -> str:
        assert "1 + len(draft_tokens)" in text
        return text.replace("1 + len(draft_tokens)", "2 + len(draft_tokens)")

    world.base = before("batched", wrong)
    step = run()["time of batched"]
    assert step.outcome is FOUND
    assert step.summary.endswith(".num_scheduled_tokens")
    assert world.timed == []


def test_a_base_that_cannot_be_imported_is_nothing_to_compare_with(world: World):
    world.base = before("batched", lambda _text: "def (")
    step = run()["time of batched"]
    assert step.outcome is NOTHING
    assert "cannot be imported: SyntaxError" in step.summary


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("connector/interfaces.py", "# Before.\n"),
        ("connector/data.py", None),
        # What arms had in common, and have no more.
        ("connector/pages.py", "pages = []\n"),
    ],
)
def test_code_that_both_sides_share_is_no_pass(world: World, path: str, text: str | None):
    world.base[path] = text
    steps = run()
    assert [step.outcome for step in steps.values()].count(INCONCLUSIVE) == 1
    assert steps["shared code"].summary.startswith(
        f"not timed, since both sides of a duet share it: {path}; "
    )


def test_words_about_shared_code_are_no_change(world: World):
    path = "connector/interfaces.py"
    world.base[path] = "# Before.\n" + (ROOT / path).read_text()
    assert "shared code" not in run()


def test_a_base_that_moved_on_is_held_against_where_the_work_left_it(world: World):
    world.parted = "abc123def456" + "0" * 28
    world.revisions.append("abc123def456")
    world.base = before("batched")
    steps = run(base="HEAD~1")
    assert steps["base"] == Step(
        "base", PASSED, "HEAD~1 has moved on: held against abc123def456, where this work left it"
    )
    assert world.timed[0][-1].a.spec == "git:abc123def456:batched"


@pytest.mark.parametrize(("both", "outcome"), [(True, NOTHING), (False, FOUND)])
def test_an_arm_that_breaks_beside_its_base(
    world: World, monkeypatch: pytest.MonkeyPatch, both: bool, outcome: Outcome
):
    """It is the base's fault if that does not even run against itself."""

    def play(contest: Contest, **_: object) -> Verification:
        if both or "batched" in contest.arms:
            raise KeyError("reset")
        return Verification((), "", 0, 20, 100, None, {})

    monkeypatch.setattr(gate_steps, "play_briefly", play)
    world.base = before("batched")
    words = {NOTHING: "the base does not run: KeyError: 'reset'", FOUND: "KeyError: 'reset'"}
    assert run()["time of batched"] == Step("time of batched", outcome, words[outcome])
    assert world.timed == []


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


def test_an_infinite_slope_is_beyond_every_limit(world: World):
    world.works = make_works(page_indices=0)
    assert run(growth={"*": 1e300})["growth"].outcome is FOUND
