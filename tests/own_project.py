"""A user's project for tests: a package in a git repository, and a file that measures it."""

import subprocess
from pathlib import Path

BATCHING = """
from dataclasses import dataclass

@dataclass
class Batch:
    ids: list
    total: int

class Joiner:
    def __init__(self, requests):
        self.lengths = [0] * requests

    def receive(self):
        self.lengths = [length + 1 for length in self.lengths]

    def step(self):
        from .weights import weight

        ids = [(index, length) for index, length in enumerate(self.lengths)]
        return Batch(ids, sum(weight(length) for length in self.lengths))
"""

FILES = {
    "pyproject.toml": '[project]\nname = "joiner"\nversion = "1"\n',
    "src/joiner/__init__.py": "from .batching import Joiner\n",
    "src/joiner/batching.py": BATCHING,
    "src/joiner/weights.py": "def weight(length):\n    return length * 2\n",
    "bench_join.py": """
import stepbench

@stepbench.step(cells=stepbench.grid(requests=[4, 16], tokens=[8]))
def join(cell, seed):
    from joiner import Joiner

    joiner = Joiner(cell["requests"])
    return stepbench.Step(joiner.step, advance=joiner.receive)
""",
}


def write(root: Path, files: dict[str, str]) -> None:
    """Write files by their paths below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commit(root: Path, message: str = "x", tag: str | None = None) -> None:
    """Commit all that is in a folder, which becomes a repository where it is none."""
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    if not (root / ".git").exists():
        subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", message], check=True)
    if tag is not None:
        subprocess.run([*git, "tag", tag], check=True)


def make(root: Path, **changed: str) -> Path:
    """Make the project, with a tag ``one``; returns its folder.

    Args:
        root: where to.
        changed: further files, or other texts of files, by their paths with ``__`` for ``/``.
    """
    write(root, FILES | changed)
    commit(root, tag="one")
    return root
