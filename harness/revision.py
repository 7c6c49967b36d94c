"""Which revision of this project measures."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def own_revision() -> tuple[str, bool] | None:
    """Return this project's git revision and whether the work tree differs from it.

    None where the code is no git checkout of its own, as when it was installed from a wheel.
    """
    # Asked of a file of ours, since a virtual environment can lie inside another repository.
    if git("ls-files", "--error-unmatch", "harness/revision.py") is None:
        return None
    revision = git("rev-parse", "HEAD")
    status = git("status", "--porcelain")
    if revision is None or status is None:
        return None
    return revision, bool(status)


def git(*arguments: str, strip: bool = True, folder: Path | None = None) -> str | None:
    """Return what a git command prints; None if it fails.

    Args:
        arguments: the command and its arguments.
        strip: leave out white space around the text.
        folder: where it runs; this project's by default.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder or ROOT), *arguments],
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=10,
            env=_environment(),
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout.strip() if strip else done.stdout


def git_bytes(*arguments: str, folder: Path | None = None) -> bytes | None:
    """Return the bytes that a git command prints, as of a file that need not be UTF-8.

    None if it fails.

    Args:
        arguments: the command and its arguments.
        folder: where it runs; this project's by default.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(folder or ROOT), *arguments],
            capture_output=True,
            check=True,
            timeout=10,
            env=_environment(),
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout


def _environment() -> dict[str, str]:
    """Return ours without what would point git to another repository, as in a git hook.

    Nor shall git write: to look at a work tree brings its index up to date otherwise.
    """
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
    kept = {name: value for name, value in os.environ.items() if name not in elsewhere}
    return kept | {"GIT_OPTIONAL_LOCKS": "0"}
