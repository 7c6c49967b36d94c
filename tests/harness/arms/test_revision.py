import os
import subprocess
from pathlib import Path

import pytest

from harness.arms import revision
from harness.arms.revision import Revision, own_revision, revision_words

ELSEWHERE = "stepbench does not run from a git checkout of its own"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(autouse=True)
def without_git_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the user's git configuration, and the variables that git sets for its hooks."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A git repository with our file in it, taken for this project's folder."""
    root = tmp_path / "checkout"
    (root / "harness/arms").mkdir(parents=True)
    (root / "harness/arms/revision.py").write_text("# ours\n")
    git(tmp_path, "init", "--quiet", "checkout")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--no-gpg-sign", "-m", "Begin")
    monkeypatch.setattr(revision, "ROOT", root)
    return root


def test_a_clean_checkout_has_a_revision(checkout: Path):
    head = git(checkout, "rev-parse", "HEAD")
    assert len(head) == 40
    assert own_revision() == Revision(head)


@pytest.mark.parametrize("name", ["harness/arms/revision.py", "new.py"])
def test_a_changed_or_new_file_makes_it_dirty(checkout: Path, name: str):
    (checkout / name).write_text("# changed\n")
    assert own_revision() == Revision(git(checkout, "rev-parse", "HEAD"), dirty=True)


def test_a_staged_change_makes_it_dirty(checkout: Path):
    (checkout / "harness/arms/revision.py").write_text("# changed\n")
    git(checkout, "add", ".")
    assert own_revision() == Revision(git(checkout, "rev-parse", "HEAD"), dirty=True)


def test_an_ignored_file_does_not_make_it_dirty(checkout: Path):
    (checkout / ".git/info").mkdir(exist_ok=True)
    (checkout / ".git/info/exclude").write_text("results/\n")
    (checkout / "results").mkdir()
    (checkout / "results/a.json").write_text("{}")
    assert own_revision() == Revision(git(checkout, "rev-parse", "HEAD"))


def test_an_installation_inside_another_repository_is_none_of_its_revisions(
    monkeypatch: pytest.MonkeyPatch, checkout: Path
):
    installed = checkout / "venv/lib/site-packages"
    (installed / "harness/arms").mkdir(parents=True)
    (installed / "harness/arms/revision.py").write_text("# ours\n")
    monkeypatch.setattr(revision, "ROOT", installed)
    assert own_revision() == Revision(None, why=ELSEWHERE)


def test_outside_git_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    assert own_revision() == Revision(None, why=ELSEWHERE)


def test_before_the_first_commit_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "harness/arms").mkdir(parents=True)
    (tmp_path / "harness/arms/revision.py").write_text("# ours\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    assert own_revision() == Revision(None, why="its git repository has no commit yet")


def test_without_git_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkout: Path):
    assert own_revision().commit is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (checkout / "harness/arms/revision.py").exists()
    assert own_revision().why.startswith("git: not on the PATH: ")


def test_a_checkout_of_somebody_else_says_so(monkeypatch: pytest.MonkeyPatch, checkout: Path):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = own_revision()
    assert found.commit is None
    assert found.why == (
        f"git: detected dubious ownership in repository at '{checkout}'; "
        f"git config --global --add safe.directory {checkout}"
    )
    assert revision_words(found.as_metadata()) == f"unknown ({found.why})"
    assert revision_words(found.as_metadata(), why=False) == "unknown"


@pytest.mark.parametrize("damage", ["HEAD", "index"])
def test_a_damaged_repository_says_so(checkout: Path, damage: str):
    (checkout / ".git" / damage).write_text("nonsense")
    found = own_revision()
    assert found.commit is None
    assert found.why.startswith("git: ")
    assert "damaged" in found.why
