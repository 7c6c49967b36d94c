"""Which revision of this project measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.system import git

ROOT = Path(__file__).resolve().parents[2]

# Names of the metadata that hold it.
REVISION, DIRTY, WHY_UNKNOWN = "stepbench_revision", "stepbench_dirty", "stepbench_revision_unknown"


@dataclass(frozen=True)
class Revision:
    """The revision of this project.

    Attributes:
        commit: the commit; None where it is unknown.
        dirty: whether the work tree differs from it.
        why: why it is unknown, in words; empty where it is not.
    """

    commit: str | None
    dirty: bool = False
    why: str = ""

    def as_metadata(self) -> dict[str, str | int]:
        """Return what is noted with a measurement."""
        if self.commit is None:
            return {WHY_UNKNOWN: self.why}
        return {REVISION: self.commit, DIRTY: int(self.dirty)}


def own_revision() -> Revision:
    """Return this project's git revision and whether the work tree differs from it.

    It is unknown where git cannot tell, and where the code is no git checkout of its own, as when
    it was installed from a wheel.
    """
    elsewhere = Revision(None, why="stepbench does not run from a git checkout of its own")
    try:
        # Asked of a file of ours, since a virtual environment can lie inside another repository.
        if not git.holds("harness/arms/revision.py", ROOT):
            return elsewhere
        commit = git.find_commit("HEAD", ROOT)
        if commit is None:
            return Revision(None, why="its git repository has no commit yet")
        return Revision(commit, bool(git.git("status", "--porcelain", folder=ROOT).strip()))
    except git.NoRepositoryError:
        return elsewhere
    except git.GitError as error:
        return Revision(None, why=str(error))


def revision_words(metadata: Mapping[str, object], *, why: bool = True) -> str:
    """Return the revision that metadata note, in short: ``0123456789ab with local changes``.

    Args:
        metadata: what is noted with a measurement.
        why: whether to say why it is unknown, where it is.
    """
    commit = metadata.get(REVISION)
    if commit is None:
        reason = metadata.get(WHY_UNKNOWN) if why else None
        return f"unknown ({reason})" if reason else "unknown"
    return str(commit)[:12] + (" with local changes" if metadata.get(DIRTY) else "")
