"""The operation model of the verification as a state machine, for Hypothesis to explore and shrink.

The random runs of ``scenarios/operations.py`` keep an order within each iteration. Here anything
may follow anything.
"""

from collections.abc import Mapping
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from harness.arms.registry import ARMS, REFERENCE, ArmFactory, RegisteredArm
from harness.verify.episode import Difference, compare_episode, first_difference, try_build
from harness.verify.kept import Consumer
from harness.verify.wrong_arms import WRONG_ARMS
from scenarios.operations import (
    LARGE_BLOCKS,
    MAX_KEPT,
    MAX_REQUESTS,
    SMALL_BLOCKS,
    Episode,
    Operation,
    Setting,
    random_run,
)
from scenarios.world import World
from stubs.kv_cache_v2 import LayerGroup

FULL_COPY = RegisteredArm(REFERENCE)

# What the numbers of an operation are drawn from.
REQUESTS = st.integers(0, MAX_REQUESTS - 1)
FLAGS = st.integers(0, 1)
NEW_TOKENS = st.integers(0, 4)
DRAFTS = st.integers(0, 3)


def joins(setting: Setting) -> st.SearchStrategy[tuple[int, ...]]:
    """Prompt length, cached prefix, draft tokens, retention, salt, dummy."""
    prompts = st.integers(1, 8) | st.integers(1, setting.max_prompt)
    cached = st.integers(0, setting.max_prompt)
    return st.tuples(prompts, cached, DRAFTS, FLAGS, FLAGS, FLAGS)


def chunks(setting: Setting) -> st.SearchStrategy[int]:
    """The size of a chunk: up to two blocks, which a world has pages for, and a little."""
    return st.integers(1, 2 * setting.tokens_per_block + 2)


# The same for the setting of the running machine.
JOINS = st.runner().flatmap(lambda machine: joins(machine.setting))
CHUNKS = st.runner().flatmap(lambda machine: chunks(machine.setting))


@st.composite
def layer_groups(draw: st.DrawFn, tokens_per_block: int) -> LayerGroup:
    """Full attention, or a window of about a block and sinks of up to two."""
    window = draw(st.none() | st.integers(1, tokens_per_block + 2))
    if window is None:
        return LayerGroup()
    return LayerGroup(window, draw(st.integers(0, 2 * tokens_per_block - 1)))


@st.composite
def run_settings(draw: st.DrawFn) -> Setting:
    manager = draw(st.sampled_from(("v2", "v1")))
    block = draw(st.sampled_from(SMALL_BLOCKS + LARGE_BLOCKS))
    groups, backend = [LayerGroup()], "list"
    if manager == "v2":
        groups = draw(st.lists(layer_groups(block), min_size=1, max_size=3))
        backend = draw(st.sampled_from(("list", "generator")))
    attention_dp, overlap = draw(st.booleans()), draw(st.booleans())
    return Setting(manager, block, tuple(groups), backend, attention_dp, overlap)


@st.composite
def openings(draw: st.DrawFn) -> Episode:
    """A setting and requests that are there from the start, since without any nothing happens."""
    setting = draw(run_settings())
    requests = draw(st.lists(joins(setting), min_size=1, max_size=3))
    return Episode(setting, tuple(Operation("join", numbers) for numbers in requests))


class DepartureError(AssertionError):
    """An arm departs from the reference.

    Attributes:
        difference: where.
        episode: what happened until then.
    """

    def __init__(self, difference: Difference, episode: Episode) -> None:
        super().__init__(
            f"{difference.arm} after report {difference.step}, field {difference.field}: "
            f"expected {difference.expected}, found {difference.actual}"
        )
        self.difference = difference
        self.episode = episode


class Ladder(RuleBasedStateMachine):
    """All arms against the reference, with an operation of the model a rule.

    Attributes:
        arms: the arms; a subclass may have others.
    """

    arms: Mapping[str, ArmFactory] = {
        name: RegisteredArm(name) for name in ARMS if name != REFERENCE
    }

    @initialize(opening=openings())
    def start(self, opening: Episode) -> None:
        self.setting = opening.setting
        self.operations: list[Operation] = []
        self.step = 0
        self.reference = FULL_COPY(self.setting.attention_dp)
        self.others = {name: make(self.setting.attention_dp) for name, make in self.arms.items()}
        self.consumers = {name: Consumer() for name in ("reference", *self.others)}
        self.world = World(self.setting, [self.reference, *self.others.values()])
        for operation in opening.operations:
            self.apply(operation.name, *operation.numbers)

    def apply(self, name: str, *numbers: int) -> None:
        """Carry out an operation; note it if it found something to act on."""
        operation = Operation(name, numbers)
        before = self.world.reached.total()
        if self.world.apply(operation) or self.world.reached.total() > before:
            self.operations.append(operation)

    @rule(numbers=JOINS)
    def join(self, numbers: tuple[int, ...]) -> None:
        self.apply("join", *numbers)

    @rule(number=REQUESTS, told=FLAGS)
    def leave(self, number: int, told: int) -> None:
        self.apply("leave", number, told)

    @rule(number=REQUESTS, size=CHUNKS)
    def chunk(self, number: int, size: int) -> None:
        self.apply("chunk", number, size)

    @rule(number=REQUESTS, count=NEW_TOKENS)
    def generate(self, number: int, count: int) -> None:
        self.apply("generate", number, count)

    @rule(number=REQUESTS, count=st.integers(0, 8), freed=FLAGS)
    def shrink(self, number: int, count: int, freed: int) -> None:
        self.apply("shrink", number, count, freed)

    @rule(number=REQUESTS, count=st.integers(0, 7))
    def rewind(self, number: int, count: int) -> None:
        self.apply("rewind", number, count)

    @rule(number=REQUESTS)
    def reset(self, number: int) -> None:
        self.apply("reset", number)

    @rule(number=REQUESTS)
    def pause(self, number: int) -> None:
        self.apply("pause", number)

    @rule(number=REQUESTS, count=DRAFTS)
    def draft(self, number: int, count: int) -> None:
        self.apply("draft", number, count)

    @rule(number=REQUESTS, receiving=FLAGS)
    def transfer(self, number: int, receiving: int) -> None:
        self.apply("transfer", number, receiving)

    @rule(number=REQUESTS, count=st.integers(0, 39))
    def external(self, number: int, count: int) -> None:
        self.apply("external", number, count)

    @rule(number=REQUESTS, count=st.integers(0, 39))
    def load(self, number: int, count: int) -> None:
        self.apply("load", number, count)

    @rule(number=REQUESTS, size=CHUNKS)
    def readmit(self, number: int, size: int) -> None:
        self.apply("readmit", number, size)

    @rule(number=REQUESTS, how=st.integers(0, 3))
    def withdraw(self, number: int, how: int) -> None:
        self.apply("withdraw", number, how)

    @rule(number=REQUESTS, whole=FLAGS)
    def trim(self, number: int, whole: int) -> None:
        self.apply("trim", number, whole)

    @rule(
        schedule=st.lists(st.tuples(REQUESTS, CHUNKS, NEW_TOKENS), max_size=MAX_REQUESTS),
        reported=st.sampled_from((True, True, True, False)),
        kept=st.integers(0, MAX_KEPT),
    )
    def iterate(self, schedule: list[tuple[int, int, int]], reported: bool, kept: int) -> None:
        """Schedule several requests and report; one by one this takes too long to come about."""
        for number, size, count in schedule:
            self.apply("chunk", number, size)
            self.apply("generate", number, count)
        if reported:
            self.report(kept)

    @rule(kept=st.integers(0, MAX_KEPT))
    def report(self, kept: int) -> None:
        """Compare the outputs and hand them to consumers, as ``compare_episode`` does."""
        self.apply("report", kept)
        self.step += 1
        expected = try_build(self.reference, self.world)
        assert not isinstance(expected, BaseException), expected
        outputs = {name: try_build(arm, self.world) for name, arm in self.others.items()}
        for name, output in outputs.items():
            found = first_difference(expected, output)
            if found is not None:
                episode = Episode(self.setting, tuple(self.operations))
                raise DepartureError(Difference(name, self.step, *found), episode)
        for name, output in {"reference": expected, **outputs}.items():
            change = self.consumers[name].take(output, self.step, kept)
            if change is not None:
                words = (change.field, change.before, change.after)
                found = Difference(name, self.step, *words, reported=change.reported)
                raise DepartureError(found, Episode(self.setting, tuple(self.operations)))
        self.world.finish_iteration()


# Long examples are wanted, and how long they take to draw depends on what else the machine does.
LONG = settings(
    deadline=None,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def run(machine: type[Ladder], steps: int, *phases: Phase) -> None:
    """Run a machine on examples that do not change from one run of the tests to the next."""
    profile = settings(
        LONG,
        derandomize=True,
        database=None,
        max_examples=500,
        stateful_step_count=steps,
        report_multiple_bugs=False,
        phases=phases,
    )
    run_state_machine_as_test(machine, settings=profile)


def machine_of(name: str) -> type[Ladder]:
    """A machine whose only arm is a wrong one, of a module that is compiled once."""
    arm = WRONG_ARMS[name].load().KvCacheConnectorSchedulerOutputManager
    make = partial(arm, attention_dp_rank=3)
    return type("Wrong", (Ladder,), {"arms": {name: lambda dp: make(enable_attention_dp=dp)}})


def test_every_operation_of_the_model_is_a_rule():
    operations = {
        operation.name
        for number in range(20)
        for episode in random_run(0, number)
        for operation in episode.operations
    }

    assert sorted(operations - set(vars(Ladder))) == []


@pytest.mark.thorough
def test_the_whole_ladder_does_the_same_whatever_happens():
    run_state_machine_as_test(Ladder, settings=settings(LONG, max_examples=40))


# What the shortest failure is said to be. The others are shrunk as well, but some take a minute.
SHRUNK = {
    "external load applied twice": (1, "new_requests[0].computed_position"),
    "aliased lists": (2, "cached_requests[0].new_tokens"),
    "state kept after reset_request": (2, "new_requests.request_id"),
}


# The random runs of ``verify`` catch them all as well: test_runs.py.
@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in WRONG_ARMS if name not in SHRUNK])
def test_a_wrong_arm_is_caught(name: str):
    with pytest.raises(DepartureError) as caught:
        run(machine_of(name), 200, Phase.generate)

    assert caught.value.difference.arm == name


@pytest.mark.thorough
@pytest.mark.parametrize("name", SHRUNK)
def test_a_failure_is_shrunk(name: str):
    machine = machine_of(name)
    step, field = SHRUNK[name]

    with pytest.raises(AssertionError) as caught:
        run(machine, 30, Phase.generate, Phase.shrink)

    assert str(caught.value).startswith(f"{name} after report {step}, field {field}: expected ")
    episode, difference = caught.value.episode, caught.value.difference
    assert len(episode.operations) <= 12
    # ``verify`` would say the same.
    assert compare_episode(episode, FULL_COPY, machine.arms)[0] == difference
