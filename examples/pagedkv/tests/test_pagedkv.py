"""The block pool and the scheduler."""

import random

import pytest

from pagedkv import BlockPool, OutOfBlocksError, Request, Scheduler


def play(scheduler: Scheduler, steps: int) -> list:
    outputs = []
    for _ in range(steps):
        output = scheduler.schedule()
        outputs.append(output)
        scheduler.update(dict.fromkeys(output.tokens, 7))
    return outputs


def test_a_prompt_is_computed_in_chunks_and_then_token_by_token():
    scheduler = Scheduler(BlockPool(8, size=4), budget=6)
    scheduler.add(Request("a", list(range(10)), limit=3))

    outputs = play(scheduler, 5)

    assert [output.tokens for output in outputs] == [{"a": 6}, {"a": 4}, {"a": 1}, {"a": 1}, {}]
    assert outputs[-1].finished == ["a"]


def test_the_same_beginning_is_computed_once():
    scheduler = Scheduler(BlockPool(8, size=4))
    scheduler.add(Request("a", list(range(10)), limit=1))
    play(scheduler, 1)
    scheduler.add(Request("b", [*range(8), 99, 98], limit=1))

    (output,) = play(scheduler, 1)

    assert (output.cached, output.tokens) == ({"b": 8}, {"b": 2})


def test_the_last_to_join_gives_its_blocks_and_joins_again():
    scheduler = Scheduler(BlockPool(4, size=4))
    scheduler.add(Request("a", list(range(7)), limit=4))
    scheduler.add(Request("b", list(range(50, 57)), limit=6))

    outputs = play(scheduler, 14)

    assert ["b"] in [output.preempted for output in outputs]
    finished = [name for output in outputs for name in output.finished]
    assert sorted(finished) == ["a", "b"]


def test_no_block_is_lost_nor_held_twice():
    rng = random.Random(5)
    pool = BlockPool(24, size=4)
    scheduler = Scheduler(pool, budget=16, batch=4)
    for number in range(30):
        prompt = [rng.randrange(3) for _ in range(rng.randrange(1, 20))]
        scheduler.add(Request(f"r{number}", prompt, limit=rng.randrange(1, 8)))

    outputs = play(scheduler, 400)

    assert sorted(name for output in outputs for name in output.finished) == sorted(
        f"r{number}" for number in range(30)
    )
    assert pool.available == 24


def test_more_blocks_than_there_are():
    pool = BlockPool(2, size=4)

    with pytest.raises(OutOfBlocksError, match="a needs 3, 2 are free"):
        pool.grow(Request("a", [1], limit=1), 9)
