"""A fork with ways of its own: token by token, pages at block boundaries, no shrink."""

import ast

import pytest

from harness.arms.registry import RegisteredArm
from harness.count.work import count_work
from harness.verify.episode import compare_episode
from harness.verify.runs import Contest, find_failure, verify
from scenarios.operations import Episode, Operation, Setting
from scenarios.scenario import SteadyDecode
from stubs.providers import absent

from ..checkouts import REPORT, STEADY, V1, V2, Checkout
from ..connectors import FORK, PLACE, changed
from ..repositories import git

pytestmark = pytest.mark.thorough

PROVIDERS = [
    pytest.param(name, marks=pytest.mark.skipif(bool(absent(name)), reason=str(absent(name))))
    for name in ("python", "nanobind")
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("setting", [V1, V2], ids=["v1", "v2"])
def test_a_fork_with_its_own_ways_is_played(engine: Checkout, setting: Setting, provider: str):
    before = engine.add(FORK)
    episode = Episode(setting, STEADY)

    arms = {"after": engine.add(changed(FORK, ("length < len", "length + 0 < len")))}
    found, reached = compare_episode(episode, before, arms, provider=provider)

    assert found is None
    assert (reached["report"], reached["cached request"]) == (7, 6)
    # Hashes at the boundaries alone: of 6 tokens, and where tokens 9 and 13 came, but one.
    assert reached["block hashes"] == (2 if setting is V1 else 0)


@pytest.mark.parametrize(
    ("setting", "step", "field", "expected"),
    [
        # V2 has no hashes, and says so with an empty list.
        (V2, 1, "new_requests[0].block_hashes", None),
        # Of the 7 tokens at the second report, the first four fill a block.
        (V1, 2, "cached_requests[0].block_hashes", 1),
    ],
    ids=["v2", "v1"],
)
def test_a_fork_that_says_none_differs_from_one_that_says_nothing(
    engine: Checkout, setting: Setting, step: int, field: str, expected: int | None
):
    arms = {"fork": engine.add(FORK)}
    found, _ = compare_episode(Episode(setting, STEADY), RegisteredArm("full-copy"), arms)

    assert found is not None
    assert (found.step, found.field, found.actual) == (step, field, "None")
    hashes = ast.literal_eval(found.expected)
    assert len(hashes) == (expected or 0)


LENIENT = changed(
    FORK,
    (
        "            raise AssertionError(f'{len(self.tokens)} tokens became {length}')\n",
        "            pass\n",
    ),
)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("raises", ["base", "fork"])
def test_a_fork_that_raises_on_a_shrink_is_told_with_its_traceback(
    engine: Checkout, raises: str, provider: str
):
    made = {name: engine.add(FORK if name == raises else LENIENT) for name in ("base", "fork")}
    shrink = (Operation("shrink", (0, 2, 0)), Operation("generate", (0, 1)), REPORT)
    episode = Episode(V2, (*STEADY[:5], *shrink))

    found, _ = compare_episode(episode, made["base"], {"fork": made["fork"]}, "base", provider)

    assert found is not None
    assert (found.arm, found.step, found.field, found.expected, found.actual) == (
        *(raises, 3, "exception", "none", "AssertionError('7 tokens became 6')"),
    )
    lines = found.trace.splitlines()
    revision = git(engine.root, "rev-parse", "HEAD~1" if raises == "base" else "HEAD")
    files = [line.rpartition(", line ")[0] for line in lines if line.startswith("  File ")]
    assert files == [f'  File "{revision[:12]}:{PLACE}"'] * 2
    assert (lines[0], lines[1].rpartition(", in ")[2], lines[-1]) == (
        "Traceback (most recent call last):",
        "build_scheduler_output",
        "AssertionError: 7 tokens became 6",
    )
    # The lines of a revision are shown, though no file holds them.
    assert "    raise AssertionError(f'{len(self.tokens)} tokens became {length}')" in lines


def test_an_exception_is_found_again_and_shortened(engine: Checkout):
    contest = Contest({"fork": engine.add(FORK)}, "base", engine.add(LENIENT))

    failure = verify(contest, range(10), 0).failure

    assert failure is not None
    assert failure.difference.arm == "fork"
    assert failure.difference.actual.startswith("AssertionError('")
    operations = failure.operations
    assert {"join", "report"} < {operation.name for operation in operations}
    assert find_failure(contest, failure.run, 0) == failure
    for index in range(len(operations)):
        rest = Episode(failure.setting, operations[:index] + operations[index + 1 :])
        assert contest.play(rest)[0] is None


def test_work_is_counted_of_a_fork_too(engine: Checkout):
    scenario = SteadyDecode(requests=2, tokens=64, tokens_per_block=4)
    (work,) = count_work(scenario, {"fork": engine.add(FORK)})

    # A token at a time, and pages where there is a new one: once in four iterations.
    assert work.totals["tokens"] == 2 * 4
    assert work.calls["get_token()"] == 2 * 4
    assert work.calls["get_page_indices_by_layer_group()"] == 2
    # An attribute of Python's, as the engine's is.
    assert "tokens_per_block" not in work.calls
