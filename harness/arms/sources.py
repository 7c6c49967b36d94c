"""Arms as source text, as a user names them: one syntax for all commands.

``NAME``, an arm of this project; ``git:REV:NAME``, the same as of a revision of this project;
``file:PATH``, one module by itself; ``trtllm:CHECKOUT[@REV]``, the connector module of a
TensorRT-LLM checkout, as of a revision or as it is in the work tree. In front of each there may be
environment variables of its own, ``NAME=VALUE``.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.system import git
from stepbench_core.errors import InputError, NoBaselineError, unknown

from .linking import SURFACE, belongs_to_engine, find_imports
from .python_source import decode
from .registry import ARMS
from .revision import ROOT
from .variables import split_variables

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
    def variables(self) -> dict[str, str]:
        """The environment variables of its own, by name."""
        return split_variables(self.spec)[0]

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
    _, named = split_variables(spec)
    kind, _, rest = named.partition(":")
    if rest and kind == "file":
        return _from_file(spec, _expanded(rest))
    if rest and kind == "trtllm":
        return _from_checkout(spec, rest)
    if rest and kind == "git":
        return _from_own_revision(spec, rest)
    path = _path(named)
    return ArmSource(spec, named, str(path), _read(path))


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
    with _named(spec):
        commit = _commit(revision, ROOT, "here")
        data = git.read_bytes_at(commit, f"./{path}", ROOT)
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
    with _named(spec):
        commit = _commit(revision, folder, f"in {folder}")
        found = _find_at(commit, folder)
    if found is None:
        raise InputError(f"arm {spec!r}: {_nowhere()} at revision {revision}")
    place, where, text = found
    origin = f"commit {commit}"
    return ArmSource(spec, spec, f"{commit[:12]}:{where}", text, _package(place), origin)


def _find_at(commit: str, folder: Path) -> tuple[str, str, str] | None:
    """Return the module's place, its path in the repository and its text; None without one.

    Raises GitError.
    """
    # Of a folder in a larger repository, what lies in the folder, as in the work tree.
    prefix = git.git("rev-parse", "--show-prefix", folder=folder).strip()
    for place in _CANDIDATES:
        data = git.read_bytes_at(commit, f"{prefix}{place}", folder)
        if data is not None:
            where = f"{prefix}{place}"
            return place, where, decode(data, f"{commit[:12]}:{where}")
    return None


@contextlib.contextmanager
def _named(spec: str) -> Iterator[None]:
    """Name the arm where git gives no answer on it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"arm {spec!r}: {error}") from None


def _commit(revision: str, folder: Path, where: str) -> str:
    """Return the commit that a revision names. Raises InputError, which says why there is none."""
    try:
        commit = git.find_commit(revision, folder)
        if commit is None:
            raise InputError(f"no git revision {revision!r} {where}{git.why_missing(folder)}")
    except git.NoRepositoryError:
        raise InputError(f"{folder} is no git checkout") from None
    return commit


def _from_work_tree(spec: str, folder: Path) -> ArmSource:
    for place in _CANDIDATES:
        path = folder / place
        if path.is_file():
            origin = _state(folder, place)
            return ArmSource(spec, spec, str(path), _read(path), _package(place), origin)
    raise InputError(f"arm {spec!r}: {_nowhere()} in {folder}{_at_head(folder)}")


def _at_head(folder: Path) -> str:
    """Return that the module is in a repository, though not in its work tree, and what to do."""
    try:
        commit = git.find_commit("HEAD", folder)
        if commit is None or _find_at(commit, folder) is None:
            return ""
        is_bare = git.git("rev-parse", "--is-bare-repository", folder=folder).strip() == "true"
    except git.GitError:
        return ""  # Whatever it is, the folder does not hold the module.
    kind = "a bare repository" if is_bare else "whose work tree lacks it (sparse, or deleted)"
    return f", {kind}: name a revision, as in trtllm:{folder}@HEAD"


def _state(folder: Path, place: str) -> str:
    """Return the revision of a work tree, and whether a file in it differs from that."""
    unknown = "a work tree without a git revision"
    try:
        commit = git.find_commit("HEAD", folder)
        if commit is None:
            return f"{unknown} (the repository has no commit yet)"
    except git.NoRepositoryError:
        return f"{unknown} (it is no git checkout)"
    except git.GitError as error:
        return f"{unknown} ({error})"
    try:
        status = git.git("status", "--porcelain", "--", place, folder=folder)
    except git.GitError as error:
        return f"work tree of commit {commit}, the module of unknown state ({error})"
    return f"work tree of commit {commit}, the module {'changed' if status else 'unchanged'}"


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
