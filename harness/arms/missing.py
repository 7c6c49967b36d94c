"""What an arm met that is not here: what no stand-in has is never the author's mistake."""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

from stepbench_core.errors import Missing, NotRunnableError
from stubs import batch, kv_cache_v1, kv_cache_v2, request
from stubs.surface.not_provided import NotProvidedError, noting_uses
from stubs.surface.placeholders import is_placeholder, placeholder_of

from .linking import SURFACE, UNINSTALLABLE

_STAND_INS = ("stubs", "stepbench_native")
_INTERFACES = "connector.interfaces"
# The stand-ins' own code, and what of it looks up an arm's attributes.
_FOLDER = str(Path(request.__file__).parent)
_LOOKED_UP = tuple(str(Path(_FOLDER, name)) for name in ("counting.py", "surface"))
_CLASSES = {
    each.__name__: each
    for each in (
        *(request.LlmRequest, kv_cache_v1.KVCacheManager, kv_cache_v2.KVCacheManagerV2),
        *(batch.ScheduledRequests, batch.AsyncRequests),
    )
}
# That a call of a stand-in does not take so many arguments, or not of this name; one that is
# missing or of a wrong type is the caller's mistake.
_OTHER_ARGUMENTS = re.compile(
    r"(\w+)\.(\w+)\(\) (?:got an unexpected keyword argument|takes .* but \d+ w)"
)
_NATIVE_ARGUMENTS = re.compile(
    r"(\w+)\(\): incompatible function arguments"
    r".*Invoked with types: (?:stepbench_native|stubs)[\w.]*\.(\w+), kwargs = ",
    re.DOTALL,
)
# An attribute that is set on a native stand-in: the error does not say of what.
_NO_ATTRIBUTE = re.compile(r"'(\w+)' object has no attribute '(\w+)'")
# What Python says where it is C code that refuses a placeholder.
_REFUSED = re.compile(r"_Placeholder|BaseException|metaclass conflict|lay-out conflict|\bMRO\b")
_DISTRIBUTIONS = {"attr": "attrs", "yaml": "pyyaml", "google": "protobuf", "PIL": "pillow"}
# How long to wait for what an arm's threads still do, in seconds.
_PATIENCE = 0.2


def not_runnable(error: BaseException, arms: Mapping[str, str | None]) -> NotRunnableError | None:
    """Return the error for what is not here, if that is what an error comes of; else None.

    Also where something else was raised on the way, as in a handler.

    Args:
        error: what was raised.
        arms: the file of each arm that may have raised it; None where it is not known. The first
            whose file is on the way is named.
    """
    for one in _chain(error):
        if isinstance(one, NotRunnableError):
            return one
        uses, library = _uses(one)
        if uses:
            found = [(arm, file, _line(one.__traceback__, file)) for arm, file in arms.items()]
            arm, file, line = next((place for place in found if place[2]), found[0])
            return NotRunnableError(Missing(arm, uses, file or "", line, library))
    return None


@contextlib.contextmanager
def refusing(arms: Mapping[str, str | None]) -> Iterator[None]:
    """Raise NotRunnableError in place of what comes of something that is not here.

    Args:
        arms: as for ``not_runnable``.
    """
    try:
        yield
    except Exception as error:
        refused = not_runnable(error, arms)
        if refused is None or refused is error:
            raise
        raise refused from error


def refuse_uncaught(arms: Mapping[str, str | None]) -> None:
    """Have a process that ends for something that is not here say so in its last line.

    Args:
        arms: as for ``not_runnable``.
    """

    def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        refused = not_runnable(error, arms)
        if refused is None:
            sys.__excepthook__(kind, error, trace)
        else:
            sys.__excepthook__(type(refused), refused, None)

    sys.excepthook = say


# What a file met when it was imported, and went on without: it is imported once, and by itself.
_met_at_import: dict[str, list[NotProvidedError]] = {}


@contextlib.contextmanager
def noting_import(file: str) -> Iterator[None]:
    """Note what the module of a file meets within that is not here, also what it catches."""
    with noting_uses() as errors:
        yield
    _met_at_import[file] = errors


class Watch:
    """What arms met that is not here and did not tell: what they caught, or a thread died of.

    Args:
        errors: what was raised, as it comes.
    """

    def __init__(self, errors: list[NotProvidedError]) -> None:
        self._errors = errors
        self._deaths: list[BaseException] = []
        self._threads = set(threading.enumerate())

    def check(self, arm: str, file: str | None, error: object = None) -> None:
        """Raise NotRunnableError if an error, or the death of a thread, comes of such a thing.

        Args:
            arm: the arm.
            file: its file.
            error: what it raised, if that is an exception.
        """
        deaths = [death for death in self._deaths if _is_of(death, file) or _is_named(death, file)]
        for one in (error, *deaths):
            if isinstance(one, BaseException):
                refused = not_runnable(one, {arm: file})
                if refused is not None:
                    raise refused from one

    def check_difference(self, arm: str, file: str | None) -> None:
        """Raise NotRunnableError if an arm that differs went another way for such a thing."""
        met = [error for error in self._errors if _is_of(error, file)]
        for error in [*met, *_met_at_import.get(file or "", ())]:
            refused = not_runnable(error, {arm: file})
            if refused is not None:
                raise refused

    def wait(self) -> None:
        """Let threads that were started since then come to their end, if they soon do."""
        end = time.monotonic() + _PATIENCE
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def died(self, arguments: threading.ExceptHookArgs, otherwise: Callable[..., object]) -> None:
        """Take in what a thread died of."""
        error = arguments.exc_value
        if error is not None and not_runnable(error, {"": None}) is not None:
            self._deaths.append(error)
        else:
            otherwise(arguments)


@contextlib.contextmanager
def watching() -> Iterator[Watch]:
    """Watch what arms meet from here on."""
    before = threading.excepthook
    with noting_uses() as errors:
        watch = Watch(errors)
        threading.excepthook = lambda arguments: watch.died(arguments, before)
        try:
            yield watch
        finally:
            threading.excepthook = before


def is_stand_in(value: object) -> bool:
    """Return whether a value, or the class that it is, stands for something of the engine's."""
    if isinstance(value, ModuleType):
        return value.__name__.startswith(f"{SURFACE}.")
    return any(
        base.__module__.partition(".")[0] in _STAND_INS or base.__module__ == _INTERFACES
        for base in _class_of(value).__mro__
    )


def _class_of(value: object) -> type:
    """Return the class that a value is or is of; of what ``super()`` returns, its instance's."""
    if isinstance(value, super):
        value = getattr(value, "__self_class__", value)
    return value if isinstance(value, type) else type(value)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that led to it, the latest first."""
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        more = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting += [each for each in (*more, one.__cause__, one.__context__) if each is not None]


def _uses(error: BaseException) -> tuple[str, str]:
    """Return what is not here that an error is about, and the library it is of; else nothing."""
    if isinstance(error, NotProvidedError):
        return error.path, _library(error.path)
    if isinstance(error, ModuleNotFoundError) and error.name:
        name = error.name.removeprefix(f"{SURFACE}.")
        return (name, _library(name)) if not _is_here(name) else ("", "")
    if isinstance(error, NameError):
        return _starred(error), ""
    if isinstance(error, AttributeError):
        return _attribute(error), ""
    if isinstance(error, TypeError):
        return _arguments(error) or _operand(error), ""
    return "", ""


def _starred(error: NameError) -> str:
    """Return the name that a star import of an engine's module may have brought; else nothing."""
    last = _innermost(error.__traceback__)
    if last is None or not error.name:
        return ""
    lines = linecache.getlines(last.f_code.co_filename, last.f_globals)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                module = node.module or ""
                if module.partition(".")[0] in UNINSTALLABLE:
                    return f"{module}.{error.name}"
    return ""


def _library(path: str) -> str:
    """Return the library that a dotted name is of, if it can be installed."""
    root = path.partition(".")[0]
    if root in UNINSTALLABLE or root in _CLASSES:
        return ""
    return _DISTRIBUTIONS.get(root, root)


def _is_here(module: str) -> bool:
    return module.partition(".")[0] in {*sys.stdlib_module_names, "connector", *_STAND_INS}


def _attribute(error: AttributeError) -> str:
    """Return the attribute of a stand-in that an error is about; empty for anything else."""
    last = _innermost(error.__traceback__)
    if last is None or _is_own(last):
        return ""
    owner, name = error.obj, error.name
    if name is None:
        found = _NO_ATTRIBUTE.search(str(error))
        is_known = found is not None and found[1] in _CLASSES
        return f"{found[1]}.{found[2]}" if found is not None and is_known else ""
    if not is_stand_in(owner):
        return ""
    if isinstance(owner, ModuleType):
        return f"{owner.__name__.removeprefix(f'{SURFACE}.')}.{name}"
    kind = _class_of(owner)
    engine = (base.__name__ for base in kind.__mro__ if base.__name__ in _CLASSES)
    return f"{placeholder_of(kind) or next(engine, kind.__name__)}.{name}"


def _is_own(frame: FrameType) -> bool:
    """Return whether the code is the stand-ins', where what an arm broke comes to light."""
    file = frame.f_code.co_filename
    return file.startswith(_FOLDER) and not file.startswith(_LOOKED_UP)


def _arguments(error: TypeError) -> str:
    """Return the call of a stand-in that takes other arguments than an engine's may."""
    words = str(error)
    found = _OTHER_ARGUMENTS.match(words)
    if found is not None and hasattr(_CLASSES.get(found[1]), found[2]):
        return f"{found[1]}.{found[2]}() with other arguments"
    native = _NATIVE_ARGUMENTS.match(words)
    return f"{native[2]}.{native[1]}() with other arguments" if native is not None else ""


def _operand(error: TypeError) -> str:
    """Return the placeholder that C code refused, which says its type alone, or no more."""
    if not _REFUSED.search(str(error)):
        return ""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return ""
    frame, line = step.tb_frame, step.tb_lineno
    names = {**frame.f_globals, **frame.f_locals}
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        for node in ast.walk(ast.parse("".join(lines))):
            if getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", -1):
                found = _value(node, names) if isinstance(node, ast.expr) else None
                if is_placeholder(found):
                    return str(found.__qualname__)  # type: ignore[attr-defined]
    return ""


def _value(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of a dotted name; None for any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, names), node.attr, None)
    return None


def _is_of(error: BaseException, file: str | None) -> bool:
    return file is None or any(_line(one.__traceback__, file) for one in _chain(error))


def _is_named(error: BaseException, file: str | None) -> bool:
    """Return whether a file names what is not here, where no line of it was on the way.

    As where a thread was to run nothing else.
    """
    if file is None or not isinstance(error, NotProvidedError):
        return False
    name = error.path.rpartition(".")[2]
    return any(name in line for line in linecache.getlines(file))


def _line(trace: TracebackType | None, file: str | None) -> int:
    """Return the innermost line of a file that a traceback passes; 0 if it passes none."""
    line = 0
    while trace is not None:
        if file is not None and trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _innermost(trace: TracebackType | None) -> FrameType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame
