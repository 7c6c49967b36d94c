"""The provider ``tensorrt_llm``: the engine's own native request, with the managers in Python.

This has never been run: it is written from the bindings' source and tested against a fake of them.
The engine's KV cache managers allocate GPU memory, so those of the provider ``python`` stand in for
them. An engine without ``get_tokens_range`` (before pull request #22092) can play ``full-copy``
alone.
"""

from collections.abc import Iterable, Sequence

from tensorrt_llm.bindings import LlmRequestState as EngineState
from tensorrt_llm.bindings import SamplingConfig
from tensorrt_llm.bindings.internal.batch_manager import LlmRequest as EngineRequest

from connector.interfaces import LlmRequestState

from .request import KvCacheRetentionConfig

# Longer than any sequence of a scenario gets.
_MAX_NEW_TOKENS = 2**20


class LlmRequest(EngineRequest):  # type: ignore[misc]
    """The engine's request with the constructor of ``stubs/request.py``.

    Two attributes differ from what the engine does: ``state`` is translated into the members that
    the arms know, which costs a Python call, and the retention config is the stand-in's.
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
        super().__init__(
            request_id=request_id,
            max_new_tokens=_MAX_NEW_TOKENS,
            input_tokens=list(prompt),
            sampling_config=SamplingConfig(beam_width),
            is_streaming=False,
        )
        self.is_dummy_request = is_dummy_request
        self.cache_salt = cache_salt
        self.py_draft_tokens = draft_tokens
        self._retention_config = retention_config.copy() if retention_config else None

    @property
    def state(self) -> LlmRequestState:
        """The state, as the member that the arms know."""
        return LlmRequestState[super().state.name]

    @state.setter
    def state(self, state: LlmRequestState) -> None:
        EngineRequest.state.fset(self, EngineState[state.name])

    @property
    def kv_cache_retention_config(self) -> KvCacheRetentionConfig | None:
        """The retention config by value: a copy at each access."""
        config = self._retention_config
        return None if config is None else config.copy()

    def tokens_after(self, begin: int) -> tuple[int, list[int]]:
        """Return the length of the first beam, and its tokens from ``begin`` on as a new list."""
        length = self.get_num_tokens(0)
        return length, self.get_tokens_range(0, begin, length)
