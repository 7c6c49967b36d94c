"""Growth of made-up figures whose exponents are known."""

import math
from collections import Counter

import pytest

from harness.count.growth import Growth, growth
from harness.count.work import FIGURES, Work
from scenarios.scenario import SteadyDecode, TraceReplay


def make_work(scenario: SteadyDecode | TraceReplay, value: float | None, **others: float) -> Work:
    """Work of two iterations with the figure ``tokens`` at ``value`` per iteration."""
    totals = {} if value is None else {"tokens": 2 * value}
    requests, tokens = 8, 64
    if isinstance(scenario, SteadyDecode):
        requests, tokens = scenario.requests, scenario.tokens
    totals |= {name: 2 * other for name, other in others.items()}
    work = Work(scenario, "an-arm", 2, 2 * requests, 2 * requests * tokens)
    work.totals = Counter(totals)
    return work


def cell(requests: int, tokens: int, **settings: object) -> SteadyDecode:
    return SteadyDecode(requests=requests, tokens=tokens, **settings)  # type: ignore[arg-type]


def of_tokens(works: list[Work]) -> Growth:
    (found,) = (row for row in growth(works) if row.figure == "tokens")
    return found


GRID = [cell(requests, tokens) for requests in (1, 8, 64) for tokens in (64, 512, 4096)]


@pytest.mark.parametrize(
    ("by_requests", "by_tokens"), [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 2.0), (-1.0, 0.25)]
)
@pytest.mark.parametrize("cells", [GRID, GRID[::-1], GRID[1:], [GRID[0], GRID[1], GRID[4]]])
def test_a_power_law_has_its_exponents(
    cells: list[SteadyDecode], by_requests: float, by_tokens: float
):
    # A grid that is not complete says as much, since each row and column has its own level.
    works = [make_work(c, 3 * c.requests**by_requests * c.tokens**by_tokens) for c in cells]

    found = of_tokens(works)

    assert found.requests == pytest.approx(by_requests, abs=1e-12)
    assert found.tokens == pytest.approx(by_tokens, abs=1e-12)


@pytest.mark.parametrize("value", [1, 7, 18, 427.25, 1_301])
def test_what_does_not_grow_has_a_slope_of_exactly_zero(value: float):
    along_tokens = [make_work(cell(8, 64 * 2**power), value) for power in range(7)]
    along_requests = [make_work(cell(2**power, 64), value) for power in range(7)]

    assert of_tokens(along_tokens).tokens == 0
    assert of_tokens(along_requests).requests == 0


def test_rows_without_a_slope_have_none():
    single = of_tokens([make_work(cell(8, 64), 5)])
    assert (single.requests, single.tokens) == (None, None)

    column = of_tokens([make_work(cell(8, 64), 64), make_work(cell(8, 128), 128)])
    assert (column.requests, column.tokens) == (None, 1.0)

    row = of_tokens([make_work(cell(8, 64), 64), make_work(cell(16, 64), 128)])
    assert (row.requests, row.tokens) == (1.0, None)

    # Two cells that differ in both say nothing about either.
    diagonal = of_tokens([make_work(cell(8, 64), 64), make_work(cell(16, 128), 128)])
    assert (diagonal.requests, diagonal.tokens) == (None, None)


@pytest.mark.parametrize("values", [(0, 0), (None, None), (5, None), (None, 5)])
def test_a_figure_that_is_always_zero_or_was_not_counted_has_no_slope(
    values: tuple[float | None, float | None],
):
    works = [make_work(cell(8, 64), values[0]), make_work(cell(8, 128), values[1])]
    found = of_tokens(works)
    assert (found.requests, found.tokens) == (None, None)


@pytest.mark.parametrize("values", [(0, 5), (5, 0), (0, 0, 5), (5, 5, 0), (0.25, 0, 0.25)])
def test_a_figure_that_is_zero_in_some_cells_alone_grows_without_bound(values: tuple[float, ...]):
    # Against tokens among cells of as many requests, and the other way round.
    sizes = [64 * 2**power for power in range(len(values))]
    column = [make_work(cell(8, size), value) for size, value in zip(sizes, values, strict=True)]
    row = [make_work(cell(size, 64), value) for size, value in zip(sizes, values, strict=True)]

    grown = of_tokens(column), of_tokens(row)

    assert [(found.requests, found.tokens) for found in grown] == [
        (None, math.inf),
        (math.inf, None),
    ]


def test_a_zero_that_is_comparable_with_nothing_says_nothing():
    # The cell that is 0 has neither the requests nor the tokens of another one.
    works = [make_work(cell(8, 64), 64), make_work(cell(8, 128), 128), make_work(cell(2, 32), 0)]
    found = of_tokens(works)
    assert (found.requests, found.tokens) == (None, 1.0)


def test_cells_where_a_figure_is_always_zero_leave_the_others_their_slope():
    works = [make_work(cell(1, tokens), 0) for tokens in (64, 128)]
    works += [make_work(cell(8, tokens), tokens**2) for tokens in (64, 128)]
    found = of_tokens(works)
    # Against requests it is 0 in one of two comparable cells, twice.
    assert (found.requests, found.tokens) == (math.inf, 2.0)


def test_a_figure_has_no_influence_on_another():
    works = [make_work(cell(8, tokens), 0, objects=tokens**2) for tokens in (64, 128, 256)]
    slopes = {row.figure: row.tokens for row in growth(works)}
    assert slopes["tokens"] is None
    assert slopes["objects"] == pytest.approx(2, abs=1e-12)


def test_there_is_a_row_for_each_arm_kind_and_figure_in_order():
    works = [
        make_work(cell(8, 64), 8),
        make_work(cell(8, 64, tokens_per_block=16), 8),
        make_work(cell(8, 128), 16),
        make_work(cell(8, 128, tokens_per_block=16), 32),
        make_work(cell(8, 64, manager="v1"), 3),
    ]
    works[3].arm = "another"

    rows = growth(works)

    assert [(row.kind, row.arm) for row in rows[:: len(FIGURES)]] == [
        ("v2", "an-arm"),
        ("v2-block=16", "an-arm"),
        ("v2-block=16", "another"),
        ("v1", "an-arm"),
    ]
    assert [row.figure for row in rows] == list(FIGURES) * 4
    slopes = [row.tokens for row in rows if row.figure == "tokens"]
    assert slopes == [1.0, None, None, None]


@pytest.mark.parametrize("settings", [{"boundaries": "staggered"}, {"draft_tokens": 3}])
def test_cells_of_as_long_prompts_are_alike_even_if_their_means_differ(
    settings: dict[str, object],
):
    # Lengths that are spread over a block, or that grow by chance, have another mean in each cell.
    works = [make_work(cell(requests, 512, **settings), 7 * requests) for requests in (1, 8, 64)]
    for index, work in enumerate(works):
        work.sequence_tokens += index * work.requests

    assert of_tokens(works).requests == pytest.approx(1, abs=1e-12)


def test_a_replayed_trace_has_no_growth():
    traces = [TraceReplay(path="/a.csv", max_batch=size) for size in (8, 16)]
    assert growth([make_work(trace, 5) for trace in traces]) == []
    assert growth([]) == []
    mixed = growth([make_work(traces[0], 5), make_work(cell(8, 64), 5)])
    assert [row.kind for row in mixed] == ["v2"] * len(FIGURES)
