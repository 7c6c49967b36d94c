"""Whether arms do the same: one random episode, compared after every report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connector.data import RequestData, SchedulerOutput
from connector.interfaces import LlmRequest
from harness.arms.loading import file_of
from harness.arms.missing import Watch, refusing, watching
from harness.arms.outputs import (
    REQUESTS,
    by_group,
    comparable,
    field_names,
    field_of,
    output_error,
    requests_of,
)
from harness.arms.registry import ArmFactory, SchedulerOutputManager
from harness.system.tracebacks import arm_traceback
from scenarios.operations import Episode
from scenarios.world import World
from stubs.kv_cache_v2 import BAD_PAGE_INDEX
from stubs.providers import DEFAULT_PROVIDER

from .kept import Change, Consumer


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

    Raises:
        NotRunnableError: an arm uses what is not here.
    """
    with watching() as watch:
        return _played(episode, reference, arms, against, provider, watch)


def _played(
    episode: Episode,
    reference: ArmFactory,
    arms: Mapping[str, ArmFactory],
    against: str,
    provider: str,
    watch: Watch,
) -> tuple[Difference | None, Counter[str]]:
    dp = episode.setting.attention_dp
    files = {against: file_of(reference)} | {name: file_of(make) for name, make in arms.items()}
    with refusing(files):
        expected_of = reference(dp)
        others = {name: make(dp) for name, make in arms.items()}
    told = [_Told(against, expected_of), *(_Told(name, arm) for name, arm in others.items())]
    world = World(episode.setting, told, provider)
    step = 0
    for operation in episode.operations:
        is_due = world.apply(operation)
        for arm in told:
            if arm.error is not None:
                watch.check(arm.name, files[arm.name], arm.error)
                return _raised(arm.name, step + 1, arm.error), world.reached
        if not is_due:
            continue
        step += 1
        expected = try_build(expected_of, world)
        watch.check(against, files[against], expected)
        if isinstance(expected, BaseException):
            return _raised(against, step, expected), world.reached
        outputs = {name: try_build(arm, world) for name, arm in others.items()}
        for name, output in outputs.items():
            watch.check(name, files[name], output)
        for name, output in outputs.items():
            with refusing({name: files[name]}):
                found = first_difference(expected, output)
            if found is not None:
                # What an arm did without may be why, of the one that is right as well.
                watch.check_difference(name, files[name])
                watch.check_difference(against, files[against])
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
    watch.wait()
    for name, file in files.items():
        watch.check(name, file)
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
        found = _difference_in_requests(name, field_of(expected, name), field_of(actual, name))
        if found is not None:
            return found
    if "attention_dp_rank" not in _common(expected, actual):
        return None
    ranks = field_of(expected, "attention_dp_rank"), field_of(actual, "attention_dp_rank")
    return None if ranks[0] == ranks[1] else ("attention_dp_rank", repr(ranks[0]), repr(ranks[1]))


def left_out(expected: SchedulerOutput, actual: SchedulerOutput | BaseException) -> set[str]:
    """Return the fields that one of two outputs has and the other has not."""
    if isinstance(actual, BaseException) or type(expected) is type(actual):
        return set()
    pairs: list[tuple[object, object]] = [(expected, actual)]
    requests = [requests_of(output) for output in (expected, actual)]
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


def _are_equal(one: object, other: object) -> bool:
    """Return whether two values of a field say the same.

    Page indices by layer group do, whether they are a list or, as one branch of the engine has
    them, a mapping.
    """
    if isinstance(one, Mapping) != isinstance(other, Mapping) and all(
        isinstance(each, Mapping | list) for each in (one, other)
    ):
        return bool(by_group(one) == by_group(other))
    return comparable(one) == comparable(other)


def try_build(arm: SchedulerOutputManager, world: World) -> SchedulerOutput | BaseException:
    """Return an arm's output for the current batch, or what it raised. What is none is an error."""
    try:
        output = arm.build_scheduler_output(world.batch, world.async_requests, world.manager)
    except (Exception, SystemExit) as error:  # Whatever a wrong arm raises is its difference.
        return error
    return output_error(output) or output


def _difference_in_requests(
    name: str, expected: list[RequestData], actual: list[RequestData]
) -> tuple[str, str, str] | None:
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        common = _common(one, other)
        if not common:
            return f"{name}[{index}]", repr(one), repr(other)
        for field in common:
            values = field_of(one, field), field_of(other, field)
            if not _are_equal(*values):
                return f"{name}[{index}].{field}", repr(values[0]), repr(values[1])
    if len(expected) != len(actual):
        ids = [
            [field_of(data, "request_id") for data in requests] for requests in (expected, actual)
        ]
        return f"{name}.request_id", repr(ids[0]), repr(ids[1])
    return None


def _note_output(world: World, output: SchedulerOutput) -> None:
    reached = world.reached
    scheduled = world.batch.context_requests + world.batch.generation_requests
    dummies = sum(request.is_dummy_request for request in scheduled)
    reached["report"] += 1
    reached["new request"] += len(field_of(output, "new_requests"))
    reached["cached request"] += len(field_of(output, "cached_requests"))
    reached["draft tokens scheduled"] += any(
        request.py_draft_tokens for request in world.batch.generation_requests
    )
    reached["dummy left out"] += dummies if world.setting.attention_dp else 0
    for data in requests_of(output):
        # Of a revision that does not have them, there are none.
        reached["block hashes"] += bool(field_of(data, "block_hashes"))
        reached["priorities"] += bool(field_of(data, "priorities"))
        groups = by_group(field_of(data, "new_block_ids_by_layer_group") or [])
        reached["masked page"] += any(BAD_PAGE_INDEX in group for group in groups.values())


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
