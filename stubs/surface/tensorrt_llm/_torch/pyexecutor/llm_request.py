"""Stands for ``tensorrt_llm._torch.pyexecutor.llm_request``."""

from connector.interfaces import LlmRequest, LlmRequestState, get_draft_token_length

from ....placeholders import missing_names

__all__ = ["LlmRequest", "LlmRequestState", "get_draft_token_length"]
__getattr__ = missing_names(__name__)
