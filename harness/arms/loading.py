"""Arms from source text: loaded as separate modules, and made to what the harness calls."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any, cast

from stepbench_core.errors import InputError, described
from stubs.page_mapping import with_mapping

from .handed_over import reads_mapping
from .linking import link
from .missing import not_runnable, noting_import
from .outputs import field_names, with_field
from .own_os import Reads, add_os, bind_os
from .python_source import lines_of, needed_at_import
from .registry import ArmFactory, ArmFromFile, RegisteredArm, SchedulerOutputManager, rank
from .sources import ArmSource

CLASS = "KvCacheConnectorSchedulerOutputManager"
_BUILD = "build_scheduler_output"
# Batch, requests being loaded, manager; and as it was before there were such requests.
_ARGUMENTS, _ARGUMENTS_ONCE = 3, 2


class Need(StrEnum):
    """What a scenario needs of an arm that not every revision has."""

    V2 = "the V2 KV cache manager"
    LAYER_GROUPS = "several layer groups"
    ATTENTION_DP = "attention data parallelism"
    RESET = "reset_request"
    MATCHED_TOKENS = "record_new_matched_tokens"
    LOADS = "knowledge of requests being loaded"


def load_apart(source: ArmSource, alias: str, reads: Reads | None = None) -> ModuleType:
    """Return the module of an arm, apart from all others of the same source.

    What it imports is shared: the interfaces are the same classes for all arms. Its ``os`` is its
    own.

    Args:
        source: the arm.
        alias: the module's name, not in use yet.
        reads: where to note what it reads of the environment; None where that is not wanted.

    Raises:
        InputError: the source cannot be imported, or has no such class.
    """
    module = ModuleType(alias)
    module.__package__ = source.package
    module.__file__ = source.filename
    sys.modules[alias] = module
    try:
        read = link if source.is_linked else ast.parse
        tree = read(source.text, source.filename)
        if bind_os(tree, f"{alias}_os"):
            add_os(f"{alias}_os", source.variables, reads)
        code = compile(tree, source.filename, "exec", dont_inherit=True)
        # What it prints must not mix with the result of a command.
        with contextlib.redirect_stdout(sys.stderr), noting_import(source.filename):
            exec(code, module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:  # Foreign code can raise anything.
        del sys.modules[alias]
        raise _refused(source, "cannot be imported", error) from error
    if not hasattr(module, CLASS):
        del sys.modules[alias]
        raise InputError(f"{source.spec}: has no class {CLASS}")
    return module


def create(module: ModuleType, source: ArmSource, attention_dp: bool) -> SchedulerOutputManager:
    """Return a fresh instance of an arm, which has seen no request.

    Raises:
        InputError: it cannot be made, or lacks the measured call.
    """
    made: Any = getattr(module, CLASS)
    offered: dict[str, Any] = {
        "enable_attention_dp": attention_dp,
        "attention_dp_rank": rank(attention_dp),
    }
    try:
        taken = inspect.signature(made).parameters
        manager = made(**{name: value for name, value in offered.items() if name in taken})
    except (Exception, SystemExit) as error:
        raise _refused(source, "cannot be made", error) from error
    if not source.is_linked:
        return cast(SchedulerOutputManager, manager)
    if not callable(getattr(manager, _BUILD, None)):
        raise InputError(f"{source.spec}: has no method {_BUILD}")
    return _Linked(manager, source, None if "attention_dp_rank" in taken else rank(attention_dp))


def _refused(source: ArmSource, what: str, error: BaseException) -> InputError:
    """Return the error for a source that raised one where it was loaded."""
    newer = needed_at_import(error, source.text, source.filename)
    if newer:
        return InputError(f"{source.spec}: {newer}")
    words = f"{source.spec}: {what}: {described(error)}"
    return not_runnable(error, {source.spec: source.filename}) or InputError(words)


class _Linked:
    """An instance of a checkout's class, with the calls that the harness makes.

    The measured call is the instance's own bound method wherever it takes what today's does.

    Args:
        manager: the instance.
        source: where it is from.
        own_rank: the rank that upstream's caller puts into the output right after the call, and
            this does in its stead; None where there is none to put.
    """

    def __init__(self, manager: Any, source: ArmSource, own_rank: int | None) -> None:  # noqa: ANN401
        build = _measured_call(manager, source)
        if reads_mapping(source.text):
            build = _with_mapping(build)
        self.is_told_of_loads = _takes(getattr(manager, _BUILD), _ARGUMENTS)
        self.build_scheduler_output = _with_rank(build, own_rank)
        self.record_new_matched_tokens = _call(manager, Need.MATCHED_TOKENS)
        self.reset_request = _call(manager, Need.RESET)


def _call(manager: Any, name: str) -> Callable[..., Any]:  # noqa: ANN401
    found = getattr(manager, name, None)
    return found if callable(found) else _not_there


def _not_there(*_arguments: object) -> None:
    """Stand for a call that a revision does not have; whoever needs it does not get to it."""
    raise NotImplementedError("this revision has no such call")


def _measured_call(manager: Any, source: ArmSource) -> Callable[..., Any]:  # noqa: ANN401
    build: Callable[..., Any] = getattr(manager, _BUILD)
    if _takes(build, _ARGUMENTS):
        return build
    if _takes(build, _ARGUMENTS_ONCE):
        return lambda batch, _loading, kv_cache_manager: build(batch, kv_cache_manager)
    raise InputError(f"{source.spec}: {_BUILD} takes other arguments than batch, loads and manager")


def _takes(call: Callable[..., Any], count: int) -> bool:
    """Return whether something can be called with so many arguments."""
    try:
        inspect.signature(call).bind(*range(count))
    except TypeError:
        return False
    return True


def _with_mapping(build: Callable[..., Any]) -> Callable[..., Any]:
    def build_from_mapping(batch: object, loading: object, kv_cache_manager: object) -> object:
        return build(batch, loading, with_mapping(kv_cache_manager))

    return build_from_mapping


def _with_rank(build: Callable[..., Any], own_rank: int | None) -> Callable[..., Any]:
    if own_rank is None:
        return build

    def build_and_fill_in(*arguments: object) -> object:
        output = build(*arguments)
        if "attention_dp_rank" in field_names(output) or hasattr(output, "attention_dp_rank"):
            return with_field(output, "attention_dp_rank", own_rank)
        return output

    return build_and_fill_in


@dataclass(frozen=True)
class ArmOfSource:
    """Makes fresh instances of an arm from its source. Can be sent to another process."""

    source: ArmSource

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        """Return an instance that has seen no request.

        Raises InputError if the source cannot be imported, or makes no arm.
        """
        manager = create(_module(self.source), self.source, attention_dp)
        if not self.source.is_linked:
            names = (_BUILD, Need.MATCHED_TOKENS.value, Need.RESET.value)
            missing = [name for name in names if not _has_call(manager, name)]
            if missing:
                raise InputError(f"{self.source.spec}: has no method {', '.join(missing)}")
        return manager

    def module(self) -> ModuleType:
        """Return the module, loaded once a process. Raises InputError if it cannot be."""
        return _module(self.source)

    def lacks(self) -> frozenset[Need]:
        """Return what this revision does not have. Raises as a call does."""
        return _lacks(self.source)


def probe(source: ArmSource) -> frozenset[Need]:
    """Load an arm, make an instance, and return what it lacks. Raises InputError if it cannot be.

    In a process of its own nothing that the arm does harms anybody.
    """
    arm = ArmOfSource(source)
    arm(False)
    return arm.lacks()


def lacks(factory: ArmFactory) -> frozenset[Need]:
    """Return what an arm does not have that others do. Raises InputError if it cannot be made."""
    return factory.lacks() if isinstance(factory, ArmOfSource) else frozenset()


def file_of(factory: ArmFactory) -> str | None:
    """Return the file that an arm's code is said to be in; None where that is not known."""
    if isinstance(factory, ArmOfSource):
        return factory.source.filename
    if isinstance(factory, ArmFromFile):
        return str(factory.path.resolve())
    return factory.file if isinstance(factory, RegisteredArm) else None


def _has_call(manager: object, name: str) -> bool:
    try:
        return callable(getattr(manager, name, None))
    except Exception:  # Foreign code can raise anything, also where it is looked at.
        return False


@functools.cache
def _lacks(source: ArmSource) -> frozenset[Need]:
    if not source.is_linked:
        return frozenset()
    made: Any = getattr(_module(source), CLASS)
    manager: Any = create(_module(source), source, attention_dp=False)
    text = source.text
    has = {
        # What tells from the source that the path knows of it: it asks for nothing else there.
        Need.V2: "get_page_indices_by_layer_group" in text,
        Need.LAYER_GROUPS: "new_block_ids_by_layer_group" in text,
        Need.ATTENTION_DP: "enable_attention_dp" in inspect.signature(made).parameters,
        Need.RESET: manager.reset_request is not _not_there,
        Need.MATCHED_TOKENS: manager.record_new_matched_tokens is not _not_there,
        Need.LOADS: manager.is_told_of_loads,
    }
    return frozenset(need for need, is_there in has.items() if not is_there)


@functools.cache
def _module(source: ArmSource) -> ModuleType:
    # A name without a dot, by which its classes can be pickled, and of the same length for all.
    alias = f"_stepbench_source_{hashlib.sha256(repr(source).encode()).hexdigest()[:16]}"
    # So that a traceback shows the lines of a revision that no file holds.
    lines = lines_of(source.text)
    linecache.cache[source.filename] = (len(source.text), None, lines, source.filename)
    return load_apart(source, alias)
