"""What git answers, and why it does not: its own words, with what to do about them.

That there is no such revision or no such file is an answer. All else that keeps git from giving one
is a ``GitError``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stepbench_core.errors import InputError

from .worker_process import run

_SECONDS = 10.0

# What would point git to another repository, as in a git hook.
_ELSEWHERE = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH"),
        *("GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE"),
    }
)

# What git says, in any case of its letters, and what helps; ``{folder}`` is the one asked about.
_REMEDIES = {
    "promisor remote|from remote repository": (
        "it is a partial clone, which lacks that, and its remote gave no answer: mend the remote "
        "(git -C {folder} remote -v) or clone it anew in full"
    ),
    "not a git repository: ": (
        "it is a work tree whose repository is gone or has moved: git worktree repair in that "
        "repository, or a new clone"
    ),
    "not a git repository": "its .git is damaged: clone it anew",
    "corrupt|bad object|bad tree|unable to read|is empty|missing (blob|tree)|bad signature|inflate"
    "|index file": "it is damaged: git -C {folder} fsck says what is; clone it anew",
}
# Now, and as versions before 2.36 had it.
_UNSAFE = re.compile(
    r"dubious ownership in repository at '(.*)'|unsafe repository \('(.*)' is owned"
)
_NO_SUCH_PATH = re.compile(r"^fatal: path .* (does not exist in|exists on disk, but not in) ", re.M)


class GitError(InputError):
    """Git gave no answer; the text says why, in git's own words, and what to do."""


class NoRepositoryError(GitError):
    """The folder is in no git repository."""


def git(*arguments: str, folder: Path) -> str:
    """Return what a git command prints, as it is.

    Args:
        arguments: the command and its arguments.
        folder: where it runs.

    Raises:
        GitError: it fails.
    """
    done = _run(arguments, folder)
    if done.code:
        raise _error(done.errors, folder)
    return _text(done.output, arguments[0])


def find_commit(revision: str, folder: Path) -> str | None:
    """Return the commit that a revision names; None where there is none. Raises GitError."""
    done = _run(("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"), folder)
    if not done.code:
        return _text(done.output, "rev-parse").strip()
    # Of a revision that is not there it says nothing, or that it is no commit.
    if "fatal:" in done.errors:
        raise _error(done.errors, folder)
    return None


def why_missing(folder: Path) -> str:
    """Return why a revision may not be there, with a colon in front; empty where that is unknown.

    Raises GitError.
    """
    if find_commit("HEAD", folder) is None:
        return ": the repository has no commit yet"
    if git("rev-parse", "--is-shallow-repository", folder=folder).strip() == "true":
        place = shlex.quote(str(folder))
        return f": the clone is shallow; fetch its history (git -C {place} fetch --unshallow)"
    return ""


def read_at(commit: str, path: str, folder: Path) -> str | None:
    """Return the text of a file as ``read_bytes_at`` does its bytes."""
    data = read_bytes_at(commit, path, folder)
    return None if data is None else _text(data, "show")


def read_bytes_at(commit: str, path: str, folder: Path) -> bytes | None:
    """Return a file as of a commit; None where it is not there. Raises GitError.

    Args:
        commit: the commit.
        path: the file in the repository, or with ``./`` in front below the folder.
        folder: where the repository is.
    """
    done = _run(("show", f"{commit}:{path}"), folder)
    if not done.code:
        return done.output
    if _NO_SUCH_PATH.search(done.errors):
        return None
    raise _error(done.errors, folder)


def merge_base(one: str, other: str, folder: Path) -> str | None:
    """Return the commit at which two parted; None where they have none. Raises GitError."""
    done = _run(("merge-base", one, other), folder)
    if done.code and "fatal:" in done.errors:
        raise _error(done.errors, folder)
    return _text(done.output, "merge-base").strip() or None


@dataclass(frozen=True)
class Blob:
    """A file as of a commit.

    Attributes:
        path: where it is, seen from the folder that was asked about.
        is_link: whether it is a symbolic link, whose target is the content.
        content: its bytes, as git keeps them, whatever attributes say of exporting them.
    """

    path: str
    is_link: bool
    content: bytes


def list_at(commit: str, folder: Path) -> list[str]:
    """Return the paths of all files of a commit below a folder. Raises GitError."""
    return [path for _, _, path in _listed(commit, folder)]


def read_all_at(commit: str, wanted: Callable[[str], bool], folder: Path) -> list[Blob]:
    """Return the files of a commit below a folder, but for submodules. Raises GitError.

    Args:
        commit: the commit.
        wanted: whether a file is, by its path.
        folder: a folder in the repository.
    """
    files = [each for each in _listed(commit, folder) if wanted(each[2])]
    asked = "".join(f"{name}\n" for _, name, _ in files).encode()
    done = _run(("cat-file", "--batch"), folder, asked)
    if done.code:
        raise _error(done.errors, folder)
    blobs, at = [], 0
    for mode, name, path in files:
        end = done.output.index(b"\n", at)
        head = done.output[at:end].split()
        if len(head) != 3:
            raise GitError(f"git: {name} of {path} is missing: git -C {folder} fsck says more")
        begin, size = end + 1, int(head[2])
        blobs.append(Blob(path, mode == "120000", done.output[begin : begin + size]))
        at = begin + size + 1
    return blobs


def _listed(commit: str, folder: Path) -> list[tuple[str, str, str]]:
    """Return mode, object and path of each file of a commit below a folder."""
    done = _run(("ls-tree", "-r", "-z", commit), folder)
    if done.code:
        raise _error(done.errors, folder)
    found = []
    for line in filter(None, os.fsdecode(done.output).split("\0")):
        about, _, path = line.partition("\t")
        mode, kind, name = about.split()
        if kind == "blob":
            found.append((mode, name, path))
    return found


def holds(path: str, folder: Path) -> bool:
    """Return whether a file belongs to the repository around a folder. Raises GitError."""
    done = _run(("ls-files", "--error-unmatch", path), folder)
    if done.code and "fatal:" in done.errors:
        raise _error(done.errors, folder)
    return not done.code


@dataclass(frozen=True)
class _Done:
    """What a command ended with, and what it said."""

    code: int
    output: bytes
    errors: str


def _run(arguments: tuple[str, ...], folder: Path, asked: bytes = b"") -> _Done:
    try:
        done = run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text_in=asked,
            timeout=_SECONDS,
            env=environment(),
        )
    except FileNotFoundError:
        raise GitError("git: not on the PATH: install it, or add its folder to PATH") from None
    except subprocess.TimeoutExpired:
        raise GitError(
            f"git: no answer in {_SECONDS:g} s from `git {arguments[0]}` in {folder}: try again "
            "when its disk or its remote answers"
        ) from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise GitError(f"git: cannot be run: {words}") from None
    return _Done(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def _text(data: bytes, command: str) -> str:
    """Return what a command printed as text. Raises GitError where it is none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise GitError(f"git: what `git {command}` printed is not UTF-8 text") from None


def _error(errors: str, folder: Path) -> GitError:
    """Return git's first meaningful line as an error, with what to do where that is known."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = [line for beginning in ("fatal:", "error:") for line in lines if line[:6] == beginning]
    said += [line for line in lines if not line.startswith(("warning:", "hint:"))]
    reason = said[0].removeprefix("fatal:").removeprefix("error:").strip() if said else "it failed"
    words = f"git: {reason}"
    unsafe = _UNSAFE.search(errors)
    if unsafe:
        place = shlex.quote(unsafe[1] or unsafe[2])
        remedy = f"git config --global --add safe.directory {place}"
        return GitError(f"{words}; {remedy}")
    if "not a git repository (or any" in errors and not (folder / ".git").exists():
        return NoRepositoryError(words)
    for pattern, remedy in _REMEDIES.items():
        if re.search(pattern, errors, re.IGNORECASE):
            return GitError(f"{words}; {remedy.format(folder=shlex.quote(str(folder)))}")
    return GitError(words)


def environment() -> dict[str, str]:
    """Return ours without what would point git to another repository.

    Nor shall git write: to look at a work tree brings its index up to date otherwise. What it says
    is in English, and it asks nobody for a password.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "LANGUAGE": ""}
    return kept | fixed
