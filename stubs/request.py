"""Stand-in for the native ``LlmRequest``.

Tokens live in ``array('i')``, so that handing them to Python builds one int a token, as the
binding of a ``std::vector<int32_t>`` does. The semantics are those of the C++ class
``GenericLlmRequest`` of TensorRT-LLM and of its binding.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast, overload

from connector import interfaces
from connector.interfaces import LlmRequestState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_PRIORITY = 35
# Keeps a mistaken number from taking the memory.
MAX_BEAM_WIDTH = 1024

# A tuple: a set would hash the state, which runs Python code that native code does not.
CONTEXT_STATES = (
    LlmRequestState.CONTEXT_INIT,
    LlmRequestState.DISAGG_GENERATION_TRANS_IN_PROGRESS,
)

# What get_tokens gets where no beam is named. Upstream has an overload for it: None is no beam.
_ALL_BEAMS = cast("int", object())


@dataclass
class TokenRangeRetention:
    """Retention priority of the prompt tokens ``[begin, end)``; no end means the whole rest."""

    begin: int
    end: int | None
    priority: int


@dataclass
class KvCacheRetentionConfig:
    """How long the blocks of a request should stay in the cache, by priority 0 to 100."""

    ranges: list[TokenRangeRetention] = field(default_factory=list)
    decode_priority: int = DEFAULT_PRIORITY

    def copy(self) -> KvCacheRetentionConfig:
        """Return a config that shares nothing with this one."""
        ranges = [TokenRangeRetention(r.begin, r.end, r.priority) for r in self.ranges]
        return KvCacheRetentionConfig(ranges, self.decode_priority)

    def priority_at(self, position: int, prompt_length: int) -> int:
        """Return the priority of the block whose first token is at ``position``."""
        if position >= prompt_length:
            return self.decode_priority
        for span in self.ranges:
            if span.begin <= position and (span.end is None or position < span.end):
                return span.priority
        return DEFAULT_PRIORITY


class LlmRequest:
    """One request with its tokens.

    Args:
        request_id: the engine's id.
        prompt: token ids of the prompt; every beam starts from a copy.
        beam_width: number of beams, 1 to 1024.
        draft_tokens: draft tokens scheduled with the request, or None.
        retention_config: the retention config, or None.
        cache_salt: the salt of the request's cached prefix, or None.
        is_dummy_request: whether the request only pads the batch of a rank.

    Raises:
        ValueError: the prompt is empty or ``beam_width`` is out of range.
        OverflowError: a token is no int32.
    """

    def __init__(
        self,
        request_id: int,
        prompt: Iterable[int],
        *,
        beam_width: int = 1,
        draft_tokens: Sequence[int] | None = None,
        retention_config: KvCacheRetentionConfig | None = None,
        cache_salt: str | None = None,
        is_dummy_request: bool = False,
    ) -> None:
        if beam_width < 1:
            raise ValueError(f"beam_width must be at least 1, not {beam_width}")
        if beam_width > MAX_BEAM_WIDTH:
            raise ValueError(f"beam_width must be at most {MAX_BEAM_WIDTH}, not {beam_width}")
        tokens = array("i", prompt)
        if not tokens:
            raise ValueError("a request needs at least one prompt token")
        self.request_id = request_id
        self.state = LlmRequestState.CONTEXT_INIT
        self.is_dummy_request = is_dummy_request
        self.cache_salt = cache_salt
        self.py_draft_tokens = draft_tokens
        self.prompt_len = len(tokens)
        self.context_current_position = 0
        self._beams = [tokens, *(tokens[:] for _ in range(beam_width - 1))]
        self._retention_config = retention_config.copy() if retention_config else None
        self._chunk_size = self.prompt_len

    # Tokens

    def get_num_tokens(self, beam: int) -> int:
        """Return the length of a beam. Raises IndexError for a bad beam."""
        return len(self._beam(beam))

    @overload
    def get_tokens(self, beam: int) -> list[int]: ...
    @overload
    def get_tokens(self) -> list[list[int]]: ...
    def get_tokens(self, beam: int = _ALL_BEAMS) -> list[int] | list[list[int]]:
        """Return a whole beam, or all beams without an argument, as new lists.

        Raises IndexError for a bad beam.
        """
        if beam is _ALL_BEAMS:
            return [tokens.tolist() for tokens in self._beams]
        return self._beam(beam).tolist()

    def get_token(self, beam: int, pos: int) -> int:
        """Return one token. Raises IndexError for a bad beam or a position out of range."""
        tokens = self._beam(beam)
        if not 0 <= pos < len(tokens):
            raise IndexError(f"position {pos} is outside [0, {len(tokens)})")
        return tokens[pos]

    def get_tokens_range(self, beam: int, begin: int, end: int) -> list[int]:
        """Return the window ``[begin, end)`` as a new list, clamped in upstream's order.

        A negative bound is 0 and not counted from the end; a reversed range is empty. Raises
        IndexError for a bad beam.
        """
        tokens = self._beam(beam)
        n = len(tokens)
        if begin < 0:
            begin = 0
        if begin > n:
            begin = n
        if end < begin:
            end = begin
        if end > n:
            end = n
        return tokens[begin:end].tolist()

    def tokens_after(self, begin: int) -> tuple[int, list[int]]:
        """Return the length of the first beam, and its tokens from ``begin`` on as a new list.

        No call of upstream's: the stand-ins' managers read tokens this way, as native code does,
        without the binding's checks. A negative ``begin`` is 0.
        """
        tokens = self._beams[0]
        if begin < 0:
            begin = 0
        return len(tokens), tokens[begin:].tolist()

    def get_tokens_view(self, beam: int) -> NDArray[np.int32]:
        """Return a read-only int32 view without a copy; do not use it after ``add_new_token``.

        Raises IndexError for a bad beam.
        """
        import numpy as np  # Only here: a measuring process should not pay for the import.

        return np.frombuffer(memoryview(self._beam(beam)).toreadonly(), dtype=np.int32)

    def add_new_token(self, token: int, beam: int) -> None:
        """Append a token to a beam. Raises IndexError for a bad beam."""
        tokens = self._beam(beam)
        try:
            tokens.append(token)
        except BufferError:
            # A view pins its array, as it would not pin a std::vector: grow a copy instead, which
            # leaves the view stale but never dangling.
            self._beams[beam] = grown = tokens[:]
            grown.append(token)

    def pause(self, max_input_len: int) -> None:
        """Take the request back to its context phase, with what it generated as part of the prompt.

        With one beam the sequence is cut to ``max_input_len`` if it is longer, and becomes the new
        prompt. With several, whose histories differ, the beams are cut back to the old prompt.

        Raises:
            ValueError: ``max_input_len`` is not positive.
        """
        if max_input_len < 1:
            raise ValueError(f"max_input_len must be at least 1, not {max_input_len}")
        length = self.prompt_len
        if len(self._beams) == 1:
            length = min(max_input_len, len(self._beams[0]))
        # New arrays, since a view would pin the old ones.
        self._beams = [tokens[:length] for tokens in self._beams]
        self.prompt_len = length
        self.context_current_position = 0
        self._chunk_size = length
        self.state = LlmRequestState.CONTEXT_INIT

    # Context phase

    @property
    def context_remaining_length(self) -> int:
        """Prompt tokens that are not computed yet."""
        return self.prompt_len - self.context_current_position

    @property
    def context_chunk_size(self) -> int:
        """Prompt tokens of the current chunk.

        Raises RuntimeError outside a context-type state. Setting it clamps to what remains.
        """
        if self.state not in CONTEXT_STATES:
            raise RuntimeError(f"context_chunk_size is undefined in state {self.state.name}")
        return self._chunk_size

    @context_chunk_size.setter
    def context_chunk_size(self, size: int) -> None:
        if self.state not in CONTEXT_STATES:
            raise RuntimeError(f"context_chunk_size cannot be set in state {self.state.name}")
        if size < 0:
            raise ValueError(f"context_chunk_size must not be negative, not {size}")
        self._chunk_size = min(size, self.context_remaining_length)

    def move_to_next_context_chunk(self) -> None:
        """Count the current chunk as computed. The next chunk has no size until it is set."""
        self.context_current_position += self.context_chunk_size
        self._chunk_size = 0

    # Retention

    @property
    def kv_cache_retention_config(self) -> KvCacheRetentionConfig | None:
        """The retention config by value: a copy at each access."""
        config = self._retention_config
        return None if config is None else config.copy()

    def _beam(self, beam: int) -> array[int]:
        if beam < 0:  # std::vector::at takes an unsigned index: no counting from the end.
            raise IndexError(f"beam {beam} is outside [0, {len(self._beams)})")
        try:
            return self._beams[beam]
        except IndexError:
            raise IndexError(f"beam {beam} is outside [0, {len(self._beams)})") from None


def own(requests: Sequence[interfaces.LlmRequest]) -> Sequence[LlmRequest]:
    """Return ``requests`` as what they are where a native manager gets them: native requests."""
    return requests  # type: ignore[return-value]
