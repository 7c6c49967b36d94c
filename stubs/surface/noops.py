"""What does nothing to what a path reports, and may so be left out where the path is measured.

Ranges for profiling, metrics that are only counted, decorators that may be the identity. A name
and where it is from decide, in one place: ``NAMES`` and ``PATHS``.
"""

from __future__ import annotations

import fnmatch
import functools
from typing import Any, Self

from .known import ENGINE
from .not_provided import USES, NotProvidedError

# Of the engine, under whatever path it has had them.
NAMES = (
    *("nvtx_range", "nvtx_range_debug", "nvtx_mark", "nvtx_mark_debug", "nvtx_pytorch_emit"),
    *("maybe_compile", "maybe_compiled_*", "print_traceback_on_error", "host_profiler_context"),
    *("logger_debug", "print_colored", "print_colored_debug", "log_once"),
)
# By dotted path, all below included.
PATHS = (
    *("nvtx", "prometheus_client", "opentelemetry"),
    *("torch.cuda.nvtx", "torch.cuda.profiler", "torch.profiler", "torch.autograd.profiler"),
    *("torch.compile", "torch.compiler.disable", "torch.compiler.allow_in_graph"),
    *("torch._dynamo.disable", "torch._dynamo.allow_in_graph", "torch.fx.wrap"),
    *(f"torch.{name}" for name in ("no_grad", "inference_mode", "enable_grad")),
    *(f"torch.autograd.{name}" for name in ("no_grad", "inference_mode", "enable_grad")),
    *("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode"),
    *(f"torch.jit.{name}" for name in ("script", "ignore", "unused", "export")),
)
# The same of the engine: folders and modules of metrics.
_METRICS = ("metrics", "*_metrics", "metrics_*", "prometheus*", "otel_tracing", "tracing")
# Questions with an answer: nothing is profiled, compiled or traced here.
_NO = (
    *("nvtx.enabled", "torch.compiler.is_compiling", "torch.compiler.is_dynamo_compiling"),
    *("torch._dynamo.is_compiling", "torch.jit.is_scripting", "torch.jit.is_tracing"),
)


@functools.cache
def noop(path: str) -> object | None:
    """Return what stands for a dotted name as one that does nothing; None where none may."""
    if path in _NO:
        return _no
    *modules, name = path.split(".")
    if modules[:1] == [ENGINE]:
        counts = any(fnmatch.fnmatchcase(one, kind) for one in modules for kind in _METRICS)
        return NoOp(path) if counts or _matches(name, NAMES) else None
    found = any(path == known or path.startswith(f"{known}.") for known in PATHS)
    return NoOp(path) if found and (modules or not name) else None


def is_noop_module(module: str) -> bool:
    """Return whether all that a module outside the engine has does nothing."""
    return any(module == known or module.startswith(f"{known}.") for known in PATHS)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _no() -> bool:
    return False


class NoOp:
    """Something that does nothing: a range, a metric, a decorator.

    A value that is read from it would be made up: whoever uses one gets NotProvidedError.

    Args:
        path: its dotted name.
        is_value: whether a call returned it, so that it may be any value.
    """

    def __init__(self, path: str, *, is_value: bool = False) -> None:
        self._path = path
        self._is_value = is_value

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Return what it is to decorate; of anything else a range, a metric or a decorator."""
        given = (*arguments[:1], *(named.get(name) for name in ("model", "func", "fn")))
        for one in given:
            if callable(one) and not isinstance(one, NoOp):
                return one
        return self._result

    @functools.cached_property
    def _result(self) -> NoOp:
        return self if self._is_value else NoOp(self._path, is_value=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    def __getattr__(self, name: str) -> NoOp:
        if name.startswith("__"):
            raise AttributeError(f"{self._path} has no attribute {name!r}")
        found = NoOp(f"{self._path}.{name}", is_value=False)
        setattr(self, name, found)
        return found

    def __bool__(self) -> bool:
        # A function or a class is true; what a call returned may be a number.
        if self._is_value:
            raise NotProvidedError(self._path, "was asked whether it is true")
        return True

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if self._is_value:
            raise NotProvidedError(self._path, "was compared")
        return False

    def __hash__(self) -> int:
        return id(self)

    def __or__(self, _other: object) -> Any:  # noqa: ANN401
        return Any  # In an annotation, which nobody reads.

    __ror__ = __or__

    def __getitem__(self, _item: object) -> NoOp:
        return self

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, NoOp)

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        # Late: placeholders look for no-ops first.
        from .placeholders import placeholder

        return (placeholder(self._path),)

    def __repr__(self) -> str:
        return f"<{self._path}, which does nothing here>"


def _refusing(use: str) -> Any:  # noqa: ANN401
    def refuse(self: NoOp, *_arguments: object) -> None:
        raise NotProvidedError(self._path, use)

    return refuse


for _use, _names in USES.items():
    for _name in _names:
        if f"__{_name}__" not in vars(NoOp):
            setattr(NoOp, f"__{_name}__", _refusing(_use))
