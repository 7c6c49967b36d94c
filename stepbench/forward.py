"""Where the time of a forward comes from, of the options of ``stepbench overlap``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from harness.forward.forward_time import ForwardTime
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError

MODEL, GPU = "llama-3.1-8b", "b200"
# No forward and no host work of a step takes longer.
_LONGEST_MS = 10_000


def forward_time(
    forward_ms: float | None, model: str | None, gpu: str | None, gpus: int | None, device: str
) -> ForwardTime:
    """Return where the forward time comes from. Raises click.UsageError where that is not one."""
    given = {"--forward-ms": forward_ms, "--model": model, "--gpu": gpu, "--gpus": gpus}
    named = [name for name, value in given.items() if value is not None]
    if device == "cuda":
        for name in named:
            if name != "--model":
                raise click.UsageError(f"--device cuda measures the forward: {name} contradicts it")
        return ForwardTime(model=MODEL if model is None else model)
    if forward_ms is not None:
        if len(named) > 1:
            raise click.UsageError(f"{named[0]} and {named[1]} exclude each other")
        return ForwardTime(seconds("--forward-ms", forward_ms))
    return ForwardTime(
        model=MODEL if model is None else model, gpu=GPU if gpu is None else gpu, gpus=gpus or 1
    )


def seconds(option: str, milliseconds: float) -> float:
    """Return seconds. Raises click.UsageError where no step takes so long."""
    if not 0 <= milliseconds <= _LONGEST_MS:  # Nor not a number.
        raise click.UsageError(f"{option} takes milliseconds from 0 to {_LONGEST_MS:,}")
    return milliseconds / 1e3


def check_cuda(scenarios: Sequence[SteadyDecode | TraceReplay]) -> None:
    """Raise InputError unless these cells can be run on a GPU that is here."""
    if not all(isinstance(scenario, SteadyDecode) for scenario in scenarios):
        raise InputError("--device cuda takes cells: a trace replays on the simulated device")
    # PyTorch takes seconds to import.
    from harness.forward.cuda_device import import_torch

    import_torch()
