"""A worker process of a duet with a single copy of an arm, which takes turns with the others.

``harness.compare.apart_leader`` starts it as ``python -m harness.compare.apart_worker`` with a job
on standard input. A turn is a step (``harness.system.turns``): its workload, built of the same seed
as the others' are, is moved on, and the call is timed. The samples go to standard output, as JSON.
"""

from typing import Any

from harness.arms.missing import refuse_uncaught
from harness.arms.sources import ArmSource
from harness.system.background import Background, CoreShare
from harness.system.serving import serve_in_turns
from harness.system.turns import Turns

from .calls import created_calls, prepared_workload, told


def measure(job: dict[str, Any], turns: Turns) -> dict[str, Any]:
    """Return the samples of the copy that a job names."""
    background = Background()
    source = ArmSource(**job["sources"][job["copy"]])
    refuse_uncaught({source.spec: source.filename})
    calls = created_calls(source, job["copy"], background)
    workload = prepared_workload(job)

    share, step = CoreShare(background), 0
    while share.sit_out(turns.wait):
        if step == job["warmups"]:
            background.look()
        workload.advance()
        calls.time(workload, counts=step >= job["warmups"])
        if step >= job["warmups"]:
            background.watch()
        step += 1

    return {**told([calls]), "cpu_share": share.value()}


if __name__ == "__main__":
    serve_in_turns(measure)
