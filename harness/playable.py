"""What can be played or measured with arms that lack something, as older revisions do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from scenarios.operations import Episode, Operation
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
    if Need.MATCHED_TOKENS in lacks and operation.name == "external":
        return None, Need.MATCHED_TOKENS
    if Need.LOADS in lacks and operation.name == "load":
        return None, Need.LOADS
    if Need.RESET in lacks:
        if operation.name == "reset":
            return None, Need.RESET
        if operation.name == "leave" and operation.numbers[-1]:
            # The request leaves, and nobody is told.
            numbers = (*operation.numbers[:-1], 0)
            return replace(operation, numbers=numbers), Need.RESET
    return operation, None
