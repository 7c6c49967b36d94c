"""A real GPU through PyTorch: a synthetic forward as a CUDA graph, timed by events.

Nothing of the GPU is changed: its clocks and what holds them back are read before and after, while
forwards run.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import statistics
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError

from .devices import Forward, HostClock, RunningClock
from .specs import find_model
from .synthetic import Product, head_product, layer_products, layers_that_fit

# What the matrices may take of the free memory: the graph and the libraries need some as well.
_SHARE_OF_MEMORY = 0.8
# The libraries choose their kernels at the first calls, which a graph must not hold.
_CALLS_BEFORE_CAPTURE = 3
# Forwards that are queued to measure one.
_QUEUED = 10
_STATE = (
    "driver_version",
    "clocks.sm",
    "clocks.max.sm",
    "clocks.mem",
    "temperature.gpu",
    "power.draw",
    "clocks_event_reasons.active",
)
_SECONDS_OF_QUERY = 20.0


def import_torch() -> Any:  # noqa: ANN401
    """Return PyTorch. Raises InputError where it is not installed, or finds no GPU."""
    try:
        import torch
    except ImportError:
        raise InputError(
            "--device cuda needs PyTorch, which is not installed here: pip install -e '.[gpu]' in "
            "the clone"
        ) from None
    if not torch.cuda.is_available():
        raise InputError("--device cuda: PyTorch finds no CUDA device here")
    return torch


class CudaDevice:
    """Replays a graph for each forward.

    How long a forward runs is measured at the beginning of each loop, with several of them queued:
    an event before one would come before its launch, and count that as well. The time that the
    device waited for the host is what lies between the ends of two forwards beyond that.

    Args:
        torch: PyTorch.
        replay: hands one forward over to the current stream.
        clock: the host's time.
    """

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        replay: Callable[[], object],
        clock: HostClock | None = None,
    ) -> None:
        self.clock = clock or RunningClock()
        self._cuda = torch.cuda
        self._replay = replay
        # Of the beginning and the end of each forward, used again from loop to loop.
        self._events = [self._event()]
        self._launched = 0
        self._busy = 0.0

    def begin(self) -> None:
        """Measure a forward, and note that the device has nothing to do from now on."""
        self._restart()
        for _ in range(_QUEUED):
            self.launch(0.0)
        # Passes over the first one, which began while it was launched.
        self._busy = statistics.median(self._between_ends())
        self._restart()

    def launch(self, _seconds: float) -> int:
        """Hand a forward over, and an event at its end."""
        self._launched += 1
        if self._launched == len(self._events):
            self._events.append(self._event())
        self._replay()
        self._events[self._launched].record()
        return self._launched - 1

    def wait(self, number: int) -> float:
        """Return once a forward is done, and when; the host is busy meanwhile."""
        self._events[number + 1].synchronize()
        return self.clock.now()

    def forwards(self) -> list[Forward]:
        """Return all forwards since ``begin``, once they are done."""
        return [Forward(max(0.0, took - self._busy), self._busy) for took in self._between_ends()]

    def _restart(self) -> None:
        self._cuda.synchronize()
        self._launched = 0
        self._events[0].record()

    def _between_ends(self) -> list[float]:
        """Return the seconds from the end of each forward, or the beginning, to the next end."""
        self._cuda.synchronize()
        events = self._events[: self._launched + 1]
        # In milliseconds.
        return [before.elapsed_time(end) / 1e3 for before, end in itertools.pairwise(events)]

    def _event(self) -> Any:  # noqa: ANN401
        return self._cuda.Event(enable_timing=True)


def create_cuda_device(
    model_name: str, scenario: SteadyDecode
) -> tuple[CudaDevice, Callable[[], dict[str, Any]]]:
    """Return a device that runs a model's decode forward, and what describes it.

    The description says which GPU and which PyTorch it is, how many ``layers`` the forward has, for
    how many there were matrices of their own (``layers_held``), and the GPU's state before and
    after the loops, each time with forwards running.

    Raises:
        InputError: there is no PyTorch or no GPU, or not even a layer fits its memory.
    """
    torch = import_torch()
    model = find_model(model_name)
    sizes = scenario.requests, scenario.tokens, scenario.draft_tokens
    products = layer_products(model, *sizes)
    head = head_product(model, scenario.requests, scenario.draft_tokens)
    properties = torch.cuda.get_device_properties(0)
    available = torch.cuda.mem_get_info()[0] * _SHARE_OF_MEMORY - head.bytes
    held = layers_that_fit(products, model.layers, available)
    if not held:
        needed = sum(product.bytes for product in products) / 1e9
        raise InputError(
            f"{scenario.name}: one layer of {model_name} takes {needed:,.1f} GB, and "
            f"{max(0.0, available) / 1e9:,.1f} GB of the GPU's memory are free for it"
        )
    replay = _capture(torch, [products] * held, model.layers, head)

    def run() -> None:
        for _ in range(_QUEUED):
            replay()
        torch.cuda.synchronize()

    about = {
        "gpu": str(properties.name),
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "layers": model.layers,
        "layers_held": held,
        "state_before": gpu_state(properties, run),
    }
    return CudaDevice(torch, replay), lambda: about | {"state_after": gpu_state(properties, run)}


def gpu_state(properties: Any, run: Callable[[], None]) -> dict[str, str]:  # noqa: ANN401
    """Return what ``nvidia-smi`` reads of a GPU's clocks; empty where there is no such program.

    Args:
        properties: PyTorch's, of the GPU.
        run: keeps the GPU busy for a while, again and again until the answer is there: with nothing
            to do its clocks say nothing of those during a forward.
    """
    command = ["nvidia-smi", f"--query-gpu={','.join(_STATE)}", "--format=csv,noheader,nounits"]
    uuid = getattr(properties, "uuid", None)
    if uuid is not None:
        command.append(f"--id=GPU-{uuid}")
    # Clocks rise within the first forwards.
    run()
    with contextlib.suppress(OSError, subprocess.SubprocessError), ThreadPoolExecutor(1) as pool:
        query = pool.submit(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SECONDS_OF_QUERY,
        )
        while not query.done():
            run()
        values = [value.strip() for value in query.result().stdout.partition("\n")[0].split(",")]
        return dict(zip(_STATE, values, strict=False))
    return {}


def _capture(
    torch: Any,  # noqa: ANN401
    held: Sequence[Sequence[Product]],
    layers: int,
    head: Product,
) -> Callable[[], object]:
    """Return what replays a graph of all layers and the head.

    Layers that have no matrices of their own use those of others in turn.
    """
    # What is multiplied and where the result goes is the same for all layers: it is small.
    small = {
        product: (
            _matrix(torch, product.count, product.m, product.k),
            _matrix(torch, product.count, product.m, product.n),
        )
        for product in (*held[0], head)
    }
    own = [
        [(product, _matrix(torch, product.count, product.k, product.n)) for product in products]
        for products in held
    ]
    last = (head, _matrix(torch, head.count, head.k, head.n))

    def run() -> None:
        for layer in range(layers):
            for product, matrix in own[layer % len(own)]:
                left, result = small[product]
                torch.bmm(left, matrix, out=result)
        product, matrix = last
        left, result = small[product]
        torch.bmm(left, matrix, out=result)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_CALLS_BEFORE_CAPTURE):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()

    # The graph knows addresses alone: the matrices have to live as long as it.
    return functools.partial(_replay, graph, (small, own, last))


def _replay(graph: Any, _matrices: object) -> None:  # noqa: ANN401
    graph.replay()


def _matrix(torch: Any, count: int, rows: int, columns: int) -> Any:  # noqa: ANN401
    # Random, as real ones are: zeros would draw less power, and so run faster.
    return torch.empty((count, rows, columns), device="cuda", dtype=torch.bfloat16).normal_(
        std=0.02
    )
