"""A benchmark and regression harness for host code that an engine runs once a step.

``step``, ``Step`` and ``grid`` are for a file of one's own (docs/subjects.md); all else is the
command line: one file a command, no logic.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subjects.own.step import Step, grid, step

__all__ = ["Step", "__version__", "grid", "step"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Return what is for a user's file, which the command line does not need to start."""
    if name in __all__:
        from subjects.own import step as module

        return getattr(module, name)
    raise AttributeError(f"module 'stepbench' has no attribute {name!r}")
