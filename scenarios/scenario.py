"""Scenarios: frozen descriptions of what is scheduled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import LayerGroup, PageBackend

Manager = Literal["v1", "v2"]
Boundaries = Literal["aligned", "staggered"]

MAX_REQUESTS = 100_000
MAX_TOKENS = 16_777_216
MAX_DRAFT_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What the two kinds of scenario have in common.

    Attributes:
        manager: the KV cache manager, ``v1`` or ``v2``.
        tokens_per_block: block size in tokens.
        layer_groups: layer groups of the V2 manager; V1 has no notion of them.
        page_backend: whether V2 page indices come as a list or from a generator.
        draft_tokens: draft tokens per request and iteration. One to all of them plus one are
            accepted, so a sequence grows by that many.
        overlap: the overlap scheduler's order: when the output of an iteration is built, the
            token of the iteration before is not yet appended.

    Raises:
        InputError: a size is out of range, or a V2 setting is given for V1.
    """

    manager: Manager = "v2"
    tokens_per_block: int = 32
    layer_groups: tuple[LayerGroup, ...] = (LayerGroup(),)
    page_backend: PageBackend = "list"
    draft_tokens: int = 0
    overlap: bool = False

    def __post_init__(self) -> None:
        _check_choice("manager", self.manager, get_args(Manager))
        _check_choice("page backend", self.page_backend, get_args(PageBackend))
        _check_range("tokens per block", self.tokens_per_block, 1, 65_536)
        _check_range("draft tokens", self.draft_tokens, 0, MAX_DRAFT_TOKENS)
        _check_range("number of layer groups", len(self.layer_groups), 1, 64)
        for group in self.layer_groups:
            if group.window is not None:
                _check_range("window", group.window, 1, MAX_TOKENS)
            elif group.sink_tokens:
                raise InputError("sink tokens need a window: a full layer group keeps all tokens")
            _check_range("sink tokens", group.sink_tokens, 0, MAX_TOKENS)
        if type(self.overlap) is not bool:
            raise TypeError(f"overlap must be true or false, not {self.overlap!r}")
        if self.manager == "v1":
            if self.layer_groups != (LayerGroup(),):
                raise InputError("layer groups need the V2 manager: V1 has one flat block space")
            if self.page_backend != "list":
                raise InputError("the page backend is the V2 manager's: V1 has none")

    @property
    def name(self) -> str:
        """The scenario in one word that tells it from others, without the default settings."""
        return "-".join([self.manager, *self.settings()])

    def settings(self) -> list[str]:
        """Return the settings that differ from the defaults, one word each."""
        words = []
        if self.tokens_per_block != 32:
            words.append(f"block={self.tokens_per_block}")
        if self.layer_groups != (LayerGroup(),):
            words.append("groups=" + ",".join(map(format_layer_group, self.layer_groups)))
        if self.page_backend != "list":
            words.append(f"pages={self.page_backend}")
        if self.draft_tokens:
            words.append(f"draft={self.draft_tokens}")
        if self.overlap:
            words.append("overlap")
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return the scenario as plain values; ``from_dict`` takes them back."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class SteadyDecode(Scenario):
    """All requests are in their generation phase and stay there.

    Attributes:
        requests: requests in the batch.
        tokens: prompt length of each request; it grows from there during the measurement.
        boundaries: ``aligned``: all requests have the same length, so that all cross a block
            boundary in the same iteration; ``staggered``: lengths spread evenly over one block
            around ``tokens``, so that every iteration sees its share of crossings.
    """

    requests: int
    tokens: int
    boundaries: Boundaries = "aligned"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_range("requests", self.requests, 1, MAX_REQUESTS)
        _check_range("tokens per request", self.tokens, 1, MAX_TOKENS)
        _check_choice("boundaries", self.boundaries, get_args(Boundaries))

    @property
    def name(self) -> str:
        """For example ``v2-64x2048`` or ``v2-64x2048-block=16-staggered``."""
        return "-".join([self.manager, f"{self.requests}x{self.tokens}", *self.settings()])

    def settings(self) -> list[str]:
        """Return the settings that differ from the defaults, one word each."""
        staggered = ["staggered"] if self.boundaries == "staggered" else []
        return super().settings() + staggered


@dataclass(frozen=True, kw_only=True)
class TraceReplay(Scenario):
    """Requests of a real trace, in file order, through continuous batching.

    Attributes:
        path: the trace file, absolute.
        max_batch: requests in the batch at most.
        max_num_tokens: tokens that one iteration schedules at most; context chunks share what
            the generation requests leave.
    """

    path: str
    max_batch: int = 64
    max_num_tokens: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.path, str) or "\0" in self.path:
            raise TypeError(f"the path of a trace must be a text, not {self.path!r}")
        _check_range("maximum batch size", self.max_batch, 1, MAX_REQUESTS)
        _check_range("tokens per iteration", self.max_num_tokens, 1, MAX_TOKENS)
        generation = self.max_batch * (1 + self.draft_tokens)
        if self.max_num_tokens < generation + self.tokens_per_block:
            raise InputError(
                f"{self.max_num_tokens} tokens per iteration leave no room for a context chunk: "
                f"{self.max_batch} generation requests and one block need "
                f"{generation + self.tokens_per_block}"
            )

    def settings(self) -> list[str]:
        """Return the trace, the batch size, and the settings that differ from the defaults."""
        # The name goes into file formats that have no place for control characters.
        name = re.sub(r"\.gz$", "", Path(self.path).name, flags=re.IGNORECASE)
        stem = "".join(c if c.isprintable() else "?" for c in Path(name).stem)
        budget = [] if self.max_num_tokens == 8192 else [f"budget={self.max_num_tokens}"]
        return [f"trace={stem}", f"batch={self.max_batch}", *budget, *super().settings()]


def from_dict(values: Mapping[str, Any]) -> SteadyDecode | TraceReplay:
    """Return the scenario that ``Scenario.to_dict`` described.

    Raises:
        InputError: the values describe no scenario of this version.
    """
    fields = dict(values)
    kinds: dict[str, type[SteadyDecode] | type[TraceReplay]] = {
        "SteadyDecode": SteadyDecode,
        "TraceReplay": TraceReplay,
    }
    try:
        kind = kinds[fields.pop("kind")]
        fields["layer_groups"] = tuple(LayerGroup(**group) for group in fields["layer_groups"])
        return kind(**fields)
    except (KeyError, TypeError) as error:
        # What Python says of arguments speaks of its own functions.
        is_check = isinstance(error, TypeError) and " must be " in str(error)
        words = error if is_check else "its fields are not those of a scenario"
        raise InputError(f"not a scenario of this version: {words}") from None


def parse_layer_group(text: str) -> LayerGroup:
    """Return the layer group of ``full``, ``window=4096`` or ``window=4096:sink=64``.

    Raises:
        InputError: the text is none of these.
    """
    if text == "full":
        return LayerGroup()
    fields: dict[str, int] = {}
    for part in text.split(":"):
        key, equals, value = part.partition("=")
        if key not in ("window", "sink") or not equals or key in fields or not is_number(value):
            break
        fields[key] = int(value)
    else:
        if "window" in fields:
            return LayerGroup(fields["window"], fields.get("sink", 0))
    raise InputError(
        f"layer group {text!r} is not 'full', 'window=TOKENS' or 'window=TOKENS:sink=TOKENS'"
    )


def format_layer_group(group: LayerGroup) -> str:
    """Return the text that ``parse_layer_group`` reads as ``group``."""
    if group.window is None:
        return "full"
    sink = f":sink={group.sink_tokens}" if group.sink_tokens else ""
    return f"window={group.window}{sink}"


def is_number(text: str) -> bool:
    """Return whether ``text`` is a whole number in plain digits, and not absurdly long."""
    return text.isascii() and text.isdigit() and len(text) <= 18


def _check_range(what: str, value: int, low: int, high: int) -> None:
    if type(value) is not int:  # Of a results file that was changed by hand.
        raise TypeError(f"{what} must be a whole number, not {value!r}")
    if not low <= value <= high:
        raise InputError(f"{what} must be between {low:,} and {high:,}, not {value:,}")


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{what} must be one of {', '.join(choices)}, not {value!r}")
