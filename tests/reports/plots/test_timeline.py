"""Where the timeline marks the boundaries of blocks: where the workload takes new ones."""

import pytest

from reports.plots.timeline import boundary_iterations
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import create_workload


@pytest.mark.parametrize(
    ("tokens", "block", "overlap"),
    [(64, 32, False), (64, 32, True), (50, 16, False), (1, 4, False), (31, 32, True)],
)
def test_a_boundary_is_where_the_workload_gets_a_page(tokens: int, block: int, overlap: bool):
    cell = SteadyDecode(requests=2, tokens=tokens, tokens_per_block=block, overlap=overlap)
    workload = create_workload(cell, 80, "seed")
    lengths, pages = [], []
    for _ in range(80):
        workload.advance()
        request = workload.batch.generation_requests[0]
        lengths.append(request.get_num_tokens(0))
        pages.append(len(workload.manager.get_page_indices_by_layer_group(request)[0]))
    grown = [i for i in range(1, 80) if pages[i] > pages[i - 1]]

    assert grown
    # From any iteration on, as if those before were warm-ups.
    for first in (0, 7, 40):
        found = boundary_iterations(cell, float(lengths[first]), 80 - first)
        expected = [i - first for i in grown if i >= first]
        # Of the first iteration of all nobody saw what was held before.
        assert [i for i in found if first + i > 0] == [i for i in expected if first + i > 0]


@pytest.mark.parametrize(
    "cell",
    [
        SteadyDecode(requests=2, tokens=64, boundaries="staggered"),
        SteadyDecode(requests=2, tokens=64, draft_tokens=3),
        TraceReplay(path="/trace.csv"),
    ],
)
def test_where_requests_do_not_cross_together_there_is_none(cell: SteadyDecode | TraceReplay):
    assert boundary_iterations(cell, 64.0, 100) == []


def test_lengths_that_differ_have_none():
    assert boundary_iterations(SteadyDecode(requests=2, tokens=64), 64.5, 100) == []
