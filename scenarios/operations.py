"""Random operation lists: what can happen to the requests of an engine between two reports.

A list is plain data, so that it can be printed, shortened and repeated. An operation names a
request by a number that is taken modulo the requests alive, so that any part of a list is itself a
valid list. An operation that finds nothing to act on does nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from stubs.kv_cache_v2 import LayerGroup, PageBackend

from .scenario import Manager

T = TypeVar("T")

# Small blocks fill, grow stale and are freed within a few iterations; large ones are the usual.
SMALL_BLOCKS = (1, 2, 3, 4)
LARGE_BLOCKS = (8, 16, 32, 64)
MAX_REQUESTS = 5

# How a prompt is withdrawn from a batch, the last two for ever: the second number of ``withdraw``.
RESET, PAUSED, FINISHED, DROPPED = range(4)
# For how many reports a consumer keeps an output at most.
MAX_KEPT = 3


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        name: what happens; ``World`` has a method of this name.
        numbers: its arguments, the request first where it is about one.
    """

    name: str
    numbers: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return it as a call: ``generate(1, 3)``."""
        return f"{self.name}({', '.join(map(str, self.numbers))})"


@dataclass(frozen=True)
class Setting:
    """What stays the same during a run.

    Attributes:
        manager: the KV cache manager.
        tokens_per_block: block size in tokens.
        layer_groups: the layer groups; a single full one for V1.
        page_backend: where V2 page indices come from.
        attention_dp: attention data parallelism, where dummy requests are not reported.
        overlap: the tokens of an iteration are appended one iteration late.
    """

    manager: Manager
    tokens_per_block: int
    layer_groups: tuple[LayerGroup, ...]
    page_backend: PageBackend
    attention_dp: bool
    overlap: bool

    @property
    def max_prompt(self) -> int:
        """The longest prompt in tokens: a few blocks."""
        return 3 * self.tokens_per_block + 8

    @property
    def max_context(self) -> int:
        """The length in tokens that a sequence grows to at most."""
        return self.max_prompt + 64


@dataclass(frozen=True)
class Episode:
    """A setting and what happens in it, from an empty engine on."""

    setting: Setting
    operations: tuple[Operation, ...]


class Dice:
    """Random choices that are the same on every machine and Python version.

    Only ``Random.random`` is promised to stay as it is, so all else is made from it.

    Args:
        seed: any text.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, end: int) -> int:
        """Return a number from 0 to ``end - 1``."""
        return int(self._random() * end)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self._random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of ``choices``."""
        return choices[self.below(len(choices))]


def random_run(seed: int, number: int) -> list[Episode]:
    """Return run ``number`` of ``seed``: the same everywhere and whatever other runs there are.

    The episodes of a run share out what excludes each other, so that each run meets both managers,
    with and without attention data parallelism, and one and several layer groups.
    """
    dice = Dice(f"{seed}/{number}")
    flip = dice.chance(0.5)
    small, large = dice.pick(SMALL_BLOCKS), dice.pick(LARGE_BLOCKS)
    several = 2 + dice.below(2)
    settings = [
        _setting(dice, manager="v1", block=small, groups=1, attention_dp=flip),
        _setting(dice, manager="v1", block=large, groups=1, attention_dp=not flip),
        _setting(dice, manager="v2", block=large, groups=1, attention_dp=flip),
        _setting(dice, manager="v2", block=small, groups=several, attention_dp=not flip),
        _setting(dice, manager="v1", block=small, groups=1, attention_dp=True),
        _setting(dice, manager="v2", block=small, groups=1, attention_dp=True),
    ]
    # In every other one prompts come and go before they are reported; the others grow old in peace.
    return [
        Episode(setting, tuple(_operations(dice, setting, restless=flip == bool(index % 2))))
        for index, setting in enumerate(settings)
    ]


def _setting(
    dice: Dice, *, manager: Manager, block: int, groups: int, attention_dp: bool
) -> Setting:
    layer_groups = [LayerGroup()]
    if manager == "v2":
        layer_groups = [_layer_group(dice, block) for _ in range(groups)]
    return Setting(
        manager=manager,
        tokens_per_block=block,
        layer_groups=tuple(layer_groups),
        page_backend="generator" if manager == "v2" and dice.chance(0.5) else "list",
        attention_dp=attention_dp,
        overlap=dice.chance(0.3),
    )


def _operations(dice: Dice, setting: Setting, *, restless: bool) -> list[Operation]:
    operations = [_join(dice, setting) for _ in range(MAX_REQUESTS if restless else 3)]
    for _ in range(10 + dice.below(6)):
        operations += _step(dice, setting, restless)
    return operations


def _layer_group(dice: Dice, tokens_per_block: int) -> LayerGroup:
    if dice.chance(0.1):
        return LayerGroup()
    window = 1 + dice.below(tokens_per_block + 2)
    return LayerGroup(window, dice.below(2 * tokens_per_block) if dice.chance(0.5) else 0)


def _join(dice: Dice, setting: Setting) -> Operation:
    """Let a request join: prompt length, cached prefix, draft tokens, retention, salt, dummy."""
    prompt = 1 + dice.below(setting.max_prompt)
    return Operation(
        "join",
        (
            prompt,
            dice.below(prompt) if dice.chance(0.5) else 0,
            dice.below(4) if dice.chance(0.4) else 0,
            int(dice.chance(0.7)),
            int(dice.chance(0.2)),
            int(dice.chance(0.3)),
        ),
    )


def _step(dice: Dice, setting: Setting, restless: bool) -> list[Operation]:
    """Return what happens before one report, and the report."""
    operations = []
    if dice.chance(0.3):
        operations.append(_join(dice, setting))
    operations += _some(dice, _BEFORE_SCHEDULING)
    if operations and operations[-1].name == "reset" and dice.chance(0.3):
        operations.append(operations[-1])
    if dice.chance(0.4 if restless else 0.1):
        # After others left, whose ids are free again.
        operations.append(_join(dice, setting))
    for request in range(MAX_REQUESTS):
        if dice.chance(0.5):
            operations.append(Operation("generate", (request, dice.below(5))))
        else:
            operations.append(Operation("chunk", (request, _chunk(dice, setting))))
    operations += _some(dice, _AFTER_SCHEDULING)
    operations += _admission(dice, setting, restless)
    # How many reports long a consumer keeps the output before it overwrites it. Where there is a
    # list for each of several layer groups, which one episode of a run has, there is more to find.
    is_kept = len(setting.layer_groups) > 1 or dice.chance(0.3)
    kept = (1 + dice.below(MAX_KEPT),) if is_kept else ()
    return [*operations, Operation("report", kept)]


def _admission(dice: Dice, setting: Setting, restless: bool) -> list[Operation]:
    """Return what happens to one scheduled prompt until the report: see ``orders``."""
    request = dice.below(MAX_REQUESTS)
    operations = _matched(dice, request, 0.9 if restless else 0.5)
    if restless and dice.chance(0.55):
        operations.append(Operation("readmit", (request, _chunk(dice, setting))))
        operations += _matched(dice, request, 0.25)
    elif restless and dice.chance(0.9):
        operations += _matched(dice, request, 1.0)
    if dice.chance(0.5):
        operations.append(Operation("trim", (request, dice.below(2))))
    elif restless and dice.chance(0.15):
        operations.append(Operation("withdraw", (request, dice.below(4))))
    return operations


def _matched(dice: Dice, request: int, probability: float) -> list[Operation]:
    """Return what the connector answers for a prompt: nothing, or tokens, loaded aside or not."""
    if not dice.chance(probability):
        return []
    name = "load" if dice.chance(0.2) else "external"
    return [Operation(name, (request, dice.below(40)))]


def _chunk(dice: Dice, setting: Setting) -> int:
    """Return the size of a chunk in tokens: up to two blocks and a little."""
    return 1 + dice.below(2 * setting.tokens_per_block + 2)


def _some(dice: Dice, kinds: Sequence[tuple[str, float, tuple[int, ...]]]) -> list[Operation]:
    return [
        Operation(name, (dice.below(MAX_REQUESTS), *map(dice.below, ends)))
        for name, probability, ends in kinds
        if dice.chance(probability)
    ]


# Name, probability per step, and the ends of the ranges of the numbers after the request.
_BEFORE_SCHEDULING = (
    ("pause", 0.10, ()),
    ("draft", 0.20, (4,)),
    ("shrink", 0.75, (9, 3)),
    ("rewind", 0.15, (8,)),
    ("leave", 0.20, (2,)),
    ("reset", 0.15, ()),
)
_AFTER_SCHEDULING = (("transfer", 0.35, (2,)),)
