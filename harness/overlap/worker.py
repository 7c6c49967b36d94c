"""A worker process of ``stepbench overlap``: the executor's loop with each arm, in both orders.

``harness.overlap.run`` starts it as ``python -m harness.overlap.worker`` with a job on standard
input; the iterations go to standard output, both as JSON.
"""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from types import ModuleType
from typing import Any

from harness.arms.loading import create, load_apart
from harness.arms.missing import not_runnable
from harness.arms.sources import ArmSource
from harness.forward.devices import Device, SimulatedDevice
from harness.forward.forward_time import ForwardTime
from harness.system.background import Background, CoreShare
from harness.system.serving import serve
from scenarios.scenario import SteadyDecode, TraceReplay, from_dict
from scenarios.workload import create_workload
from stepbench_core.errors import described

from .loop import Iteration, Sweep, run_loop

# What is kept of an iteration.
FIELDS = tuple(Iteration.__dataclass_fields__)


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """Return what a process found.

    ``segments``, one for each arm and order as they ran: ``arm`` (its index), ``overlap``,
    ``alive`` (the threads and child processes that the path left behind), and
    for each of ``FIELDS`` the seconds of each iteration; ``cpu_share``: how much of its core the
    process had; ``device``: what it says of itself.

    Raises:
        RuntimeError: an arm raised something; names it.
    """
    scenario = from_dict(job["scenario"])
    forward = ForwardTime(**job["forward"])
    rng = random.Random(f"order {job['seed']}")
    sources = [ArmSource(**source) for source in job["sources"]]
    imports = rng.sample(range(len(sources)), len(sources))
    background = Background()
    modules, alive = {}, {}
    for index in imports:
        modules[index] = load_apart(sources[index], f"_stepbench_overlap_{index}")
        alive[index] = background.newcomers()
    device, about = create_device(job["device"], forward, scenario)
    sweep = Sweep(job["swept"]) if job["swept"] else None
    turns = [(index, overlap) for index in range(len(sources)) for overlap in (False, True)]
    rng.shuffle(turns)
    segments = []
    share = CoreShare(background)
    for index, overlap in turns:
        background.restart()
        arm = modules[index], sources[index]
        iterations = _run_segment(
            job, scenario, device, forward, sweep, arm, background, overlap=overlap
        )
        alive[index] |= background.newcomers()
        values = {name: [getattr(each, name) for each in iterations] for name in FIELDS}
        segments.append({"arm": index, "overlap": overlap, "alive": sorted(alive[index]), **values})
    return {"segments": segments, "cpu_share": share.value(), "device": about()}


def create_device(
    kind: str, forward: ForwardTime, scenario: SteadyDecode | TraceReplay
) -> tuple[Device, Any]:
    """Return a device, and what returns its description once the loops are done."""
    if kind == "simulated":
        return SimulatedDevice(), dict
    # PyTorch takes seconds to import.
    from harness.forward.cuda_device import create_cuda_device

    if forward.model is None or not isinstance(scenario, SteadyDecode):
        raise ValueError("a real GPU runs the forward of a model, for a steady cell")
    return create_cuda_device(forward.model, scenario)


def _run_segment(
    job: dict[str, Any],
    scenario: SteadyDecode | TraceReplay,
    device: Device,
    forward: ForwardTime,
    sweep: Sweep | None,
    loaded: tuple[ModuleType, ArmSource],
    background: Background,
    *,
    overlap: bool,
) -> list[Iteration]:
    """Run one arm in one order, on a workload of its own: the same for all arms."""
    # One more, whose step is not complete under overlap.
    count = job["warmups"] + job["iterations"] + 1
    own = replace(scenario, overlap=overlap)
    workload = create_workload(own, count, job["seed"], job["provider"])
    arm = create(*loaded, attention_dp=False)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        found = run_loop(
            device,
            workload,
            arm,
            forward.of_batch,
            overlap=overlap,
            iterations=count,
            other_host=job["other_host"],
            sweep=sweep,
            background=background,
        )
    except Exception as error:
        source = loaded[1]
        refused = not_runnable(error, {source.spec: source.filename})
        if refused is not None:
            raise refused from error
        raise RuntimeError(f"arm {source.spec}: {described(error)}") from error
    finally:
        gc.unfreeze()
        gc.enable()
    # The last warm-up counts only as what came before the first measured iteration.
    return found[job["warmups"] - 1 : -1]


if __name__ == "__main__":
    serve(measure)
