"""A copy of this repository with a history of its own, for the gate to run in."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .conftest import Ran

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = (
    *("connector", "harness", "reports", "scenarios", "stepbench", "stepbench_core", "stubs"),
    "subjects",
)

# The first commit of a copy; this repository has no such revision.
BASE = "only-in-the-copy"
CELL = "v2-50x512"
CONFIG = f"""\
[gate]
arms = ["incremental", "batched"]
scenario = "small"
cells = ["{CELL}"]
base = "{BASE}"
runs = 5
growth = {{ batched = 0.01 }}
"""
_CELLS = (
    "for requests in (1, 8, 64)\n            for tokens in (64, 512, 4_096)",
    "for requests in (50,)\n            for tokens in (128, 512)",
)


@dataclass(frozen=True)
class Copy:
    """A copy: its work tree, where it runs commands, and where it notes what they leave."""

    root: Path

    @staticmethod
    def of_this_repository(root: Path) -> "Copy":
        """Make a copy with two small cells, a budget for them and a first commit."""
        for name in _files():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        copy = Copy(root)
        copy.write("stepbench.toml", CONFIG)
        copy.edit("scenarios/catalogue.py", *_CELLS)
        (root / "budgets.toml").unlink(missing_ok=True)
        copy.update()
        copy.git("init", "--quiet")
        copy.git("add", "--all")
        copy.git("commit", "--quiet", "--message", "A base")
        copy.git("tag", BASE)
        return copy

    def again(self, root: Path) -> "Copy":
        """Return a copy of this copy, to be changed."""
        shutil.copytree(self.root, root)
        return Copy(root)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def edit(self, name: str, *changes: str) -> None:
        """Replace in a file what is there once: old and new text, in turn."""
        text = (self.root / name).read_text()
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        self.write(name, text)

    def update(self, *arms: str) -> None:
        """Write the budget file as an author does who accepts what is counted."""
        names = ",".join(("incremental", "batched", *arms, "floor"))
        ran = self.run("count", "--update", "-q", "--scenario", "small", "--arms", names)
        assert ran.code == 0, ran.err

    def gate(self, *arguments: str) -> Ran:
        return self.run("gate", "--cpu", "none", "--jobs", "2", *arguments)

    def run(self, *arguments: str) -> Ran:
        """Run the command of the copy."""
        return self.python("-m", "stepbench", *arguments)

    def python(self, *arguments: str) -> Ran:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.root, env=self._environment(), check=True)

    def _environment(self) -> dict[str, str]:
        """Return an environment in which the copy's code runs and nothing reaches outside it."""
        # Coverage would look for the copy's files when they are gone.
        gone = ("COVERAGE", "GIT_", "GITHUB_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
        locks = self.root.parent / f"{self.root.name}-temporary"
        locks.mkdir(exist_ok=True)
        person = {"NAME": "A. N. Author", "EMAIL": "author@example.org"}
        for role in ("AUTHOR", "COMMITTER"):
            env |= {f"GIT_{role}_{what}": value for what, value in person.items()}
        return env | {
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONPATH": str(self.root),
            "TMPDIR": str(locks),
        }


def _files() -> list[str]:
    """Return what belongs to this repository, as git says, or its packages where there is none."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        found = [name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for name in _PACKAGES for path in (ROOT / name).rglob("*.py")]
        found = [str(path.relative_to(ROOT)) for path in paths]
    return [name for name in found if (ROOT / name).is_file() and not name.startswith("tests/")]
