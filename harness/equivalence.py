"""Whether arms do the same: one random episode, compared after every report."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connector.data import RequestData, SchedulerOutput
from scenarios.errors import InputError
from scenarios.operations import Episode, Operation
from scenarios.world import World
from stubs.kv_cache_v2 import BAD_PAGE_INDEX
from stubs.providers import DEFAULT_PROVIDER

from .arms import ArmFactory, SchedulerOutputManager


@dataclass(frozen=True)
class Difference:
    """Where an arm departs from the reference.

    Attributes:
        arm: its name.
        step: number of the report, from 1.
        field: path of the first field that differs, such as ``cached_requests[1].new_tokens``.
        expected, actual: what the reference and the arm say; an exception as its text.
    """

    arm: str
    step: int
    field: str
    expected: str
    actual: str


def compare_episode(
    episode: Episode,
    reference: ArmFactory,
    arms: Mapping[str, ArmFactory],
    against: str = "the reference",
    provider: str = DEFAULT_PROVIDER,
) -> tuple[Difference | None, Counter[str]]:
    """Play an episode to all arms at once.

    After each report the lists in all outputs are overwritten, as a consumer may do, so that an
    arm which handed out lists that it still reads is found at a later report.

    Args:
        episode: what happens.
        reference: makes the arm that is right.
        arms: make the others, by name; each is told whether attention data parallelism is on.
        against: what to call the arm that is right.
        provider: where the stand-ins come from.

    Returns:
        The first difference, or None, and how often each ingredient of the model was reached.

    Raises:
        InputError: the arm that is right raised something.
    """
    dp = episode.setting.attention_dp
    expected_of = reference(dp)
    others = {name: make(dp) for name, make in arms.items()}
    world = World(episode.setting, [expected_of, *others.values()], provider)
    step = 0
    for operation in episode.operations:
        if not world.apply(operation):
            continue
        step += 1
        expected = try_build(expected_of, world)
        if isinstance(expected, BaseException):
            raise InputError(f"{against} should be right, but raised {expected!r} in report {step}")
        outputs = {name: try_build(arm, world) for name, arm in others.items()}
        for name, output in outputs.items():
            found = first_difference(expected, output)
            if found is not None:
                return Difference(name, step, *found), world.reached
        _note_output(world, expected)
        for output in (expected, *outputs.values()):
            overwrite(output)
        world.finish_iteration()
    _note_setting(world)
    return None, world.reached


def first_difference(
    expected: SchedulerOutput, actual: SchedulerOutput | BaseException
) -> tuple[str, str, str] | None:
    """Return path, expected and actual value of the first field that differs, or None."""
    if isinstance(actual, BaseException):
        return "exception", "none", repr(actual)
    if expected == actual:
        return None
    for name in ("new_requests", "cached_requests"):
        found = _difference_in_requests(name, getattr(expected, name), getattr(actual, name))
        if found is not None:
            return found
    return "attention_dp_rank", repr(expected.attention_dp_rank), repr(actual.attention_dp_rank)


def shorten(
    operations: Sequence[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    """Return a shortest list that still fails, in the sense that no operation of it can go.

    Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002: leave out
    ever smaller parts as long as what remains fails. Then numbers are made smaller.

    Args:
        operations: a list that fails.
        fails: whether a list fails.
    """
    shortest: list[Operation] = []
    candidate = list(operations)
    # What is left out or made smaller can make something else needless.
    while candidate != shortest:
        shortest = candidate
        candidate = _with_smaller_numbers(_with_parts_left_out(shortest, fails), fails)
    return shortest


def _with_parts_left_out(
    operations: list[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    size = len(operations)
    while size:
        start = 0
        while start < len(operations):
            candidate = operations[:start] + operations[start + size :]
            if fails(candidate):
                operations = candidate
            else:
                start += size
        size //= 2
    return operations


def _with_smaller_numbers(
    operations: list[Operation], fails: Callable[[Sequence[Operation]], bool]
) -> list[Operation]:
    for index in range(len(operations)):
        for position in range(len(operations[index].numbers)):
            for smaller in (0, 1, 2, 3):
                operation = operations[index]
                if smaller >= operation.numbers[position]:
                    break
                numbers = list(operation.numbers)
                numbers[position] = smaller
                candidate = list(operations)
                candidate[index] = Operation(operation.name, tuple(numbers))
                if _is_valid(candidate[index]) and fails(candidate):
                    operations = candidate
                    break
    return operations


def _is_valid(operation: Operation) -> bool:
    """Return whether numbers are ones that a run could hold: a prompt has a token."""
    return (
        operation.name not in ("join", "chunk") or operation.numbers[operation.name == "chunk"] > 0
    )


def try_build(arm: SchedulerOutputManager, world: World) -> SchedulerOutput | BaseException:
    """Return an arm's output for the current batch, or what it raised."""
    try:
        return arm.build_scheduler_output(world.batch, world.async_requests, world.manager)
    except (Exception, SystemExit) as error:  # Whatever a wrong arm raises is its difference.
        return error


def _difference_in_requests(
    name: str, expected: list[RequestData], actual: list[RequestData]
) -> tuple[str, str, str] | None:
    for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
        for field in dataclasses.fields(RequestData):
            values = getattr(one, field.name), getattr(other, field.name)
            if values[0] != values[1]:
                return f"{name}[{index}].{field.name}", repr(values[0]), repr(values[1])
    if len(expected) != len(actual):
        ids = [[data.request_id for data in requests] for requests in (expected, actual)]
        return f"{name}.request_id", repr(ids[0]), repr(ids[1])
    return None


def overwrite(output: SchedulerOutput | BaseException) -> None:
    """Change all lists of an output, as a consumer may do."""
    if isinstance(output, BaseException):
        return
    for data in output.new_requests + output.cached_requests:
        for values in (
            data.new_tokens,
            data.new_block_ids,
            data.block_hashes,
            data.priorities or [],
            *data.new_block_ids_by_layer_group,
        ):
            values[:] = [-99] * (len(values) + 1)
    output.new_requests.clear()
    output.cached_requests.clear()


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
        reached["block hashes"] += bool(data.block_hashes)
        reached["priorities"] += bool(data.priorities)
        pages = [page for group in data.new_block_ids_by_layer_group for page in group]
        reached["masked page"] += BAD_PAGE_INDEX in pages


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
