"""Processes of ``stepbench overlap`` that were made up: every time is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.arms.sources import find_source
from harness.forward.forward_time import ForwardTime
from harness.overlap.model import exposed_time
from harness.overlap.run import CellRun, OverlapPlan
from scenarios.scenario import SteadyDecode, TraceReplay

CELL = SteadyDecode(requests=2, tokens=64)


def make_segments(
    paths: Sequence[float],
    forward: float,
    *,
    other: float = 0.0,
    launch: float = 0.0,
    between: float = 0.0,
    iterations: int = 3,
    departure: float = 0.0,
) -> list[dict[str, Any]]:
    """Return a process's segments for arms whose paths take so long, as the model has them.

    Args:
        paths: seconds of each arm's path.
        forward: seconds of each forward.
        other, launch, between: seconds of the other parts of the host's time.
        iterations: measured iterations.
        departure: by what share the steps are longer than the model's.
    """
    segments = []
    for arm, path in enumerate(paths):
        for overlap in (False, True):
            exposed = exposed_time(path + other + launch + between, forward, overlap=overlap)
            values = {
                "between": between,
                "path": path,
                "background": 0.0,
                "other": other,
                "launch": launch,
                "forward": forward,
                "exposed": exposed,
                "step": (exposed + forward) * (1 + departure),
            }
            columns = {name: [value] * (iterations + 1) for name, value in values.items()}
            segments.append({"arm": arm, "overlap": overlap, "alive": [], **columns})
    return segments


def make_plan(
    *scenarios: SteadyDecode | TraceReplay,
    arms: Sequence[str] = ("full-copy", "incremental"),
    forward: ForwardTime | None = None,
    **others: Any,  # noqa: ANN401
) -> OverlapPlan:
    """Return a plan with a forward of 4 ms."""
    return OverlapPlan(
        tuple(map(find_source, arms)),
        scenarios or (CELL,),
        forward or ForwardTime(0.004),
        provider="python",
        **others,
    )


def make_run(
    scenario: SteadyDecode | TraceReplay,
    processes: Sequence[Sequence[dict[str, Any]]],
    *,
    device: Mapping[str, Any] | None = None,
    failure: str | None = None,
    cpu_share: float = 0.99,
) -> CellRun:
    """Return a cell's run of processes with these segments."""
    about = {"cpu_share": cpu_share, "device": dict(device or {})}
    found = [{"segments": list(segments), **about} for segments in processes]
    return CellRun(scenario, found, failure)
