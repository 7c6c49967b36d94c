"""What two revisions of an arm have in common when they are loaded side by side.

Each arm is loaded from its own source. What it imports of its package is today's for both.
"""

from __future__ import annotations

import ast
from pathlib import Path

from harness.system import git

from .registry import ARMS
from .revision import ROOT

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def changed_shared_code(revision: str) -> list[str]:
    """Return the modules, of all that arms can import of their package, that are not as they were.

    Args:
        revision: a git revision of this project that exists.

    Raises:
        GitError: git gives no answer.
    """
    arms = {f"{module.replace('.', '/')}.py" for module in ARMS.values()}
    listed = git.git("ls-tree", "--name-only", revision, "./connector/", folder=ROOT)
    paths = {path for path in listed.splitlines() if path.endswith(".py")}
    paths |= {f"connector/{path.name}" for path in (ROOT / "connector").glob("*.py")}
    return [
        path
        for path in sorted(paths - arms)
        if not same_code(git.read_at(revision, f"./{path}", ROOT), _text(ROOT / path))
    ]


def same_code(before: str | None, now: str | None) -> bool:
    """Return whether two sources do the same whatever they do: but for comments and docstrings."""
    if before is None or now is None or before == now:
        return before == now
    try:
        return _without_words(before) == _without_words(now)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _without_words(text: str) -> str:
    """Return a source's syntax tree without comments, which it lacks anyway, and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(node, _DOCUMENTED) or not body:
            continue
        first = body[0]
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if is_text and isinstance(first.value.value, str):
            first.value.value = ""
    return ast.dump(tree)


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
