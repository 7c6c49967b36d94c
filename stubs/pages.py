"""The page pool that both managers allocate from."""

import random
from collections.abc import Iterable


def check_tokens_per_block(tokens_per_block: int) -> None:
    """Raise ValueError for a block that holds no token."""
    if tokens_per_block < 1:
        raise ValueError(f"tokens_per_block must be at least 1, not {tokens_per_block}")


def count_blocks(capacity: int, tokens_per_block: int) -> int:
    """Return how many blocks hold ``capacity`` tokens. Raises ValueError for less than none."""
    if capacity < 0:
        raise ValueError(f"capacity must not be negative, not {capacity}")
    return -(-capacity // tokens_per_block)


class OutOfPagesError(RuntimeError):
    """The pool has no page left."""


class PagePool:
    """Free pages in shuffled order, so that a slot number says nothing about a block's ordinal.

    Args:
        size: number of pages; the slots are 0 to ``size - 1``.
        rng: shuffles the slots, and decides where a freed page waits for its next owner.
    """

    def __init__(self, size: int, rng: random.Random) -> None:
        self._rng = rng
        self._free = list(range(size))
        rng.shuffle(self._free)

    def __len__(self) -> int:
        """Return the number of free pages."""
        return len(self._free)

    def take(self) -> int:
        """Return a page that nobody owns. Raises OutOfPagesError when there is none."""
        if not self._free:
            raise OutOfPagesError("the page pool is empty")
        return self._free.pop()

    def give_back(self, pages: Iterable[int]) -> None:
        """Free ``pages``, each at a random place among the free ones."""
        for page in pages:
            self._free.append(page)
            other = self._rng.randrange(len(self._free))
            self._free[-1], self._free[other] = self._free[other], self._free[-1]
