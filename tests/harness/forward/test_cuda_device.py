"""The CUDA device, with a stand-in for PyTorch that counts, checks and plays the events."""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from harness.arms.sources import find_source
from harness.forward import cuda_device
from harness.forward.cuda_device import CudaDevice, create_cuda_device, gpu_state, import_torch
from harness.forward.devices import Forward
from harness.forward.roofline import bound, steady_work
from harness.forward.specs import GPUS, MODELS
from harness.overlap.loop import run_loop
from harness.overlap.model import predict
from harness.overlap.run import read_segments
from harness.overlap.worker import measure
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError

from ..fake_torch import FakeHostClock, FakeTorch
from ..overlap_helpers import FakeArm, FakeWorkload, always

CELL = SteadyDecode(requests=4, tokens=256)
TICK = 2.0**-10


@pytest.fixture
def no_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", run)


def install(monkeypatch: pytest.MonkeyPatch, torch: object) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]


@pytest.mark.usefixtures("no_smi")
def test_a_graph_holds_the_forward_of_the_whole_model(monkeypatch: pytest.MonkeyPatch):
    torch = FakeTorch(FakeHostClock())
    install(monkeypatch, torch)

    device, about = create_cuda_device("llama-3.1-8b", CELL)
    device.begin()
    device.wait(device.launch(0.0))

    counted = bound(MODELS["llama-3.1-8b"], GPUS["h200"], steady_work(CELL))
    assert sum(size for _, size, _ in torch.read) == counted.bytes
    assert sum(operations for *_, operations in torch.read) == counted.operations
    # Each layer has matrices of its own: none is read twice.
    assert len({tensor for tensor, *_ in torch.read}) == len(torch.read) == 32 * 6 + 1
    assert about() == {
        "gpu": "Fake GPU",
        "torch": "2.11.0",
        "cuda": "13.0",
        "layers": 32,
        "layers_held": 32,
        "state_before": {},
        "state_after": {},
    }


@pytest.mark.usefixtures("no_smi")
def test_with_too_little_memory_layers_are_used_in_turn(monkeypatch: pytest.MonkeyPatch):
    # A layer takes 437 MB with its cache, the head 1.05 GB.
    torch = FakeTorch(FakeHostClock(), free=3.5e9)
    install(monkeypatch, torch)

    device, about = create_cuda_device("llama-3.1-8b", CELL)
    device.begin()
    device.launch(0.0)

    counted = bound(MODELS["llama-3.1-8b"], GPUS["h200"], steady_work(CELL))
    assert sum(size for _, size, _ in torch.read) == counted.bytes
    assert len(torch.read) == 32 * 6 + 1
    held = about()["layers_held"]
    assert held == 3
    assert len({tensor for tensor, *_ in torch.read}) == held * 6 + 1
    assert torch.allocated < 0.85 * 3.5e9


@pytest.mark.usefixtures("no_smi")
def test_where_not_even_a_layer_fits_that_is_said(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeTorch(FakeHostClock(), free=1e9))

    with pytest.raises(
        InputError, match=r"v2-4x256: one layer of llama-3\.1-8b takes 0\.4 GB, and"
    ):
        create_cuda_device("llama-3.1-8b", CELL)


def loop_device(launch: float = 0.0) -> tuple[CudaDevice, FakeHostClock]:
    """A device whose forward takes 8 ticks."""
    clock = FakeHostClock()
    torch = FakeTorch(clock)

    def replay() -> None:
        clock.work(launch)
        torch.enqueue(8 * TICK)

    return CudaDevice(torch, replay, clock), clock


def test_events_tell_how_long_it_ran_and_waited():
    device, clock = loop_device(TICK)
    clock.work(5 * TICK)
    device.begin()
    began = clock.time
    clock.work(3 * TICK)
    assert device.launch(0.0) == 0
    clock.work(1 * TICK)
    assert device.launch(0.0) == 1
    device.wait(0)
    assert clock.time == began + 12 * TICK, "waited, launched, and ran"

    # A launch on a device with nothing to do is waited for as well; behind another one it is not.
    assert device.forwards() == [Forward(4 * TICK, 8 * TICK), Forward(0.0, 8 * TICK)]
    assert clock.time == began + 20 * TICK
    device.begin()
    assert device.forwards() == []
    clock.work(2 * TICK)
    device.launch(0.0)
    assert device.forwards() == [Forward(3 * TICK, 8 * TICK)]


def test_a_forward_that_is_shorter_than_most_was_not_waited_for():
    clock = FakeHostClock()
    torch = FakeTorch(clock)
    times = iter([8.0] * 10 + [7.0, 7.0])
    device = CudaDevice(torch, lambda: torch.enqueue(next(times) * TICK), clock)
    device.begin()
    device.launch(0.0)
    device.launch(0.0)

    assert device.forwards() == [Forward(0.0, 8 * TICK)] * 2


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("path", "launch", "advance"), [(1, 1, 1), (5, 2, 1), (20, 1, 3)])
def test_the_model_holds_with_all_that_cannot_be_stopped(
    overlap: bool, path: float, launch: float, advance: float
):
    device, clock = loop_device(launch * TICK)

    found = run_loop(
        device,
        FakeWorkload(clock, advance * TICK),  # type: ignore[arg-type]
        FakeArm(clock, path * TICK),  # type: ignore[arg-type]
        always(0.0),
        overlap=overlap,
        iterations=8,
        sweep=lambda: clock.work(TICK),
    )

    host = (path + launch + advance + 1) * TICK
    exposed = max(0.0, host - 8 * TICK) if overlap else host
    for each in found[1:-1]:
        assert each.between == (advance + 1) * TICK
        assert (each.path, each.launch) == (path * TICK, launch * TICK)
        assert (each.forward, each.exposed) == (8 * TICK, exposed)
        assert each.step == 8 * TICK + exposed
    assert predict(found, overlap=overlap) == [each.exposed for each in found[1:]]


def test_without_pytorch_or_a_gpu_one_line_says_so(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, None)  # As where it is not installed.
    with pytest.raises(
        InputError, match=r"needs PyTorch, which is not installed here: pip install"
    ):
        import_torch()

    install(monkeypatch, FakeTorch(FakeHostClock(), there=False))
    with pytest.raises(InputError, match="PyTorch finds no CUDA device here"):
        import_torch()

    torch = FakeTorch(FakeHostClock())
    install(monkeypatch, torch)
    assert import_torch() is torch


Runs = list[list[str]]


def smi(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str]) -> Runs:
    commands: Runs = []

    def run(command: list[str], **options: Any) -> SimpleNamespace:  # noqa: ANN401
        assert options["timeout"] > 0
        assert options["check"]
        commands.append(command)
        return SimpleNamespace(stdout=answer())

    monkeypatch.setattr(cuda_device.subprocess, "run", run)
    return commands


def test_the_state_of_the_gpu_is_read(monkeypatch: pytest.MonkeyPatch):
    runs: list[int] = []
    running = threading.Event()

    def run() -> None:
        runs.append(1)
        if len(runs) > 1:
            running.set()

    def answer() -> str:
        assert running.wait(10), "the GPU had nothing to do"
        return "580.1, 1980, 1980, 3201, 45, 120.50, 0x0004\n"

    commands = smi(monkeypatch, answer)

    assert gpu_state(SimpleNamespace(uuid="abc"), run) == {
        "driver_version": "580.1",
        "clocks.sm": "1980",
        "clocks.max.sm": "1980",
        "clocks.mem": "3201",
        "temperature.gpu": "45",
        "power.draw": "120.50",
        "clocks_event_reasons.active": "0x0004",
    }
    (command,) = commands
    assert command[0] == "nvidia-smi"
    assert command[-1] == "--id=GPU-abc"
    # It only asks.
    assert all(word.startswith(("--query-gpu=", "--format=", "--id=")) for word in command[1:])
    gpu_state(SimpleNamespace(), run)
    assert len(commands[1]) == 3


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("nvidia-smi"),
        subprocess.CalledProcessError(9, "nvidia-smi"),
        subprocess.TimeoutExpired("nvidia-smi", 20),
    ],
)
def test_a_state_that_cannot_be_read_is_empty(monkeypatch: pytest.MonkeyPatch, error: Exception):
    def fail() -> str:
        raise error

    smi(monkeypatch, fail)
    assert gpu_state(SimpleNamespace(), lambda: None) == {}


@pytest.mark.usefixtures("no_smi")
def test_a_worker_runs_all_arms_on_it(monkeypatch: pytest.MonkeyPatch):
    torch = FakeTorch(FakeHostClock())
    install(monkeypatch, torch)

    found = measure(
        {
            "sources": [asdict(find_source(name)) for name in ("full-copy", "incremental")],
            "scenario": CELL.to_dict(),
            "seed": "0",
            "cpu": None,
            "provider": "python",
            "forward": {"model": "llama-3.1-8b"},
            "device": "cuda",
            "other_host": 0.0,
            "swept": 0,
            "warmups": 2,
            "iterations": 3,
        }
    )

    segments = read_segments(found["segments"])
    counted = bound(MODELS["llama-3.1-8b"], GPUS["h200"], steady_work(CELL)).bytes
    assert segments.keys() == {(arm, overlap) for arm in (0, 1) for overlap in (False, True)}
    for iterations in segments.values():
        # By the events: what is read, at a byte a tick of the stand-in.
        assert [each.forward for each in iterations] == pytest.approx([counted * 2.0**-40] * 4)
        assert all(each.path > 0 and each.between > 0 for each in iterations)
    assert found["device"]["layers_held"] == 32
