"""The blocks of a cache: who holds them, and which can be found again by their content."""

from __future__ import annotations

from collections import OrderedDict

from .request import Request


class OutOfBlocksError(Exception):
    """There are not as many blocks as are asked for."""


class BlockPool:
    """Blocks of a fixed size, counted by their holders.

    A block that nobody holds stays what it is until it is needed: a request that begins with the
    same tokens takes it over.

    Args:
        count: number of blocks.
        size: tokens in a block.
    """

    def __init__(self, count: int, size: int = 16) -> None:
        self.size = size
        self._holders = [0] * count
        # Blocks that nobody holds, those first that were used longest ago.
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))
        self._by_hash: dict[int, int] = {}
        self._hash_of: dict[int, int] = {}

    @property
    def available(self) -> int:
        """How many blocks nobody holds."""
        return len(self._free)

    def missing(self, request: Request, tokens: int) -> int:
        """Return how many blocks a request needs to hold so many tokens, beyond its own."""
        return max(0, -(-tokens // self.size) - len(request.blocks))

    def take_over(self, request: Request) -> int:
        """Give a new request the blocks that hold the beginning of its prompt; return how many.

        The last token is always left to be computed: the forward has to have something to do.
        """
        for block in range((len(request.tokens) - 1) // self.size):
            found = self._by_hash.get(request.hash_of(block, self.size))
            if found is None:
                break
            self._hold(found)
            request.blocks.append(found)
        request.computed = len(request.blocks) * self.size
        return len(request.blocks)

    def grow(self, request: Request, tokens: int) -> list[int]:
        """Give a request the blocks that it needs to hold so many tokens; return the new ones.

        Raises:
            OutOfBlocksError: there are not as many; it has none more than before.
        """
        count = self.missing(request, tokens)
        if count > len(self._free):
            raise OutOfBlocksError(f"{request.name} needs {count}, {len(self._free)} are free")
        new = [self._fresh() for _ in range(count)]
        request.blocks.extend(new)
        return new

    def publish(self, request: Request, before: int) -> None:
        """Let others find the blocks that became full since so many tokens were computed."""
        for block in range(before // self.size, request.computed // self.size):
            own = request.blocks[block]
            if own not in self._hash_of:
                content = request.hash_of(block, self.size)
                if content not in self._by_hash:
                    self._by_hash[content] = own
                    self._hash_of[own] = content

    def release(self, request: Request) -> None:
        """Take a request's blocks back, the last first: its beginning is worth most to others."""
        for block in reversed(request.blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._free[block] = None
        request.blocks.clear()
        request.computed = 0

    def _hold(self, block: int) -> None:
        if not self._holders[block]:
            del self._free[block]
        self._holders[block] += 1

    def _fresh(self) -> int:
        """Return a block that nobody holds, whose content is forgotten."""
        block, _ = self._free.popitem(last=False)
        content = self._hash_of.pop(block, None)
        if content is not None:
            del self._by_hash[content]
        self._holders[block] = 1
        return block
