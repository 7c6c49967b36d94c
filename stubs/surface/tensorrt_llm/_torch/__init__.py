"""Stands for the package ``tensorrt_llm._torch``."""

from ...placeholders import missing_names

__getattr__ = missing_names(__name__)
