"""The block hash that all providers share: known values, and what it tells apart."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stubs.block_hash import hash_block
from stubs.providers import Provider

INT32 = st.integers(-(2**31), 2**31 - 1)
UINT64 = st.integers(0, 2**64 - 1)
BLOCKS = st.lists(INT32, min_size=1, max_size=40)

# From a few lines of C that share nothing with the stand-ins.
KNOWN = [
    ([0], 0x68853B6A3912CCA3),
    ([1, 2, 3, 4], 0xDEA73F27E70A588D),
    ([-1, 2**31 - 1, -(2**31)], 0x71E2F2D488532B7F),
]


@pytest.mark.parametrize(("tokens", "expected"), KNOWN)
def test_known_values(provider: Provider, tokens: list[int], expected: int):
    manager = provider.KVCacheManager(1, tokens_per_block=len(tokens), rng=random.Random(1))
    request = provider.LlmRequest(1, tokens)
    manager.resize(request, len(tokens))
    assert manager.commit_and_get_block_hashes(request) == [expected]


def test_the_parent_is_hashed_first():
    assert hash_block(2**64 - 1, [1, 2, 3, 4]) == 0x3759F2AB84243132
    assert hash_block(0, [1, 2, 3, 4]) == KNOWN[1][1]


@given(parent=UINT64, tokens=BLOCKS)
def test_a_hash_has_64_bits(parent: int, tokens: list[int]):
    assert 0 <= hash_block(parent, tokens) < 2**64


@given(parent=UINT64, tokens=BLOCKS, data=st.data())
def test_another_token_gives_another_hash(parent: int, tokens: list[int], data: st.DataObject):
    changed = tokens.copy()
    position = data.draw(st.integers(0, len(tokens) - 1))
    changed[position] = data.draw(INT32.filter(lambda token: token != tokens[position]))
    assert hash_block(parent, changed) != hash_block(parent, tokens)


@given(parent=UINT64, other=UINT64, tokens=BLOCKS)
def test_another_parent_gives_another_hash(parent: int, other: int, tokens: list[int]):
    assert (hash_block(other, tokens) == hash_block(parent, tokens)) == (other == parent)


def test_no_two_of_many_blocks_share_a_hash():
    rng = random.Random(1)
    blocks = {tuple(rng.randrange(50_000) for _ in range(4)) for _ in range(20_000)}
    hashes = {hash_block(0, block) for block in blocks}
    assert len(hashes) == len(blocks)
    # High and low bits alike: a hash table takes some of them.
    for shift in (0, 48):
        assert len({hash_ >> shift & 0xFFFF for hash_ in hashes}) > 2**16 * 0.2
