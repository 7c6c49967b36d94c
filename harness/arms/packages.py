"""Arms of a user's own function: versions of the user's packages, as folders.

``git:``, the work tree of the project that the user's file is in; ``git:REVISION``, the same as of
a revision; ``path:FOLDER``, another checkout or an installed copy. With ``+FILE.patch`` behind it,
a patch on top. Each is read once, into a folder of ours: nothing in the checkout changes, and no
edit during a measurement does harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from harness.system import git
from harness.system.worker_process import run
from stepbench_core.errors import InputError

KINDS = ("git", "path")

# Says that a folder is a project's.
_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
# Beside the packages of a project that has no folder src.
_NO_PACKAGES = frozenset(
    {
        *("benchmark", "benchmarks", "bench", "build", "conftest", "dist", "doc", "docs"),
        *("example", "examples", "noxfile", "script", "scripts", "setup", "tasks", "test"),
        *("testing", "tests", "tools"),
    }
)
_PATCHES = (".patch", ".diff")
# What a worker needs while a copy of the user's packages is active.
_OURS = frozenset({"stepbench", "stepbench_core", "subjects"})
_SECONDS_OF_PATCH = 60.0


@dataclass(frozen=True)
class Project:
    """Where the versions of a user's packages are.

    Attributes:
        root: the folder of the project that the user's file is in.
        file: the user's file.
        function: the name of the function in it; None for the only one.
    """

    root: Path
    file: Path
    function: str | None = None

    @property
    def own(self) -> str:
        """The name of the user's file where it lies among the packages' modules, else nothing."""
        return self.file.stem if self.file.parent == self.root else ""

    @property
    def spec(self) -> str:
        """The subject as a user names it."""
        return f"{self.file}::{self.function}" if self.function else str(self.file)


@dataclass(frozen=True)
class PackageArm:
    """A version of a user's packages. Can be sent to another process.

    Attributes:
        spec: how the user named it.
        name: the same, by which a table calls it.
        folders: where its packages are, one folder a string.
        packages: their top-level names.
        origin: the revision, and what is not as there, in words.
        digest: the SHA-256 of all their files.
        is_native: whether there are compiled modules among them.
    """

    spec: str
    name: str
    folders: tuple[str, ...]
    packages: tuple[str, ...]
    origin: str
    digest: str
    is_native: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its own: none."""
        return {}


def find_project(subject: str) -> Project:
    """Return the project around a subject, ``FILE`` or ``FILE::FUNCTION``.

    Raises:
        InputError: there is no such file.
    """
    name, _, function = subject.partition("::")
    file = Path(name).expanduser()
    if not file.is_file():
        raise InputError(f"subject {subject!r}: no file {file}")
    if file.suffix != ".py":
        raise InputError(f"subject {subject!r}: {file} is no Python file")
    file = file.resolve()
    for folder in file.parents:
        if any((folder / mark).is_file() for mark in _PROJECT) or (folder / ".git").exists():
            return Project(folder, file, function or None)
    return Project(file.parent, file, function or None)


def read_arms(project: Project, specs: Sequence[str], into: Path) -> dict[str, PackageArm]:
    """Return the arms of different specifications, read into folders below ``into``.

    Raises:
        InputError: there is no such revision, folder or patch, or no package in it.
    """
    arms = {}
    for number, spec in enumerate(dict.fromkeys(specs)):
        folder = into / f"arm-{number}"
        folder.mkdir()
        arms[spec] = _read(project, spec, folder)
    return arms


def packages_of(arms: Iterable[PackageArm]) -> list[str]:
    """Return the names that any of the arms has a package of: none has another's."""
    return sorted({name for arm in arms for name in arm.packages})


def _read(project: Project, spec: str, into: Path) -> PackageArm:
    base, patch = _split_patch(spec)
    kind, colon, rest = base.partition(":")
    if not colon or kind not in KINDS:
        raise InputError(
            f"arm {spec!r}: an arm of one's own function is git: (the work tree), git:REVISION or "
            "path:FOLDER, each with +FILE.patch behind it or not"
        )
    if kind == "path":
        root = Path(rest or ".").expanduser().resolve()
        if not root.is_dir():
            raise InputError(f"arm {spec!r}: {root} is no folder")
        origin = _from_folder(spec, root, project, into)
    elif rest:
        origin = _from_revision(spec, rest, project, into)
    else:
        origin = _from_folder(spec, project.root, project, into)
    if patch is not None:
        before = _digest(into, _files_in(into))
        _apply(spec, patch, project, into)
        if _digest(into, _files_in(into)) == before:
            raise InputError(f"arm {spec!r}: the patch changes none of the packages' files")
        origin = f"{origin}, with {patch.name}"
    files = _files_in(into)
    layout = find_packages(files, project.own)
    folders = tuple(str(into / folder) for folder in layout)
    names = tuple(name for packages in layout.values() for name in packages)
    is_native = any(name.endswith(tuple(EXTENSION_SUFFIXES)) for name in files)
    clash = sorted(_OURS & set(names))
    if clash:
        raise InputError(
            f"arm {spec!r}: a package is called {clash[0]!r}, as one of stepbench's own that it "
            "needs while it measures"
        )
    return PackageArm(spec, spec, folders, names, origin, _digest(into, files), is_native)


def find_packages(files: Iterable[str], own: str = "") -> dict[str, list[str]]:
    """Return the top-level names of the packages in a tree, by the folder that they lie in.

    All of ``src`` where there is code in it, else the packages and modules of the tree's root, but
    for what is usually beside them, such as tests.

    Args:
        files: the paths of the tree.
        own: the name of the user's own file, which is no package.
    """
    parts = [file.split("/") for file in files if file.endswith((".py", *EXTENSION_SUFFIXES))]
    inside = [rest for first, *rest in parts if first == "src" and rest]
    if inside:
        names = {path[0].partition(".")[0] for path in inside}
        return {"src": sorted(name for name in names if name.isidentifier())}
    names = {path[0] for path in parts if len(path) == 2 and path[1] == "__init__.py"}
    names |= {path[0].partition(".")[0] for path in parts if len(path) == 1}
    kept = {
        name
        for name in names - _NO_PACKAGES - {own}
        if name.isidentifier() and not name.startswith(("test_", "bench_"))
    }
    return {".": sorted(kept)} if kept else {}


def _split_patch(spec: str) -> tuple[str, Path | None]:
    base, plus, name = spec.rpartition("+")
    if not plus or not name.endswith(_PATCHES):
        return spec, None
    patch = Path(name).expanduser()
    if not patch.is_file():
        raise InputError(f"arm {spec!r}: no patch {patch}")
    return base, patch.resolve()


def _from_folder(spec: str, root: Path, project: Project, into: Path) -> str:
    """Copy the packages of a folder; return where they are from."""
    layout = find_packages(_files_below(root), project.own)
    if not layout:
        raise InputError(f"arm {spec!r}: no Python package in {root}, nor in its folder src")
    known = {
        name
        for names in find_packages(_files_below(project.root), project.own).values()
        for name in names
    }
    if root != project.root and known & {name for names in layout.values() for name in names}:
        # Where things are installed, others are beside them.
        layout = {
            folder: [name for name in names if name in known] for folder, names in layout.items()
        }
    places = []
    for folder, names in layout.items():
        (into / folder).mkdir(exist_ok=True)
        for path in (root / folder).iterdir():
            if path.name.partition(".")[0] in names:
                _copy(path, into / folder / path.name)
                places.append(f"{folder}/{path.name}")
    return _state(root, places)


def _from_revision(spec: str, revision: str, project: Project, into: Path) -> str:
    """Take the packages of a revision out of git's objects; return where they are from."""
    root = project.root
    if revision.startswith("-"):
        raise InputError(f"arm {spec!r} is not git:REVISION")
    try:
        commit, layout, blobs = _packed(revision, project)
    except git.NoRepositoryError:
        raise InputError(
            f"arm {spec!r}: {root} is in no git repository: name a folder, path:FOLDER"
        ) from None
    except InputError as error:
        raise InputError(f"arm {spec!r}: {error}") from None
    for blob in blobs:
        path = into / blob.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if blob.is_link:
            path.symlink_to(os.fsdecode(blob.content))
        else:
            path.write_bytes(blob.content)
    generated = _add_generated(spec, root, layout, into)
    words = f", generated files of the work tree: {', '.join(generated)}" if generated else ""
    return f"commit {commit[:12]}{words}"


def _packed(
    revision: str, project: Project
) -> tuple[str, Mapping[str, Sequence[str]], list[git.Blob]]:
    """Return the commit of a revision, what packages it has, and their files."""
    root = project.root
    commit = git.find_commit(revision, root)
    if commit is None:
        raise InputError(f"no git revision {revision!r} in {root}{git.why_missing(root)}")
    layout = find_packages(git.list_at(commit, root), project.own)
    if not layout:
        raise InputError(f"no Python package in {root} at {revision}, nor in its folder src")
    ((folder, names),) = layout.items()
    prefix = "" if folder == "." else f"{folder}/"

    def is_wanted(path: str) -> bool:
        top = path.removeprefix(prefix).partition("/")[0]
        return path.startswith(prefix) and top.partition(".")[0] in names

    return commit, layout, git.read_all_at(commit, is_wanted, root)


def _add_generated(
    spec: str, root: Path, layout: Mapping[str, Sequence[str]], into: Path
) -> list[str]:
    """Add modules that git ignores, such as one that holds the version; return which."""
    places = [f"{folder}/{name}" for folder, names in layout.items() for name in names]
    here = [place for place in places if (root / place).exists()]
    if not here:
        return []
    others = git.git("ls-files", "--others", "-z", "--", *here, folder=root).split("\0")
    for name in filter(None, others):
        if name.endswith(tuple(EXTENSION_SUFFIXES)):
            raise InputError(
                f"arm {spec!r}: the packages have compiled modules ({name}), which git does not "
                "hold: build that revision elsewhere and name its folder, path:FOLDER"
            )
    ignored = git.git(
        *("ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *here), folder=root
    ).split("\0")
    found = []
    for name in filter(None, ignored):
        target = into / name
        if name.endswith(".py") and target.parent.is_dir() and not target.exists():
            _copy(root / name, target)
            found.append(name)
    return found


def _files_below(root: Path) -> list[str]:
    """Return the files of a folder that packages can be found by."""
    return [
        path.relative_to(root).as_posix()
        for pattern in ("*", "*/*", "src/**/*.py", "src/*/*")
        for path in root.glob(pattern)
        if path.is_file()
    ]


def _copy(source: Path, target: Path) -> None:
    try:
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".git")
            shutil.copytree(source, target, symlinks=True, ignore=ignored)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    except (OSError, shutil.Error) as error:
        # Of several that cannot be copied, the first.
        first = error.args[0][0] if isinstance(error, shutil.Error) else (source, "", error)
        raise InputError(f"{first[0]}: cannot be copied: {first[2]}") from None


def _state(root: Path, places: Sequence[str]) -> str:
    """Return the revision of a folder, and whether its packages differ from that."""
    try:
        commit = git.find_commit("HEAD", root)
        if commit is None:
            return f"{root}, no commit yet"
        changed = git.git("status", "--porcelain", "--", *places, folder=root).strip()
    except git.GitError:
        return f"{root}, without a git revision"
    return f"work tree at commit {commit[:12]}, {'with changes' if changed else 'unchanged'}"


def _apply(spec: str, patch: Path, project: Project, into: Path) -> None:
    """Apply what a patch says of the packages, as ``git apply`` does in a folder by itself.

    Its paths may be seen from the project's folder, or from the root of the repository around that.
    """
    own = find_packages(_files_in(into), project.own)
    wanted = [
        f"--include={'' if folder == '.' else f'{folder}/'}{name}{rest}"
        for folder, names in own.items()
        for name in names
        for rest in ("/*", ".py")
    ]
    # A patch may bring a package.
    wanted += ["--include=src/*"] if "src" in own else []
    prefix = ""
    with contextlib.suppress(git.GitError):
        prefix = git.git("rev-parse", "--show-prefix", folder=project.root).strip()
    is_from_root = bool(prefix) and f" b/{prefix}" in patch.read_text(errors="replace")
    strip = 1 + (prefix.count("/") if is_from_root else 0)
    command = ["git", "-C", str(into), "apply", "--whitespace=nowarn", f"-p{strip}", *wanted]
    try:
        done = run(
            [*command, str(patch)],
            capture_output=True,
            text=True,
            timeout=_SECONDS_OF_PATCH,
            env=git.environment() | {"GIT_CEILING_DIRECTORIES": str(into.parent)},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"arm {spec!r}: the patch cannot be applied: {error}") from None
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise InputError(f"arm {spec!r}: the patch does not apply: {said}")


def _files_in(folder: Path) -> list[str]:
    """Return the files below a folder, and links, by their paths."""
    return [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    ]


def _digest(folder: Path, files: Iterable[str]) -> str:
    found = hashlib.sha256()
    for name in sorted(files):
        path = folder / name
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        found.update(os.fsencode(f"{name}\0{hashlib.sha256(data).hexdigest()}\n"))
    return found.hexdigest()
