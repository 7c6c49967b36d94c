"""A worker that plays worlds of a user's own function to one arm, and tells what came of it.

``harness.verify.worlds`` starts it with a job on standard input, as JSON; the answer goes to
standard output likewise.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from harness.system.forked import in_fork
from harness.system.serving import serve
from subjects.own.answers import with_errors
from subjects.own.outcomes import Tree, digest_of
from subjects.own.stage import USERS, OwnStage

# Outputs that are looked at once more, after the last step.
_KEPT = 200


def play(job: dict[str, Any]) -> dict[str, Any]:
    """Return a digest of the outcome of each step of each run, or what went wrong.

    The last outcomes of a run are looked at again when it ends: one that a later step has changed
    gives another digest there. With ``wanted``, a step of the only run, return that outcome as a
    tree instead. Each run imports the packages anew, in a process of its own.
    """
    found: list[list[str]] = []
    for run in job["runs"]:
        answer = in_fork(partial(_answer, job, run))
        if "digests" not in answer:
            return dict(answer)
        found.append(answer["digests"])
    return {"digests": found}


@with_errors
def _answer(job: dict[str, Any], run: int) -> dict[str, Any]:
    trees, changed = _play_run(job, run)
    if job["wanted"] is not None:
        return {"tree": (*trees, *changed)[job["wanted"]]}
    return {"digests": [digest_of(tree) for tree in (*trees, *changed)]}


def _play_run(job: dict[str, Any], run: int) -> tuple[list[Tree], list[Tree]]:
    """Return the outcome of each step, and of the last ones as they are after all steps."""
    stage = OwnStage(job["subject"], [job["arm"]], job["cell"], f"{job['seed']}-{run}")
    stage.load(0)
    stage.build()
    trees, kept = [], []
    for _ in range(job["steps"]):
        call = stage.ready(0)
        try:
            output = call()
        except USERS as error:
            stage.tell(0, error)
            raise
        outcome = stage.outcome(0, output)
        trees.append(stage.tree(0, outcome))
        kept.append(outcome)
        del kept[:-_KEPT]
    return trees, [stage.tree(0, outcome) for outcome in kept]


if __name__ == "__main__":
    serve(play)
