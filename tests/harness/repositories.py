"""Git repositories made by tests, whatever git is set up to do here."""

import os
import subprocess
from pathlib import Path

import pytest


def isolate_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let git see no settings, and no repository around the folder of the test."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


def init(root: Path) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch", "main")
    return root


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(root: Path, path: str, text: str) -> str:
    """Commit one file, and return the commit."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--no-gpg-sign", "-m", "Change: it")
    return git(root, "rev-parse", "HEAD")
