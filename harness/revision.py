"""Which revision of this project measures."""

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


def git(*arguments: str, strip: bool = True) -> str | None:
    """Return what a git command prints in this project's folder; None if it fails.

    Args:
        arguments: the command and its arguments.
        strip: leave out white space around the text.
    """
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout.strip() if strip else done.stdout
