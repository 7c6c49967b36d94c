"""What of the host's time a step pays for, as pure functions.

Without overlap the device waits for the host in every step, and the host for the device: a step
takes ``host + forward``, and all of the host's time is exposed. With the overlap scheduler the host
prepares step *n* while the device runs *n - 1*: a step takes ``max(host, forward)``, and what is
exposed is ``max(0, host - forward)``. The host's time is that of the measured path, other host work
before the launch, and the launch.

All times are in seconds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from harness.stats.estimates import Estimate, student_t

from .loop import Iteration


def exposed_time(host: float, forward: float, *, overlap: bool) -> float:
    """Return how long the device waits for the host in each step."""
    return max(0.0, host - forward) if overlap else host


def predict(iterations: Sequence[Iteration], *, overlap: bool) -> list[float]:
    """Return the exposed time of each iteration but the first, as the model has it.

    Of its own host time, and of the forward before, which may hide some of it.
    """
    return [
        exposed_time(each.host, before.forward, overlap=overlap)
        for before, each in pairwise(iterations)
    ]


@dataclass(frozen=True)
class Sample:
    """What one process says of one arm in one order; all in seconds.

    Attributes:
        path, background, other_host, launch, between: the parts of the host's time;
            ``background`` is CPU time that the path leaves to others, ``between`` what the
            stand-ins do where the time cannot be stopped meanwhile.
        path_mean: the mean of the path and of what it leaves to others, where the others are
            medians.
        host: their sum.
        forward: how long the forward ran.
        exposed: how long the device waited before it.
        hidden: the rest of the host's time.
        step: what a step took.
        predicted_exposed, predicted_step: what it would be after the model.
        engine_exposed: the same without ``between``, as on an engine, which has no stand-ins.
    """

    path: float
    path_mean: float
    background: float
    other_host: float
    launch: float
    between: float
    host: float
    forward: float
    exposed: float
    hidden: float
    step: float
    predicted_exposed: float
    predicted_step: float
    engine_exposed: float


def summarise(iterations: Sequence[Iteration], *, overlap: bool, is_steady: bool) -> Sample:
    """Return what a process says: the median of its iterations, or their mean.

    Args:
        iterations: at least two; the first counts only as what came before the second.
        overlap: in which order they ran.
        is_steady: whether all are alike. Those of a trace are not: each counts by its time.
    """
    middle: Callable[[Sequence[float]], float]
    middle = statistics.median if is_steady else statistics.fmean
    exposed = predict(iterations, overlap=overlap)
    engine = predict([replace(each, between=0.0) for each in iterations], overlap=overlap)
    own = iterations[1:]
    return Sample(
        path=middle([each.path for each in own]),
        path_mean=statistics.fmean([each.path + each.background for each in own]),
        background=statistics.fmean([each.background for each in own]),
        other_host=middle([each.other for each in own]),
        launch=middle([each.launch for each in own]),
        between=middle([each.between for each in own]),
        host=middle([each.host for each in own]),
        forward=middle([each.forward for each in own]),
        exposed=middle([each.exposed for each in own]),
        hidden=middle([max(0.0, each.host - each.exposed) for each in own]),
        step=middle([each.step for each in own]),
        predicted_exposed=middle(exposed),
        predicted_step=middle(
            [each.forward + waited for each, waited in zip(own, exposed, strict=True)]
        ),
        engine_exposed=middle(engine),
    )


def over_processes(values: Sequence[float]) -> Estimate:
    """Return the mean over processes with its t interval; of one process it is infinitely wide.

    Not of logarithms: what is exposed may be nothing, and a difference may have either sign.
    """
    value = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(value, -math.inf, math.inf)
    half = student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(value, value - half, value + half)
