"""A worker that imports a user's file with an arm's packages, and tells what is declared in it.

``harness.verify.worlds`` starts it with a job on standard input, as JSON; the answer goes to
standard output likewise.
"""

from __future__ import annotations

from typing import Any

from harness.system.serving import serve
from subjects.own.answers import with_errors
from subjects.own.stage import OwnStage


@with_errors
def tell(job: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of each function that is meant, by its name."""
    stage = OwnStage(job["subject"], [job["arm"]], None, "0")
    stage.load(0)
    functions = stage.functions()
    return {
        "functions": {name: [cell.to_dict() for cell in cells] for name, cells in functions.items()}
    }


if __name__ == "__main__":
    serve(tell)
