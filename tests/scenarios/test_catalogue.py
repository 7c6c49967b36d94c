import pytest

from scenarios.catalogue import CATALOGUE, find_scenarios
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError


def test_the_reference_cells_stand_in_the_order_of_the_published_table():
    cells = [
        (cell.manager, cell.requests, cell.tokens)
        for cell in find_scenarios("reference")
        if isinstance(cell, SteadyDecode)
    ]

    assert cells == [
        ("v2", 16, 8_192),
        ("v2", 16, 32_768),
        ("v2", 64, 2_048),
        ("v2", 64, 8_192),
        ("v2", 256, 2_048),
        ("v2", 256, 4_096),
        ("v2", 8, 131_072),
        ("v1", 64, 8_192),
    ]


def test_the_reference_cells_keep_the_settings_of_the_published_protocol():
    # One layer group without a window, 32 tokens a block, page indices as lists, no drafts, and
    # all requests at the same length: such a cell has nothing in its name but its size.
    assert [cell.name for cell in find_scenarios("reference")] == [
        "v2-16x8192",
        "v2-16x32768",
        "v2-64x2048",
        "v2-64x8192",
        "v2-256x2048",
        "v2-256x4096",
        "v2-8x131072",
        "v1-64x8192",
    ]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_has_a_description_and_cells_of_different_names(name: str):
    description, cells = CATALOGUE[name]

    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names) > 0
    assert description
    assert "\n" not in description


def test_the_entries_other_than_the_reference_hold_what_they_are_called():
    names = {entry: [cell.name for cell in find_scenarios(entry)] for entry in CATALOGUE}

    assert names["small"][0] == "v2-1x64"
    assert names["small"][-1] == "v2-64x4096"
    assert len(names["small"]) == 9
    assert names["context"] == ["v2-8x2048", "v2-8x8192", "v2-8x32768", "v2-8x131072"]
    assert names["sliding-window"] == [
        "v2-64x2048-groups=full,window=4096:sink=64",
        "v2-64x8192-groups=full,window=4096:sink=64",
        "v2-64x32768-groups=full,window=4096:sink=64",
    ]
    assert names["speculative"] == ["v2-64x2048-draft=3-staggered", "v2-64x8192-draft=3-staggered"]
    assert names["overlap"] == ["v2-64x2048-overlap", "v2-64x8192-overlap"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("referense", "unknown scenario 'referense': did you mean 'reference'?"),
        ("sliding", "unknown scenario 'sliding': did you mean 'sliding-window'?"),
        (
            "zzz",
            "unknown scenario 'zzz': known: reference, grid, small, context, sliding-window, "
            "speculative, overlap",
        ),
    ],
)
def test_an_unknown_entry_is_refused_with_a_hint(name: str, text: str):
    with pytest.raises(InputError) as caught:
        find_scenarios(name)

    assert str(caught.value) == text
