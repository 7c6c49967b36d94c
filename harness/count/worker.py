"""A worker that counts exact work: one cell, under the hash seed that it was started with.

``harness.count.passes`` starts it with a job on standard input, as JSON; what it counted, or what
went wrong, goes to standard output likewise.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from harness.arms.loading import ArmOfSource
from harness.arms.registry import ArmFactory, RegisteredArm
from harness.arms.sources import ArmSource
from harness.system.serving import serve
from scenarios.scenario import from_dict
from stepbench_core.errors import ArmError, InputError, NotRunnableError, described

from .delegated import watch_starts
from .work import Work, count_work

# Seconds after which one thread makes way for another that waits for the interpreter: so long that
# it does so only when it has to wait itself, at the same place each time.
_SWITCH = 0.5
# Sizes in bytes of small objects, which have memory of their own each, and how many of each.
_SIZES, _MOST = range(16, 513, 16), 500


def count(job: dict[str, Any]) -> dict[str, Any]:
    """Return what each arm of a job did, or what went wrong."""
    watch_starts()
    sys.setswitchinterval(_SWITCH)
    kept = _shake(job["shake"])
    try:
        arms = {name: _factory(name, source) for name, source in job["arms"].items()}
        scenario = from_dict(job["scenario"])
        works = count_work(scenario, arms, job["seed"], few=job["few"])
        return {"works": [_record(work) for work in works]}
    except ArmError as error:
        return {"error": "arm", "message": str(error), "trace": error.trace}
    except NotRunnableError as error:
        return {"error": "not runnable", "message": str(error)}
    except InputError as error:
        return {"error": "input", "message": str(error)}
    except BaseException as error:  # The arm's own and nobody's signal: sys.exit, for one.
        return {"error": "worker", "message": described(error)}
    finally:
        del kept


def _factory(name: str, source: dict[str, Any] | None) -> ArmFactory:
    return RegisteredArm(name) if source is None else ArmOfSource(ArmSource(**source))


def _record(work: Work) -> dict[str, Any]:
    """Return the work as plain values, without the cell, which whoever asked knows."""
    return {name: value for name, value in vars(work).items() if name != "scenario"} | {
        "delegated": vars(work.delegated)
    }


def _shake(number: int) -> list[object]:
    """Return what has to be kept so that objects lie elsewhere in memory than without it.

    Args:
        number: another one gives other places; 0 leaves them.
    """
    if not number:
        return []
    draw = random.Random(number)
    made: list[object] = []
    for size in _SIZES:
        for _ in range(draw.randrange(_MOST)):
            # An empty bytes object has 33; smaller than that are these two.
            made.append(object() if size == 16 else 0.5 * size if size == 32 else bytes(size - 33))
    # What is freed in between, in any order, is taken by what comes next.
    draw.shuffle(made)
    del made[len(made) // 2 :]
    return made


if __name__ == "__main__":
    serve(count)
