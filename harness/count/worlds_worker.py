"""A worker that counts what a user's own function does in a step, under its hash seed.

``harness.count.worlds`` starts it with a job on standard input, as JSON; the answer goes to
standard output likewise.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from types import CodeType, FrameType
from typing import Any

from harness.system.forked import in_fork
from harness.system.serving import serve
from subjects.own.answers import with_errors
from subjects.own.stage import OURS, USERS, OwnStage

from .bytecodes import BytecodeCounter

# In these a user's code gets to where its later steps are like each other.
WARMUPS = 3


def count(job: dict[str, Any]) -> dict[str, Any]:
    """Return what each counted step did.

    ``bytecodes`` and ``allocated_bytes`` of each step; ``calls``, of all steps, the calls of
    functions that are not in Python, by name; ``retained_bytes`` of all steps.
    """
    # The collector could call Python code anywhere.
    gc.disable()
    found: dict[str, Any] = {}
    # Each imports the packages anew, in a process of its own.
    for work in (_bytecodes, _native_calls, _memory):
        answer = in_fork(partial(with_errors(work), job))
        if "failed" in answer or "refused" in answer:
            return dict(answer)
        found |= answer
    return found


def _world(job: dict[str, Any]) -> OwnStage:
    """Return a world after its warm-up."""
    stage = OwnStage(job["subject"], [job["arm"]], job["cell"], job["seed"])
    stage.load(0)
    stage.build()
    random.seed(job["seed"])
    for _ in range(WARMUPS):
        _step(stage, lambda call: call())
    return stage


def _step(stage: OwnStage, run: Callable[[Callable[[], object]], object]) -> object:
    """Have the call of one step run. Raises ArmError where it fails."""
    call = stage.ready(0)
    try:
        return run(call)
    except USERS as error:
        stage.tell(0, error)
        raise


def _bytecodes(job: dict[str, Any]) -> dict[str, Any]:
    """Return the bytecode instructions of each step."""
    found = []
    stage = _world(job)

    def classify(code: CodeType) -> str | None:
        return None if code.co_filename.startswith(OURS) else "bytecodes"

    with BytecodeCounter(classify) as counter:
        for _ in range(job["steps"]):
            call = stage.ready(0)
            try:
                with counter.counting() as counted:
                    call()
            except USERS as error:
                stage.tell(0, error)
                raise
            others = sum((own["bytecodes"] for own in counted.threads.values()), start=0)
            found.append(counted.here["bytecodes"] + others)
    return {"bytecodes": found}


def _native_calls(job: dict[str, Any]) -> dict[str, Any]:
    """Return how often each function that is not in Python was called from Python, by name."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, function: Any) -> None:  # noqa: ANN401
        if event == "c_call" and not frame.f_code.co_filename.startswith(OURS):
            calls[_name(function)] += 1

    def run(call: Callable[[], object]) -> None:
        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)

    stage = _world(job)
    for _ in range(job["steps"]):
        _step(stage, run)
    return {"calls": dict(+calls)}


def _name(function: Any) -> str:  # noqa: ANN401
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", repr(function))
    module = getattr(function, "__module__", None)
    if module is None and owner is not None and not isinstance(owner, type(sys)):
        return str(name)
    return f"{module}.{name}" if module not in (None, "builtins") else str(name)


def _memory(job: dict[str, Any]) -> dict[str, Any]:
    """Return how much a step has allocated at most, each, and how much all of them keep."""
    stage = _world(job)
    allocated, retained = [], 0
    tracemalloc.start()
    try:
        for _ in range(job["steps"]):
            call = stage.ready(0)
            gc.collect()  # What waits in a free list would be taken from there, unseen.
            before = _traced()
            tracemalloc.reset_peak()
            try:
                output = call()
            except USERS as error:
                stage.tell(0, error)
                raise
            allocated.append(tracemalloc.get_traced_memory()[1] - before)
            del output
            gc.collect()
            retained += _traced() - before
    finally:
        tracemalloc.stop()
    return {"allocated_bytes": allocated, "retained_bytes": retained}


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


if __name__ == "__main__":
    serve(count)
