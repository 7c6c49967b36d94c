"""A paged KV-cache block manager with a continuous-batching scheduler."""

from .pool import BlockPool, OutOfBlocksError
from .request import Request
from .scheduler import Output, Scheduler

__all__ = ["BlockPool", "OutOfBlocksError", "Output", "Request", "Scheduler"]
