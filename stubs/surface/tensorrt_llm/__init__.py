"""Stands for the package ``tensorrt_llm``, whose ``logger`` is the logger and not its module."""

from ..placeholders import missing_names
from .logger import logger

__all__ = ["logger"]
__getattr__ = missing_names(__name__)
