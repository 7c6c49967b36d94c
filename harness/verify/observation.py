"""What an arm depends on beside its source: the environment and the packages around it.

Found in an untimed pass, in a process of its own: the arm is imported, and a few random runs are
played to it. So nothing of it is in what is timed.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

from harness.arms.environment import Environment, environment_of
from harness.arms.linking import OWN, is_linked
from harness.arms.loading import ArmOfSource, create, load_apart
from harness.arms.needs import playable
from harness.arms.own_os import Reads, bind_os
from harness.arms.registry import SchedulerOutputManager
from harness.arms.sources import ArmSource
from scenarios.operations import random_run

from .episode import compare_episode

# What a worker's environment lacks of ours.
_KEPT_OF_PYTHON = "PYTHONPATH"
_RUNS = 10


def imports_os(source: ArmSource) -> bool:
    """Return whether a source can read the environment: it imports ``os``."""
    tree = _parsed(source)
    return tree is not None and bind_os(tree, "os")


def observe(source: ArmSource) -> Environment:
    """Import an arm, play to it, and return what it read of the environment.

    Raises:
        InputError: it cannot be imported.
    """
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        if name != _KEPT_OF_PYTHON:
            del os.environ[name]
    reads = Reads()
    module = load_apart(source, "_stepbench_observed", reads)

    def make(attention_dp: bool) -> SchedulerOutputManager:
        return create(module, source, attention_dp)

    # What it raises is for those to say who look at what it does.
    with contextlib.suppress(Exception):
        lacks = ArmOfSource(source).lacks()
        for run in range(_RUNS):
            for episode in random_run(0, run):
                can_be, _ = playable(episode, lacks)
                if can_be is not None:
                    compare_episode(can_be, make, {})
    whole = {**os.environ, **source.variables}
    return environment_of(reads, source.text, whole, source.variables)


def version_of(package: str) -> str:
    """Return the version of a package, with the digest of its file where it is a single one."""
    version = ""
    with contextlib.suppress(Exception):  # What is installed can be broken in any way.
        version = importlib.metadata.version(package)
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec(package)
        if spec is None:
            return "not installed"
        if spec.origin is not None and spec.submodule_search_locations is None:
            digest = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:12]
            return f"{version} (sha256 {digest})".strip()
    return version or "of unknown version"


def packages(source: ArmSource) -> list[str]:
    """Return the packages that a source imports as they are, but for Python's own and ours."""
    found = set()
    tree = _parsed(source)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    # Of a linked source, what does not come from the surface; what is not installed is none.
    roots = {
        name.partition(".")[0]
        for name in found
        if not source.is_linked or not is_linked(name, is_needed=True)
    }
    # What is of this project has its revision.
    return sorted(roots - sys.stdlib_module_names - OWN)


def _parsed(source: ArmSource) -> ast.Module | None:
    try:
        return ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return None
