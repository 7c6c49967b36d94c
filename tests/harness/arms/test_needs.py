"""What of a random run and which cells can be done with arms that lack something."""

from dataclasses import replace
from typing import Any

import pytest

from harness.arms.loading import Need
from harness.arms.needs import missing_for, playable
from scenarios.catalogue import CATALOGUE
from scenarios.operations import Episode, Operation, Setting, random_run
from scenarios.scenario import SteadyDecode
from stubs.kv_cache_v2 import LayerGroup

V1 = Setting("v1", 16, (LayerGroup(),), "list", attention_dp=False, overlap=False)
V2 = replace(V1, manager="v2")
GROUPS = replace(V2, layer_groups=(LayerGroup(), LayerGroup(64)))
DP = replace(V1, attention_dp=True)
EVERYTHING = frozenset(Need)


def steady(**others: Any) -> SteadyDecode:  # noqa: ANN401
    return SteadyDecode(requests=2, tokens=64, **others)


@pytest.mark.parametrize(
    ("scenario", "lacks", "missing"),
    [
        (steady(), EVERYTHING, [Need.V2]),
        (steady(manager="v1"), EVERYTHING, []),
        (steady(), EVERYTHING - {Need.V2}, []),
        (steady(), set(), []),
        (
            steady(layer_groups=(LayerGroup(), LayerGroup(64))),
            EVERYTHING,
            [Need.V2, Need.LAYER_GROUPS],
        ),
        (
            steady(layer_groups=(LayerGroup(), LayerGroup(64))),
            {Need.LAYER_GROUPS},
            [Need.LAYER_GROUPS],
        ),
        (steady(layer_groups=(LayerGroup(64),)), {Need.LAYER_GROUPS}, []),
    ],
)
def test_what_a_cell_needs(scenario: SteadyDecode, lacks: set[Need], missing: list[Need]):
    assert missing_for(scenario, lacks) == missing


def test_every_cell_of_the_catalogue_can_be_done_by_an_arm_that_lacks_nothing():
    for _, scenarios in CATALOGUE.values():
        for scenario in scenarios:
            assert missing_for(scenario, frozenset()) == []


@pytest.mark.parametrize(
    ("setting", "lacks", "missing"),
    [
        (V1, EVERYTHING, None),
        (V2, {Need.V2}, [Need.V2]),
        (V2, EVERYTHING - {Need.V2}, None),
        (GROUPS, {Need.LAYER_GROUPS}, [Need.LAYER_GROUPS]),
        (GROUPS, {Need.V2, Need.LAYER_GROUPS}, [Need.V2, Need.LAYER_GROUPS]),
        (DP, {Need.ATTENTION_DP}, [Need.ATTENTION_DP]),
        (DP, EVERYTHING - {Need.ATTENTION_DP}, None),
    ],
)
def test_a_setting_that_cannot_be_is_not_played_at_all(
    setting: Setting, lacks: set[Need], missing: list[Need] | None
):
    episode = Episode(setting, (Operation("join", (1, 0, 0, 0, 0, 0)), Operation("report")))

    assert playable(episode, lacks) == ((episode, []) if missing is None else (None, missing))


OPERATIONS = (
    Operation("join", (6, 0, 0, 0, 0, 0)),
    Operation("external", (0, 3)),
    Operation("load", (0,)),
    Operation("report"),
    Operation("reset", (0,)),
    Operation("leave", (0, 0)),
    Operation("leave", (1, 1)),
)


@pytest.mark.parametrize(
    ("lacks", "kept", "missing"),
    [
        (frozenset(), OPERATIONS, []),
        ({Need.V2, Need.LAYER_GROUPS, Need.ATTENTION_DP}, OPERATIONS, []),
        # A request that leaves does so all the same, and nobody is told.
        ({Need.RESET}, (*OPERATIONS[:4], OPERATIONS[5], Operation("leave", (1, 0))), [Need.RESET]),
        ({Need.MATCHED_TOKENS}, (OPERATIONS[0], *OPERATIONS[2:]), [Need.MATCHED_TOKENS]),
        ({Need.LOADS}, (*OPERATIONS[:2], *OPERATIONS[3:]), [Need.LOADS]),
        (
            EVERYTHING,
            (OPERATIONS[0], OPERATIONS[3], OPERATIONS[5], Operation("leave", (1, 0))),
            [Need.LOADS, Need.MATCHED_TOKENS, Need.RESET],
        ),
    ],
)
def test_what_nobody_can_be_told_of_does_not_happen(
    lacks: set[Need], kept: tuple[Operation, ...], missing: list[Need]
):
    found, told = playable(Episode(V1, OPERATIONS), lacks)

    assert found == Episode(V1, kept)
    assert told == missing


def test_an_episode_without_such_operations_is_left_as_it_is():
    episode = Episode(V1, (OPERATIONS[0], OPERATIONS[3], OPERATIONS[5]))

    assert playable(episode, EVERYTHING) == (episode, [])


def test_something_of_every_run_can_be_played_whatever_an_arm_lacks():
    for number in range(30):
        found = [playable(episode, EVERYTHING)[0] for episode in random_run(0, number)]
        settings = [episode.setting for episode in found if episode is not None]
        assert settings
        assert {(setting.manager, setting.attention_dp) for setting in settings} == {("v1", False)}
