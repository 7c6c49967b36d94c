"""How a worker tells what is wrong with a user's own function, and how that is read.

Of the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from stepbench_core.errors import ArmError, InputError, NotImportableError

Answer = dict[str, Any]


def with_errors(work: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return what a worker does, with an answer in place of an error of the user's code."""

    @wraps(work)
    def answered(*arguments: Any) -> Answer:  # noqa: ANN401
        try:
            return work(*arguments)
        except ArmError as error:
            return {"failed": str(error), "trace": error.trace}
        except NotImportableError as error:
            return {"refused": str(error), "trace": error.trace}
        except InputError as error:
            return {"refused": str(error)}

    return answered


def checked(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an answer. Raises the error that it tells of, if any."""
    trace = answer.get("trace")
    if "failed" in answer:
        raise ArmError(answer["failed"], trace or "")
    if "refused" in answer:
        message = answer["refused"]
        raise InputError(message) if trace is None else NotImportableError(message, trace)
    return answer
