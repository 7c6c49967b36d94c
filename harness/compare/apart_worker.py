"""A worker process of a duet with a single copy of an arm, which takes turns with the others.

``harness.compare.apart_leader`` starts it as ``python -m harness.compare.apart_worker`` with a job
on standard input. A turn is a step (``harness.system.turns``): its workload, built of the same seed
as the others' are, is moved on, and the call is timed. The samples go to standard output, as JSON.
"""

from typing import Any

from harness.system.background import Background, CoreShare
from harness.system.serving import serve_in_turns
from harness.system.turns import Turns

from .calls import build, loaded, timed, told
from .stages import create_stage, failures_told


@failures_told
def measure(job: dict[str, Any], turns: Turns) -> dict[str, Any]:
    """Return the samples of the copy that a job names."""
    background = Background()
    stage, copy = create_stage(job), job["copy"]
    calls = loaded(stage, copy, background)
    build(stage, gc_on=job["gc"])

    share, step = CoreShare(background), 0
    while share.sit_out(turns.wait):
        if step == job["warmups"]:
            background.look()
        stage.advance()
        timed(stage, copy, calls, counts=step >= job["warmups"])
        if step >= job["warmups"]:
            background.watch()
        step += 1

    return {**told([calls]), "cpu_share": share.value()}


if __name__ == "__main__":
    serve_in_turns(measure)
