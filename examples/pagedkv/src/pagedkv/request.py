"""A request: its tokens, and what of them is computed."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class Request:
    """A request on its way through the scheduler.

    Attributes:
        name: tells it from others.
        tokens: its prompt, and what was generated so far.
        limit: how many tokens it generates at most.
        prompt: how many of the tokens are the prompt's.
        computed: how many of the tokens the cache holds.
        blocks: the blocks that hold them, in order.
        hashes: the chained hash of each full block of its tokens that was asked for.
    """

    name: str
    tokens: list[int]
    limit: int
    prompt: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Note how long the prompt is."""
        self.prompt = self.prompt or len(self.tokens)

    @property
    def generated(self) -> int:
        """How many tokens were generated."""
        return len(self.tokens) - self.prompt

    @property
    def is_done(self) -> bool:
        """Whether it generates no more."""
        return self.generated >= self.limit

    def hash_of(self, block: int, size: int) -> int:
        """Return the chained hash of a full block: that of its tokens and all before them."""
        while len(self.hashes) <= block:
            begin = len(self.hashes) * size
            before = self.hashes[-1] if self.hashes else 0
            self.hashes.append(hash((before, *self.tokens[begin : begin + size])))
        return self.hashes[block]
