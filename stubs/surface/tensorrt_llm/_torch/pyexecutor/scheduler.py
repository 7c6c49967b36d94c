"""Stands for ``tensorrt_llm._torch.pyexecutor.scheduler``."""

from connector.interfaces import ScheduledRequests

from ....placeholders import missing_names

__all__ = ["ScheduledRequests"]
__getattr__ = missing_names(__name__)
