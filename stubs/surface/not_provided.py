"""The error of whatever is used that nothing stands in for, and who is told of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

# Enough to say what was missing; an arm that tries again at every call would fill the memory.
_MOST = 100
_told: list[list[NotProvidedError]] = []


class NotProvidedError(NotImplementedError):
    """Something was used that only stands for what an engine has.

    Attributes:
        path: its dotted name, such as ``torch.zeros``.
    """

    def __init__(self, path: str, use: str = "was called") -> None:
        super().__init__(path, use)
        self.path = path
        for errors in _told:
            if len(errors) < _MOST:
                errors.append(self)

    def __str__(self) -> str:
        """Return what was used, and how."""
        path, use = self.args
        return f"{path} is a placeholder here, and {use}"


@contextlib.contextmanager
def noting_uses() -> Iterator[list[NotProvidedError]]:
    """Yield a list that gets the errors raised from here on, also those that the code catches."""
    errors: list[NotProvidedError] = []
    _told.append(errors)
    try:
        yield errors
    finally:
        # By identity: two lists that are equal are two listeners.
        _told[:] = [one for one in _told if one is not errors]


# What may be done to a value, by the methods in which Python asks for it. Not ``|``, which stands
# in annotations, nor what tells two values apart or names them: those have their own answers.
USES = {
    "was iterated": ("iter", "next", "aiter", "anext", "reversed"),
    "was entered by `with`": ("enter", "exit", "aenter", "aexit"),
    "was awaited": ("await",),
    "was compared": ("lt", "le", "gt", "ge"),
    "was asked what it holds": ("contains", "len", "length_hint", "setitem", "delitem"),
    "was used as a number": (
        *("index", "int", "float", "complex", "round", "trunc", "floor", "ceil"),
        *("neg", "pos", "abs", "invert"),
        *(
            f"{side}{name}"
            for side in ("", "r", "i")
            for name in (
                *("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow"),
                *("lshift", "rshift", "and", "xor"),
            )
        ),
    ),
    "was used as bytes or a path": ("bytes", "fspath", "buffer"),
    "was formatted": ("format", "str"),
}
