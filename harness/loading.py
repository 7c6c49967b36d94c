"""Arms as source text: from the work tree or from a git revision, loaded as separate modules."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from scenarios.errors import InputError, NoBaselineError, unknown

from .arms import ARMS, ArmFactory, RegisteredArm, SchedulerOutputManager, rank
from .revision import ROOT, git

_CLASS = "KvCacheConnectorSchedulerOutputManager"
_METHODS = ("build_scheduler_output", "record_new_matched_tokens", "reset_request")


@dataclass(frozen=True)
class ArmSource:
    """One arm as text. Can be sent to another process.

    Attributes:
        spec: how the user named it, ``NAME``, ``git:REV:NAME`` or ``file:PATH``.
        name: the arm's name.
        filename: where the text comes from, for tracebacks.
        text: the source of its module.
    """

    spec: str
    name: str
    filename: str
    text: str


def find_source(spec: str) -> ArmSource:
    """Return the source of an arm.

    Args:
        spec: the name of an arm; ``git:REV:NAME`` for that arm as of a git revision of this
            project; ``file:PATH`` for a Python file that holds one arm.

    Raises:
        InputError: the arm is unknown, or there is no such revision or file here.
        NoBaselineError: the revision has no such arm.
    """
    kind, _, rest = spec.partition(":")
    if kind == "file" and rest:
        return ArmSource(spec, Path(rest).stem, rest, _read(Path(rest)))
    if kind != "git" or not rest:
        path = _path(spec)
        return ArmSource(spec, spec, str(path), path.read_text(encoding="utf-8"))
    revision, colon, name = rest.rpartition(":")
    if not colon or not revision or revision.startswith("-"):
        raise InputError(f"arm {spec!r} is not git:REVISION:NAME")
    path = _path(name).relative_to(ROOT)
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise InputError(f"arm {spec!r}: no git revision {revision!r} here")
    text = git("show", f"{commit}:./{path}", strip=False)
    if text is None:
        raise NoBaselineError(f"arm {name!r} does not exist at revision {revision}")
    return ArmSource(spec, name, f"{commit[:12]}:{path}", text)


def load_apart(source: ArmSource, alias: str) -> ModuleType:
    """Return the module of an arm, apart from all others of the same source.

    What it imports is shared: data types and interfaces are the same classes for all arms.

    Args:
        source: the arm.
        alias: the module's name, not in use yet.

    Raises:
        InputError: the source cannot be imported, or has no such class.
    """
    module = ModuleType(alias)
    module.__package__ = "connector"
    module.__file__ = source.filename
    sys.modules[alias] = module
    try:
        code = compile(source.text, source.filename, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:  # Foreign code can raise anything.
        del sys.modules[alias]
        raise InputError(
            f"{source.spec}: cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, _CLASS):
        raise InputError(f"{source.spec}: has no class {_CLASS}")
    return module


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


@dataclass(frozen=True)
class ArmOfSource:
    """Makes fresh instances of an arm from its source. Can be sent to another process."""

    source: ArmSource

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        """Return an instance that has seen no request.

        Raises InputError if the source cannot be imported, or makes no arm.
        """
        create = getattr(_module(self.source), _CLASS)
        try:
            manager = create(enable_attention_dp=attention_dp, attention_dp_rank=rank(attention_dp))
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{self.source.spec}: cannot be made: {type(error).__name__}: {error}"
            ) from error
        missing = [name for name in _METHODS if not callable(getattr(manager, name, None))]
        if missing:
            raise InputError(f"{self.source.spec}: has no method {', '.join(missing)}")
        return cast(SchedulerOutputManager, manager)


def arm_factory(spec: str) -> ArmFactory:
    """Return what makes instances of the arm that a user names. Raises as ``find_source``."""
    return RegisteredArm(spec) if spec in ARMS else ArmOfSource(find_source(spec))


@functools.cache
def _module(source: ArmSource) -> ModuleType:
    return load_apart(source, f"_stepbench_source_{source.spec}")


def _path(name: str) -> Path:
    if name not in ARMS:
        raise unknown("arm", name, ARMS)
    return ROOT.joinpath(*ARMS[name].split(".")).with_suffix(".py")
