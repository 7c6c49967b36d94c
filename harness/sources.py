"""Arms as source text, as a user names them: one syntax for all commands.

``NAME``, an arm of this project; ``git:REV:NAME``, the same as of a revision of this project;
``file:PATH``, one module by itself; ``trtllm:CHECKOUT[@REV]``, the connector module of a
TensorRT-LLM checkout, as of a revision or as it is in the work tree.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scenarios.errors import InputError, NoBaselineError, unknown

from .arms import ARMS
from .linking import SURFACE, belongs_to_engine, find_imports
from .python_source import decode
from .revision import ROOT, git, git_bytes

# Where the module is in a checkout: now, before it moved, and at first.
_CANDIDATES = (
    "tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py",
    "tensorrt_llm/_torch/pyexecutor/kv_cache_connector.py",
    "tensorrt_llm/_torch/pyexecutor/connector.py",
)
_OWN_PACKAGE = "connector"


@dataclass(frozen=True)
class ArmSource:
    """One arm as text. Can be sent to another process.

    Attributes:
        spec: how the user named it.
        name: the arm's name.
        filename: where the text comes from, for tracebacks.
        text: the source of its module.
        package: the package in which its relative imports are looked up.
        origin: the revision and the state of the work tree, in words; empty for an arm of this
            project, whose own revision says it.
    """

    spec: str
    name: str
    filename: str
    text: str
    package: str = _OWN_PACKAGE
    origin: str = ""

    @property
    def is_linked(self) -> bool:
        """Whether what it imports comes from the surface."""
        return self.package.startswith(SURFACE)

    @property
    def digest(self) -> str:
        """The SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def find_source(spec: str) -> ArmSource:
    """Return the source of an arm.

    Raises:
        InputError: the arm is unknown, or there is no such revision, checkout or file here.
        NoBaselineError: the revision has no such arm.
    """
    if not spec.isprintable():
        # It would end a row of a table, or tell a terminal what to do.
        raise InputError(f"arm {spec!r} holds a character that cannot be printed")
    kind, _, rest = spec.partition(":")
    if rest and kind == "file":
        return _from_file(spec, _expanded(rest))
    if rest and kind == "trtllm":
        return _from_checkout(spec, rest)
    if rest and kind == "git":
        return _from_own_revision(spec, rest)
    path = _path(spec)
    return ArmSource(spec, spec, str(path), _read(path))


def _from_file(spec: str, path: Path) -> ArmSource:
    text = _read(path)
    if not belongs_to_engine(text):
        return ArmSource(spec, path.stem, str(path), text)
    # It may use what lies two folders up, as it does today, or one, as in older trees.
    is_deep = any(one.is_above for one in find_imports(text))
    place = _CANDIDATES[0] if is_deep else _CANDIDATES[1]
    return ArmSource(spec, path.stem, str(path), text, _package(place), "a file by itself")


def _from_own_revision(spec: str, rest: str) -> ArmSource:
    revision, colon, name = rest.rpartition(":")
    if not colon or not revision or revision.startswith("-"):
        raise InputError(f"arm {spec!r} is not git:REVISION:NAME")
    path = _path(name).relative_to(ROOT)
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise InputError(f"arm {spec!r}: no git revision {revision!r} here")
    data = git_bytes("show", f"{commit}:./{path}")
    if data is None:
        raise NoBaselineError(f"arm {name!r} does not exist at revision {revision}")
    where = f"{commit[:12]}:{path}"
    return ArmSource(spec, name, where, decode(data, spec))


def _from_checkout(spec: str, rest: str) -> ArmSource:
    folder, revision = _split_revision(rest)
    if not _is_folder(folder):
        raise InputError(f"arm {spec!r}: {folder} is no folder")
    if revision is None:
        return _from_work_tree(spec, folder)
    if not revision or revision.startswith("-"):
        raise InputError(f"arm {spec!r} is not trtllm:CHECKOUT@REVISION")
    if git("rev-parse", "--git-dir", folder=folder) is None:
        raise InputError(f"arm {spec!r}: {folder} is no git checkout")
    commit = git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", folder=folder)
    if commit is None:
        raise InputError(f"arm {spec!r}: no git revision {revision!r} in {folder}")
    # Of a folder in a larger repository, what lies in the folder, as in the work tree.
    prefix = git("rev-parse", "--show-prefix", folder=folder) or ""
    for place in _CANDIDATES:
        data = git_bytes("show", f"{commit}:{prefix}{place}", folder=folder)
        if data is not None:
            where = f"{commit[:12]}:{prefix}{place}"
            text, origin = decode(data, f"{spec}: {where}"), f"commit {commit}"
            return ArmSource(spec, spec, where, text, _package(place), origin)
    raise InputError(f"arm {spec!r}: {_nowhere()} at revision {revision}")


def _from_work_tree(spec: str, folder: Path) -> ArmSource:
    for place in _CANDIDATES:
        path = folder / place
        if path.is_file():
            origin = _state(folder, place)
            return ArmSource(spec, spec, str(path), _read(path), _package(place), origin)
    raise InputError(f"arm {spec!r}: {_nowhere()} in {folder}")


def _state(folder: Path, place: str) -> str:
    """Return the revision of a work tree, and whether a file in it differs from that."""
    commit = git("rev-parse", "--verify", "--quiet", "HEAD", folder=folder)
    if commit is None:
        return "a work tree without a git revision"
    status = git("status", "--porcelain", "--", place, folder=folder)
    changed = "of unknown state" if status is None else "changed" if status else "unchanged"
    return f"work tree of commit {commit}, the module {changed}"


def _split_revision(rest: str) -> tuple[Path, str | None]:
    """Split CHECKOUT[@REV]. A folder that exists is one, whatever its name holds.

    So can a revision: ``HEAD@{1}`` is one.
    """
    whole = _expanded(rest)
    parts = rest.split("@")
    ways = [("@".join(parts[:count]), "@".join(parts[count:])) for count in range(1, len(parts))]
    ways = [(folder, revision) for folder, revision in ways if folder]
    if not ways or _is_folder(whole):
        return whole, None
    there = [way for way in ways if _is_folder(_expanded(way[0]))]
    folder, revision = (there or ways)[-1]
    return _expanded(folder), revision


def _expanded(path: str) -> Path:
    """Return a path with the user's own folder for ``~``; as it is where there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # Of a name that is too long, or in a folder that must not be read.
        return False


def _package(place: str) -> str:
    """Return the package of the surface that a module of a checkout is in."""
    return ".".join((SURFACE, *PurePosixPath(place).parent.parts))


def _nowhere() -> str:
    return f"none of {', '.join(_CANDIDATES)}"


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: a pipe or a device, not a file")
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # A name that no file can have.
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return decode(data, f"{path}")


def _path(name: str) -> Path:
    if name not in ARMS:
        raise unknown("arm", name, ARMS)
    return ROOT.joinpath(*ARMS[name].split(".")).with_suffix(".py")
