"""A group of a duet whose copies have processes of their own, which take turns at single steps.

``harness.compare.duet`` starts it as ``python -m harness.compare.apart_leader`` in place of a
duet's worker, with the same job on standard input, and gets the same on standard output. It starts
a worker for each copy (``harness.compare.apart_worker``), on its own core, and gives the turns.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from harness.system.serving import serve
from harness.system.turns import run_in_turns
from harness.system.worker_process import Child, module_command, read_answer
from stepbench_core.errors import LostWorkerError, NotRunnableError, WorkerError

from .calls import iterations, mirrored_order


def lead(job: dict[str, Any]) -> dict[str, Any]:
    """Return what the workers of a job found, which inherit its core; or what went wrong."""
    rng = random.Random(f"order {job['seed']}")
    # One worker is set up after the other.
    imports = mirrored_order(len(job["sources"]) // 2, rng)
    place = {copy: index for index, copy in enumerate(imports)}
    orders: list[list[int]] = []

    def turns() -> Iterator[Sequence[int]]:
        for counts, order in iterations(job, rng):
            if counts:
                orders.append(order)
            yield [place[copy] for copy in order]

    children = [_child(job, copy) for copy in imports]
    try:
        texts = run_in_turns(children, turns(), job["limit"])
        read = list(map(_read, children, texts))
    except NotRunnableError as error:
        return {"refused": str(error)}
    except LostWorkerError as error:
        return {"lost": str(error)}
    except WorkerError as error:
        return {"failed": str(error)}
    merged = _merged([read[place[copy]] for copy in range(len(imports))])
    return {**merged, "imports": imports, "orders": orders}


def _child(job: dict[str, Any], copy: int) -> Child:
    """Return the worker of a copy."""
    again, arm = divmod(copy, len(job["sources"]) // 2)
    what = f"{job['what']}, copy {again + 1} of {job['sources'][arm]['spec']}"
    text = json.dumps({**job, "copy": copy})
    command = module_command("harness.compare.apart_worker")
    return Child(what, command, job["hash_seed"], text)


def _read(child: Child, text: str | WorkerError) -> dict[str, Any]:
    """Return what a worker told. Raises WorkerError if that is nothing."""
    if isinstance(text, WorkerError):
        raise text
    told = read_answer(child.what, text, dict[str, Any])
    if "failed" in told:
        raise WorkerError(told["failed"])
    if "refused" in told:
        raise NotRunnableError(told["refused"])
    return told


def _merged(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what is told of the group, of what is told of each copy."""
    idle = [0.0] * len(each[0]["seconds"][0])
    beside = [one["background"] for one in each]
    return {
        "seconds": [one["seconds"][0] for one in each],
        "background": [idle if own is None else own[0] for own in beside] if any(beside) else None,
        "alive": [one["alive"][0] for one in each],
        "is_restless": any(one["is_restless"] for one in each),
        "cpu_share": min(one["cpu_share"] for one in each),
    }


if __name__ == "__main__":
    serve(lead)
