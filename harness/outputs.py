"""What is in an output, whatever type a revision makes of it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any

from connector.data import SchedulerOutput

# The fields of an output that hold what it says of requests, one entry a request.
REQUESTS = ("new_requests", "cached_requests")


def field_names(value: object) -> Sequence[str]:
    """Return the fields of an output, or of what it says of a request."""
    kind: Any = type(value)  # Which is hashable, though mypy does not take it for that.
    return _declared(kind) or list(getattr(value, "__dict__", ()))


@functools.cache
def _declared(kind: Hashable) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    named: tuple[str, ...] = getattr(kind, "_fields", ())  # Of a named tuple.
    return named


def comparable(value: object) -> object:
    """Return a value, or of an array, which compares number by number, the numbers."""
    to_list = getattr(value, "tolist", None)
    return value if to_list is None else ("array", to_list())


def overwrite(output: SchedulerOutput) -> None:
    """Change all lists of an output, as a consumer may do."""
    for data in output.new_requests + output.cached_requests:
        for name in field_names(data):
            values = getattr(data, name)
            if not isinstance(values, list):
                continue
            is_by_group = values and isinstance(values[0], list)
            for each in values if is_by_group else (values,):
                each[:] = [-99] * (len(each) + 1)
    output.new_requests.clear()
    output.cached_requests.clear()
