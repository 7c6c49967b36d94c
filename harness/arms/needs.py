"""What can be played or measured with arms that lack something, as older revisions do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from scenarios.operations import DROPPED, FINISHED, PAUSED, RESET, Episode, Operation
from scenarios.scenario import SteadyDecode, TraceReplay

from .loading import Need


def missing_for(scenario: SteadyDecode | TraceReplay, lacks: Collection[Need]) -> list[Need]:
    """Return what a scenario needs that is lacking."""
    return _missing(scenario.manager, len(scenario.layer_groups), False, lacks)


def playable(episode: Episode, lacks: Collection[Need]) -> tuple[Episode | None, list[Need]]:
    """Return what of an episode can be played, and what was lacking for the rest.

    Without a call that tells of something, that does not happen: nobody resets a request or loads
    tokens. Without what the setting needs, nothing of it can be played.
    """
    setting = episode.setting
    missing = _missing(setting.manager, len(setting.layer_groups), setting.attention_dp, lacks)
    if missing:
        return None, missing
    operations: list[Operation] = []
    dropped: set[Need] = set()
    for operation in episode.operations:
        kept, need = _without(operation, lacks)
        if kept is not None:
            operations.append(kept)
        if need is not None:
            dropped.add(need)
    return replace(episode, operations=tuple(operations)), sorted(dropped)


def _missing(
    manager: str, layer_groups: int, attention_dp: bool, lacks: Collection[Need]
) -> list[Need]:
    needs: Iterable[tuple[bool, Need]] = (
        (manager == "v2", Need.V2),
        (manager == "v2" and layer_groups > 1, Need.LAYER_GROUPS),
        (attention_dp, Need.ATTENTION_DP),
    )
    return [need for is_needed, need in needs if is_needed and need in lacks]


def _without(operation: Operation, lacks: Collection[Need]) -> tuple[Operation | None, Need | None]:
    """Return an operation as it can be played, and what was lacking for all of it."""
    name, numbers = operation.name, operation.numbers
    if Need.LOADS in lacks and name == "load":
        return None, Need.LOADS
    if Need.MATCHED_TOKENS in lacks:
        if name == "external":
            return None, Need.MATCHED_TOKENS
        if name == "load" and len(numbers) > 1:
            # The request is being loaded, and nobody is told of how many tokens.
            return replace(operation, numbers=numbers[:1]), Need.MATCHED_TOKENS
    if Need.RESET in lacks:
        if name in ("reset", "readmit"):
            return None, Need.RESET
        untold = _UNTOLD.get((name, *numbers[-1:]))
        if untold is not None:
            # The request leaves or is paused, and nobody is told.
            return replace(operation, numbers=(*numbers[:-1], untold)), Need.RESET
    return operation, None


# Name and last number of operations that arms are told of, and the last number of those that are
# the same and that nobody is told of.
_UNTOLD: Mapping[tuple[str | int, ...], int] = {
    ("leave", 1): 0,
    ("withdraw", RESET): PAUSED,
    ("withdraw", FINISHED): DROPPED,
}
