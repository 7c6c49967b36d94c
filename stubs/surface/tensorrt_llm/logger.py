"""Stands for ``tensorrt_llm.logger``."""

from ..logger import Logger, logger
from ..placeholders import missing_names

__all__ = ["Logger", "logger"]
__getattr__ = missing_names(__name__)
