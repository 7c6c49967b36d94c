import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.batching import ContinuousBatching
from scenarios.scenario import TraceReplay
from scenarios.traces import TraceRow

Rows = list[TraceRow]


@dataclass
class Request:
    """One request of the plain simulation."""

    row: int
    prompt: int
    output: int
    computed: int = 0
    chunk: int = 0
    generated: int = 0
    known_under_overlap: int = 0


class ConstantDraws(random.Random):
    """Accepts the same number of draft tokens every time."""

    def __init__(self, accepted: int) -> None:
        super().__init__(0)
        self.accepted = accepted

    def randint(self, a: int, b: int) -> int:
        assert a <= self.accepted <= b
        return self.accepted


def simulate(
    scenario: TraceReplay, rows: Rows, gain: int
) -> Iterator[tuple[list[Request], list[Request], int]]:
    """Yield context requests, generation requests and how many left, iteration by iteration.

    Slow and plain on purpose: every request counts for itself, one iteration after the other.
    Each forward gives every generation request ``gain`` tokens.
    """
    waiting = [Request(row, r.prompt, r.output) for row, r in enumerate(rows)]
    context: list[Request] = []
    generation: list[Request] = []
    left = 0
    while True:
        # What the forward of the iteration before did.
        for request in generation:
            request.known_under_overlap = request.generated
            request.generated += gain
        for request in context:
            request.computed += request.chunk
        for request in context:
            if request.computed == request.prompt:
                request.generated = 1
                generation.append(request)
        context = [request for request in context if request.computed < request.prompt]
        alive = [r for r in generation if r.generated < r.output]
        left += len(generation) - len(alive)
        generation = alive

        while waiting and len(context) + len(generation) < scenario.max_batch:
            context.append(waiting.pop(0))

        budget = scenario.max_num_tokens
        for _ in generation:
            budget -= 1 + scenario.draft_tokens
        for request in context:
            request.chunk = 0
            remaining = request.prompt - request.computed
            while remaining:
                block = min(scenario.tokens_per_block, remaining)
                if block > budget:
                    break
                request.chunk += block
                remaining -= block
                budget -= block
        yield context, generation, left
        if not context and not generation and not waiting:
            return


@st.composite
def replays(draw: st.DrawFn, most_drafts: int = 3) -> tuple[TraceReplay, Rows]:
    max_batch = draw(st.integers(1, 6))
    block = draw(st.sampled_from([1, 2, 4, 7]))
    drafts = draw(st.integers(0, most_drafts))
    scenario = TraceReplay(
        path="/none.csv",
        max_batch=max_batch,
        tokens_per_block=block,
        draft_tokens=drafts,
        max_num_tokens=max_batch * (1 + drafts) + block + draw(st.integers(0, 40)),
        overlap=draw(st.booleans()),
    )
    row = st.builds(TraceRow, st.integers(1, 60), st.integers(0, 12))
    return scenario, draw(st.lists(row, min_size=1, max_size=20))


@given(replays(), st.data())
def test_every_iteration_is_that_of_a_plain_simulation(
    replay: tuple[TraceReplay, Rows], data: st.DataObject
):
    scenario, rows = replay
    accepted = data.draw(st.integers(0, scenario.draft_tokens))
    batching = ContinuousBatching(scenario, rows, ConstantDraws(accepted))

    for iteration, (context, generation, left) in enumerate(
        simulate(scenario, rows, 1 + accepted), start=1
    ):
        batching.step()

        assert batching.iteration == iteration
        assert batching.left == left
        assert len(batching.waiting) == len(rows) - left - len(context) - len(generation)
        assert [(s.row, s.prompt, s.computed, s.chunk) for s in batching.context.values()] == [
            (r.row, r.prompt, r.computed, r.chunk) for r in context
        ]
        known = [r.known_under_overlap if scenario.overlap else r.generated for r in generation]
        assert list(batching.generation) == [r.row for r in generation]
        assert list(map(batching.known_tokens, batching.generation.values())) == known


@given(replays(), st.integers())
def test_what_one_iteration_schedules_stays_within_its_limits(
    replay: tuple[TraceReplay, Rows], seed: int
):
    scenario, rows = replay
    batching = ContinuousBatching(scenario, rows, random.Random(seed))
    joined: list[int] = []
    computed = dict.fromkeys(range(len(rows)), 0)

    while batching.left < len(rows):
        batching.step()
        context, generation = batching.context.values(), batching.generation.values()
        tokens = sum(s.chunk for s in context) + len(generation) * (1 + scenario.draft_tokens)
        assert (0 < tokens <= scenario.max_num_tokens) or batching.left == len(rows)
        assert len(context) + len(generation) <= scenario.max_batch
        assert not set(batching.context) & set(batching.generation)
        for slot in context:
            assert slot.computed == computed[slot.row]
            computed[slot.row] += slot.chunk
            last = computed[slot.row] == slot.prompt
            assert last or slot.chunk % scenario.tokens_per_block == 0
        joined += [row for row in batching.context if row not in joined]

    assert joined == list(range(len(rows)))
    assert list(computed.values()) == [row.prompt for row in rows]


@given(replays(), st.integers())
def test_a_request_generates_within_what_drafts_allow_and_leaves_with_its_output(
    replay: tuple[TraceReplay, Rows], seed: int
):
    scenario, rows = replay
    lag = 1 if scenario.overlap else 0
    most = 1 + scenario.draft_tokens
    batching = ContinuousBatching(scenario, rows, random.Random(seed))
    known: dict[int, list[int]] = {}

    while batching.left < len(rows):
        batching.step()
        for row, slot in batching.generation.items():
            known.setdefault(row, []).append(batching.known_tokens(slot))

    for row, counts in known.items():
        # The last chunk gives one token, which the overlap scheduler appends an iteration later.
        first = [0, 1] if lag else [1]
        assert counts[: len(first)] == first[: len(counts)]
        gains = [b - a for a, b in zip(counts[lag:], counts[lag + 1 :], strict=False)]
        assert all(1 <= gain <= most for gain in gains)
        # It had tokens left to generate to the end, and no more than the unread forwards gave.
        output = rows[row].output
        assert counts[-1] < output <= counts[-1] + most * (1 + lag)
    assert sorted(known) == [row for row, lengths in enumerate(rows) if lengths.output > 1]


@given(replays(most_drafts=0))
def test_without_drafts_a_request_generates_for_one_iteration_a_token(
    replay: tuple[TraceReplay, Rows],
):
    scenario, rows = replay
    batching = ContinuousBatching(scenario, rows, random.Random(0))
    iterations = dict.fromkeys(range(len(rows)), 0)

    while batching.left < len(rows):
        batching.step()
        for row in batching.generation:
            iterations[row] += 1

    # The last context chunk gives the first token.
    assert list(iterations.values()) == [max(row.output - 1, 0) for row in rows]


@pytest.mark.parametrize("draft_tokens", [1, 3])
def test_every_number_of_draft_tokens_is_accepted_at_times(draft_tokens: int):
    scenario = TraceReplay(path="/none.csv", max_batch=4, draft_tokens=draft_tokens)
    batching = ContinuousBatching(scenario, [TraceRow(8, 400)] * 4, random.Random(1))
    gains = set()
    for _ in range(50):
        before = {row: batching.known_tokens(slot) for row, slot in batching.generation.items()}
        batching.step()
        after = batching.generation
        gains |= {
            batching.known_tokens(after[row]) - count
            for row, count in before.items()
            if row in after
        }

    assert gains == set(range(1, draft_tokens + 2))


def test_requests_that_accept_alike_do_not_move_in_step():
    scenario = TraceReplay(path="/none.csv", max_batch=4, draft_tokens=3)
    batching = ContinuousBatching(scenario, [TraceRow(8, 400)] * 4, random.Random(1))
    lengths = []
    for _ in range(30):
        batching.step()
        lengths.append(tuple(map(batching.known_tokens, batching.generation.values())))

    assert len(set(lengths[-1])) > 1
