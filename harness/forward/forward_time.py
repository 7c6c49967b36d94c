"""Where the time of a forward comes from: a number, a roofline, or a real GPU."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from harness.stats.estimates import is_finite
from scenarios.scenario import SteadyDecode, TraceReplay
from stubs.batch import ScheduledRequests

from .roofline import batch_work, bound, held_bytes, steady_work
from .specs import FP8, find_gpu, find_model


@dataclass(frozen=True)
class ForwardTime:
    """Either ``seconds``, or a ``model``: on a ``gpu``, or alone, to be measured.

    Attributes:
        seconds: what every forward takes.
        model: name of a model.
        gpu: name of a GPU.
        gpus: so many of them share the work.

    Raises:
        InputError: there is no such model or GPU.
        ValueError: it is neither, or both, or a number is none.
    """

    seconds: float | None = None
    model: str | None = None
    gpu: str | None = None
    gpus: int = 1

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.model is None):
            raise ValueError("a forward takes a time or is that of a model")
        if self.seconds is not None and not _is_time(self.seconds):
            raise ValueError(f"{self.seconds!r} is no time")
        if type(self.gpus) is not int or self.gpus < 1:
            raise ValueError(f"{self.gpus!r} is no number of GPUs")
        if self.model is not None:
            find_model(self.model)
        if self.gpu is not None:
            find_gpu(self.gpu)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, which the class takes back."""
        return asdict(self)

    def of_batch(self, batch: ScheduledRequests) -> float:
        """Return the seconds that the forward of a batch takes; 0 where a device says itself."""
        if self.seconds is not None:
            return self.seconds
        if self.model is None or self.gpu is None:
            return 0.0
        work = batch_work(batch)
        return bound(find_model(self.model), find_gpu(self.gpu), work, self.gpus).seconds

    def bound_by(self, scenario: SteadyDecode | TraceReplay) -> str | None:
        """Return what bounds the forward of a steady cell, in a word; None where that is open."""
        if self.model is None or self.gpu is None or not isinstance(scenario, SteadyDecode):
            return None
        work = steady_work(scenario)
        found = bound(find_model(self.model), find_gpu(self.gpu), work, self.gpus)
        return "memory" if found.is_memory else "compute"

    def share_of_memory(self, scenario: SteadyDecode | TraceReplay) -> float | None:
        """Return what weights and KV cache of a steady cell take of each GPU's memory."""
        if self.model is None or self.gpu is None or not isinstance(scenario, SteadyDecode):
            return None
        tokens = scenario.requests * scenario.tokens
        return held_bytes(find_model(self.model), tokens, self.gpus) / find_gpu(self.gpu).memory

    def unrealistic(self, scenario: SteadyDecode | TraceReplay) -> str | None:
        """Return why no such forward can run, in words; None if it can, or that is not known."""
        if self.model is None or not isinstance(scenario, SteadyDecode):
            return None
        model = find_model(self.model)
        if scenario.tokens > model.longest:
            return f"{self.model} was made for {model.longest:,} positions"
        share = self.share_of_memory(scenario)
        if share is not None and share > 1 and self.gpu is not None:
            memory = find_gpu(self.gpu).memory
            each = " each" if self.gpus > 1 else ""
            return (
                f"weights and KV cache take {share * memory / 1e9:,.0f} GB of the "
                f"{memory / 1e9:,.0f} GB{each}"
            )
        return None

    def describe(self) -> str:
        """Return in words where it comes from."""
        if self.model is None:
            return f"{(self.seconds or 0.0) * 1e3:g} ms, as given"
        model = find_model(self.model)
        precision = "FP8" if model.weight_bytes == FP8 else "BF16"
        if self.gpu is None:
            return f"measured, a synthetic decode forward of the shape of {model.source}, BF16"
        count = "" if self.gpus == 1 else f"{self.gpus} x "
        return (
            f"roofline of {model.source} ({precision} weights, BF16 KV cache) on "
            f"{count}{find_gpu(self.gpu).title}: bytes read over bandwidth or operations over "
            "rate, whichever is larger, both from the datasheet; an estimate that errs towards "
            "short, but for experts that are chosen unevenly and for layers with a window"
        )


def _is_time(value: Any) -> bool:  # noqa: ANN401
    return type(value) in (int, float) and is_finite(value) and value >= 0
