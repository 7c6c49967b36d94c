"""Plays the part of PyTorch that the CUDA device uses, on a clock that a test moves.

It checks shapes, counts what the products of a graph read and compute, and takes for a graph the
time that its bytes need at a bandwidth of one byte a tick.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from harness.forward.devices import RunningClock

_TICK = 2.0**-40  # Of a second, for a byte.


class FakeHostClock(RunningClock):
    """The host's time beside a device that does not stop; it moves when something is done."""

    def __init__(self) -> None:
        super().__init__(lambda: self.time)
        self.time = 0.0

    def spin_until(self, moment: float) -> float:
        self.time = max(self.time, moment)
        return self.time

    def work(self, seconds: float) -> None:
        self.time += seconds


@dataclass
class FakeTensor:
    """A matrix without values."""

    shape: tuple[int, ...]
    is_random: bool = False

    def normal_(self, *, std: float) -> FakeTensor:
        assert 0 < std < 1
        self.is_random = True
        return self


class FakeTorch:
    """PyTorch with one GPU.

    Args:
        clock: the host's time.
        free: bytes of memory that are free.
        launch: seconds that handing over a graph costs the host.
    """

    __version__ = "2.11.0"
    version = SimpleNamespace(cuda="13.0")
    bfloat16 = "bf16"

    def __init__(
        self, clock: FakeHostClock, *, free: float = 1e12, launch: float = 0.0, there: bool = True
    ) -> None:
        self.clock = clock
        self.allocated = 0
        self.read: list[tuple[int, int, int]] = []  # Tensor, bytes, operations.
        self.eager = 0
        self._free_at = 0.0
        self._launch = launch
        self._recording: list[tuple[int, int, int]] | None = None
        self._alive: list[FakeTensor] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: there,
            mem_get_info=lambda: (free - self.allocated, 2 * free),
            get_device_properties=lambda _index: SimpleNamespace(name="Fake GPU", uuid="0-1"),
            synchronize=self._synchronise,
            Event=lambda *, enable_timing: FakeEvent(self, enable_timing),
            Stream=FakeStream,
            current_stream=FakeStream,
            stream=self._stream,
            CUDAGraph=lambda: FakeGraph(self),
            graph=self._capture,
        )

    def empty(self, shape: tuple[int, ...], *, device: str, dtype: str) -> FakeTensor:
        assert (device, dtype) == ("cuda", "bf16")
        assert all(side > 0 for side in shape)
        self.allocated += 2 * math.prod(shape)
        self._alive.append(FakeTensor(shape))
        return self._alive[-1]

    def bmm(self, left: FakeTensor, right: FakeTensor, *, out: FakeTensor) -> None:
        count, m, k = left.shape
        assert right.shape[:2] == (count, k)
        n = right.shape[2]
        assert out.shape == (count, m, n)
        assert left.is_random
        assert right.is_random
        one = (id(right), 2 * count * k * n, 2 * count * m * k * n)
        if self._recording is None:
            self.eager += 1
        else:
            self._recording.append(one)

    def hand_over(self, work: list[tuple[int, int, int]]) -> None:
        self.clock.work(self._launch)
        self.read = work
        self.enqueue(sum(size for _, size, _ in work) * _TICK)

    def enqueue(self, seconds: float) -> float:
        """Let the device do something that takes so long; return when it is done."""
        self._free_at = max(self._free_at, self.clock.time) + seconds
        return self._free_at

    def _synchronise(self) -> None:
        self.clock.spin_until(self._free_at)

    @contextlib.contextmanager
    def _stream(self, _stream: object) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def _capture(self, graph: FakeGraph, *, stream: object) -> Iterator[None]:
        assert isinstance(stream, FakeStream)
        assert self.eager, "the kernels are chosen while the graph is captured"
        self._recording = graph.work
        yield
        self._recording = None


class FakeStream:
    """A stream of work, of which there is one."""

    def wait_stream(self, _other: FakeStream) -> None:
        """Wait for nothing: all is in order."""


class FakeGraph:
    """What was captured."""

    def __init__(self, torch: FakeTorch) -> None:
        self.work: list[tuple[int, int, int]] = []
        self._torch = torch

    def replay(self) -> None:
        assert self.work
        self._torch.hand_over(self.work)


class FakeEvent:
    """A moment of the device."""

    def __init__(self, torch: FakeTorch, with_timing: bool) -> None:
        assert with_timing
        self._torch = torch
        self._moment: float | None = None

    def record(self) -> None:
        self._moment = self._torch.enqueue(0.0)

    def synchronize(self) -> None:
        assert self._moment is not None
        self._torch.clock.spin_until(self._moment)

    def elapsed_time(self, other: Any) -> float:  # noqa: ANN401
        """Return milliseconds, once both are past."""
        now = self._torch.clock.time
        assert self._moment is not None
        assert self._moment <= other._moment <= now
        return 1e3 * (other._moment - self._moment)
