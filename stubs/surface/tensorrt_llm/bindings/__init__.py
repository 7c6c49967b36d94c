"""Stands for ``tensorrt_llm.bindings``: the states that the measured path tells apart."""

from connector.interfaces import LlmRequestState

from ...placeholders import missing_names

__all__ = ["LlmRequestState"]
__getattr__ = missing_names(__name__)
