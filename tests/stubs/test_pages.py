import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stubs.pages import OutOfPagesError, PagePool


def take_all(pool: PagePool) -> list[int]:
    return [pool.take() for _ in range(len(pool))]


def test_every_slot_is_given_out_once(rng: random.Random):
    assert sorted(take_all(PagePool(100, rng))) == list(range(100))


def test_the_order_is_shuffled_and_the_seed_decides_it():
    orders = [take_all(PagePool(100, random.Random(seed))) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] not in (list(range(100)), list(range(99, -1, -1)))


def test_len_is_the_number_of_free_pages(rng: random.Random):
    pool = PagePool(3, rng)
    assert len(pool) == 3
    page = pool.take()
    assert len(pool) == 2
    pool.give_back([page])
    assert len(pool) == 3
    pool.give_back([])
    assert len(pool) == 3


@pytest.mark.parametrize("size", [0, 2])
def test_an_empty_pool_raises(rng: random.Random, size: int):
    pool = PagePool(size, rng)
    take_all(pool)
    with pytest.raises(OutOfPagesError, match=r"^the page pool is empty$"):
        pool.take()


def test_a_freed_page_is_used_again(rng: random.Random):
    pool = PagePool(3, rng)
    pages = take_all(pool)
    pool.give_back(iter(pages[:1]))
    assert pool.take() == pages[0]
    with pytest.raises(OutOfPagesError):
        pool.take()


def test_a_freed_page_waits_at_a_random_place(rng: random.Random):
    pool = PagePool(100, rng)
    pages = take_all(pool)
    pool.give_back(pages)
    again = take_all(pool)
    assert sorted(again) == sorted(pages)
    # Neither a stack nor a queue.
    assert again not in (pages, pages[::-1])


@given(
    size=st.integers(0, 12),
    seed=st.integers(0, 99),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 11)), max_size=60),
)
@settings(deadline=None)
def test_no_page_is_ever_owned_twice(size: int, seed: int, steps: list[tuple[bool, int]]):
    pool = PagePool(size, random.Random(seed))
    owned: list[int] = []
    for takes, number in steps:
        if not takes:
            given_back, owned = owned[:number], owned[number:]
            pool.give_back(given_back)
        elif len(owned) == size:
            with pytest.raises(OutOfPagesError):
                pool.take()
        else:
            page = pool.take()
            assert page not in owned
            assert 0 <= page < size
            owned.append(page)
        assert len(pool) == size - len(owned)
    assert sorted(owned + take_all(pool)) == list(range(size))
