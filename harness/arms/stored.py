"""The source of an arm as a file of results holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.system.documents import text

from .sources import ArmSource


def read_source(record: Mapping[str, Any]) -> ArmSource:
    """Return the arm that a file holds; raises ValueError where one of its texts is none."""
    return ArmSource(**{name: text(value) for name, value in record.items()})
