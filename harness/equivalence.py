"""Whether arms do the same: one random episode, compared after every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connector.data import RequestData, SchedulerOutput
from connector.interfaces import LlmRequest
from scenarios.operations import Episode
from scenarios.world import World
from stubs.kv_cache_v2 import BAD_PAGE_INDEX
from stubs.providers import DEFAULT_PROVIDER

from .arms import ArmFactory, SchedulerOutputManager
from .kept import Change, Consumer
from .outputs import REQUESTS, comparable, field_names
from .traces import arm_traceback


@dataclass(frozen=True)
class Difference:
    """Where an arm departs from the reference.

    Attributes:
        arm: its name.
        step: number of the report after which it shows, from 1.
        field: path of the first field that differs, such as ``cached_requests[1].new_tokens``.
        expected, actual: what the reference and the arm say; an exception as its text.
        trace: of an exception its traceback; else empty.
        reported: number of the report whose output it is where that did not stay its reader's own;
            ``expected`` and ``actual`` are then what stood there and what became of it. Else None.
    """

    arm: str
    step: int
    field: str
    expected: str
    actual: str
    trace: str = ""
    reported: int | None = None

    @property
    def failure(self) -> str:
        """What an arm did that has nothing to do with another, in words that go on after it."""
        if self.reported is not None:
            return "does not leave its outputs to their reader"
        return "raised an exception"


# Begins the name of what is counted where a field was not compared, since one side lacks it.
LEFT_OUT = "left out: "


def compare_episode(
    episode: Episode,
    reference: ArmFactory,
    arms: Mapping[str, ArmFactory],
    against: str = "the reference",
    provider: str = DEFAULT_PROVIDER,
) -> tuple[Difference | None, Counter[str]]:
    """Play an episode to all arms at once.

    A consumer of each arm keeps outputs for as many reports as the operation says, in which they
    must not change, and then overwrites their lists, so that an arm which handed out lists that it
    still reads is found at a later report.

    Args:
        episode: what happens.
        reference: makes the arm that is right.
        arms: make the others, by name; each is told whether attention data parallelism is on.
        against: what to call the arm that is right.
        provider: where the stand-ins come from.

    Returns:
        The first difference, or None, and how often each ingredient of the model was reached. If
        the arm that should be right raises something, that is the difference, of ``against``.
    """
    dp = episode.setting.attention_dp
    expected_of = reference(dp)
    others = {name: make(dp) for name, make in arms.items()}
    told = [_Told(against, expected_of), *(_Told(name, arm) for name, arm in others.items())]
    world = World(episode.setting, told, provider)
    step = 0
    for operation in episode.operations:
        is_due = world.apply(operation)
        for arm in told:
            if arm.error is not None:
                return _raised(arm.name, step + 1, arm.error), world.reached
        if not is_due:
            continue
        step += 1
        expected = try_build(expected_of, world)
        if isinstance(expected, BaseException):
            return _raised(against, step, expected), world.reached
        outputs = {name: try_build(arm, world) for name, arm in others.items()}
        for name, output in outputs.items():
            found = first_difference(expected, output)
            if found is not None:
                trace = arm_traceback(output) if isinstance(output, BaseException) else ""
                return Difference(name, step, *found, trace), world.reached
            for field in left_out(expected, output):
                world.reached[f"{LEFT_OUT}{field}"] += 1
        _note_output(world, expected)
        kept = operation.numbers[0] if operation.numbers else 0
        world.reached["output kept"] += bool(kept)
        for arm, output in zip(told, (expected, *outputs.values()), strict=True):
            change = arm.consumer.take(output, step, kept)
            if change is not None:
                return _changed(arm.name, step, change), world.reached
        world.finish_iteration()
    _note_setting(world)
    return None, world.reached


class _Told:
    """An arm as it is told of what happens between reports, and who reads its outputs.

    Args:
        name: its name.
        arm: the arm.

    Attributes:
        error: what it raised when it was told something; None if nothing.
        consumer: reads its outputs.
    """

    def __init__(self, name: str, arm: SchedulerOutputManager) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.consumer = Consumer()
        self._arm = arm

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Tell how many prompt tokens the connector will load."""
        self._tell(self._arm.record_new_matched_tokens, request, num_new_matched_tokens)

    def reset_request(self, request_id: int) -> None:
        """Tell that a request's allocation was destroyed."""
        self._tell(self._arm.reset_request, request_id)

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except (Exception, SystemExit) as error:  # As of what a wrong arm raises in a report.
            self.error = error


def _raised(arm: str, step: int, error: BaseException) -> Difference:
    return Difference(arm, step, "exception", "none", repr(error), arm_traceback(error))


def _changed(arm: str, step: int, change: Change) -> Difference:
    return Difference(
        arm, step, change.field, change.before, change.after, reported=change.reported
    )


def first_difference(
    expected: SchedulerOutput, actual: SchedulerOutput | BaseException
) -> tuple[str, str, str] | None:
    """Return path, expected and actual value of the first field that differs, or None.

    Of outputs of different types, as of two revisions, the fields that both have are compared.
    """
    if isinstance(actual, BaseException):
        return "exception", "none", repr(actual)
    if type(expected) is type(actual) is SchedulerOutput and expected == actual:
        return None
    for name in REQUESTS:
        found = _difference_in_requests(name, getattr(expected, name), getattr(actual, name))
        if found is not None:
            return found
    if "attention_dp_rank" not in _common(expected, actual):
        return None
    ranks = expected.attention_dp_rank, actual.attention_dp_rank
    return None if ranks[0] == ranks[1] else ("attention_dp_rank", repr(ranks[0]), repr(ranks[1]))


def left_out(expected: SchedulerOutput, actual: SchedulerOutput | BaseException) -> set[str]:
    """Return the fields that one of two outputs has and the other has not."""
    if isinstance(actual, BaseException) or type(expected) is type(actual):
        return set()
    pairs: list[tuple[object, object]] = [(expected, actual)]
    requests = [output.new_requests + output.cached_requests for output in (expected, actual)]
    pairs += list(zip(*requests, strict=False))[:1]
    return {
        name
        for one, other in pairs
        for name in set(field_names(one)) ^ set(field_names(other))
        if not name.startswith("_")
    }


def _common(one: object, other: object) -> list[str]:
    """Return the fields that both have, in the first one's order."""
    known = set(field_names(other))
    return [name for name in field_names(one) if name in known]


def try_build(arm: SchedulerOutputManager, world: World) -> SchedulerOutput | BaseException:
    """Return an arm's output for the current batch, or what it raised. What is none is an error."""
    try:
        output = arm.build_scheduler_output(world.batch, world.async_requests, world.manager)
    except (Exception, SystemExit) as error:  # Whatever a wrong arm raises is its difference.
        return error
    return output_error(output) or output


def output_error(output: object) -> TypeError | None:
    """Return why something is no output; None if it is one."""
    if all(isinstance(getattr(output, name, None), list) for name in REQUESTS):
        return None
    return TypeError(f"no lists {' and '.join(REQUESTS)} in a {type(output).__name__}")


def _difference_in_requests(
    name: str, expected: list[RequestData], actual: list[RequestData]
) -> tuple[str, str, str] | None:
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        common = _common(one, other)
        if not common:
            return f"{name}[{index}]", repr(one), repr(other)
        for field in common:
            values = getattr(one, field), getattr(other, field)
            if comparable(values[0]) != comparable(values[1]):
                return f"{name}[{index}].{field}", repr(values[0]), repr(values[1])
    if len(expected) != len(actual):
        ids = [[data.request_id for data in requests] for requests in (expected, actual)]
        return f"{name}.request_id", repr(ids[0]), repr(ids[1])
    return None


def _note_output(world: World, output: SchedulerOutput) -> None:
    reached = world.reached
    scheduled = world.batch.context_requests + world.batch.generation_requests
    dummies = sum(request.is_dummy_request for request in scheduled)
    reached["report"] += 1
    reached["new request"] += len(output.new_requests)
    reached["cached request"] += len(output.cached_requests)
    reached["draft tokens scheduled"] += any(
        request.py_draft_tokens for request in world.batch.generation_requests
    )
    reached["dummy left out"] += dummies if world.setting.attention_dp else 0
    for data in output.new_requests + output.cached_requests:
        # Of a revision that does not have them, there are none.
        reached["block hashes"] += bool(getattr(data, "block_hashes", None))
        reached["priorities"] += bool(getattr(data, "priorities", None))
        groups = getattr(data, "new_block_ids_by_layer_group", None) or []
        reached["masked page"] += any(BAD_PAGE_INDEX in group for group in groups)


def _note_setting(world: World) -> None:
    setting = world.setting
    windows = [group for group in setting.layer_groups if group.window is not None]
    names = [
        f"manager {setting.manager}",
        f"blocks of {setting.tokens_per_block}",
        f"pages from a {setting.page_backend}",
        f"{len(setting.layer_groups)} layer group{'s' if len(setting.layer_groups) > 1 else ''}",
    ]
    names += ["attention DP"] * setting.attention_dp + ["overlap"] * setting.overlap
    names += ["window"] * bool(windows) + ["sink"] * any(group.sink_tokens for group in windows)
    world.reached.update(names)
