"""``stepbench overlap`` with bad input: one line, exit code 2, and nothing is run."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.overlap import run as overlap_run
from harness.system.cores import choose_cpu, lock_cpu

from ..harness.fake_torch import FakeHostClock, FakeTorch
from .conftest import Run, assert_refused


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def run_child(*_: object) -> str:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(overlap_run, "run_child", run_child)
    yield
    assert not [path for path in Path().rglob("*.json") if path.name != "there.json"]


NUMBERS = ("nan", "-nan", "inf", "-inf", "-1", "10001", "1e400")

REFUSED = [
    *[
        ([f"{option}={text}"], [f"{option} takes milliseconds from 0 to 10,000"])
        for option in ("--forward-ms", "--other-host-ms")
        for text in NUMBERS
    ],
    (["--forward-ms", "x"], ["--forward-ms"]),
    (["--forward-ms", "4", "--model", "llama-3.1-8b"], ["--forward-ms and --model exclude each"]),
    (["--forward-ms", "4", "--gpu", "h100"], ["--forward-ms and --gpu exclude each other"]),
    (["--forward-ms", "4", "--gpus", "2"], ["--forward-ms and --gpus exclude each other"]),
    (["--model", "llama"], ["unknown model 'llama'"]),
    (["--model", "llama-3.1-7b"], ["unknown model 'llama-3.1-7b': did you mean 'llama-3.1-70b'"]),
    (["--model", ""], ["unknown model ''"]),
    (["--gpu", "H100"], ["unknown GPU 'H100'"]),
    (["--gpus", "0"], ["--gpus"]),
    (["--gpus", "65"], ["--gpus"]),
    (["--device", "tpu"], ["--device", "'tpu'"]),
    (["--device", "cuda", "--forward-ms", "4"], ["measures the forward: --forward-ms contradicts"]),
    (["--device", "cuda", "--gpu", "h200"], ["measures the forward: --gpu contradicts it"]),
    (["--device", "cuda", "--gpus", "1"], ["measures the forward: --gpus contradicts it"]),
    (["--device", "cuda", "--model", "x"], ["unknown model 'x'"]),
    (["--device", "cuda", "--trace", "t.csv"], ["--device cuda takes cells: a trace replays on"]),
    (["--overlap"], ["--overlap says nothing here: both orders are always run"]),
    (["--caches", "hot"], ["--caches", "'hot'"]),
    (["--processes", "0"], ["--processes"]),
    (["--processes", "1001"], ["--processes"]),
    (["--iterations", "0"], ["--iterations"]),
    (["--seed", "-1"], ["--seed"]),
    (["--arms", "incrementl"], ["unknown arm 'incrementl': did you mean 'incremental'?"]),
    (["--arms", "floor"], ["unknown arm 'floor'"]),
    (["--arms", "full-copy,floor"], ["unknown arm 'floor'"]),
    (["--arms", "incremental,incremental"], ["arm 'incremental' is named twice"]),
    (["--arms", ""], ["an entry is empty"]),
    (["--arms", "file:none.py"], ["none.py: No such file or directory"]),
    (["--cells", "2x64,2x64"], ["v2-2x64", "twice"]),
    (["--cells", "2"], ["REQUESTSxTOKENS"]),
    (["--cells", "100000x1000000"], ["would not fit the memory"]),
    (["--cpu", "999"], ["core 999 is not allowed here"]),
    (["--provider", "other"], ["--provider", "'other'"]),
    (["--trace", "none.csv"], ["none.csv: No such file or directory"]),
    (["--json", "--format", "markdown"], ["contradicts"]),
    (["--format", "csv"], ["'csv'"]),
    (["-o", "there.json", "--no-verify"], ["there.json: exists; --force overwrites"]),
    (["-o", ".", "--no-verify"], ["a folder, not a file"]),
    (["extra"], ["extra"]),
]


@pytest.mark.parametrize(("arguments", "texts"), REFUSED)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], texts: list[str]):
    Path("there.json").touch()
    Path("t.csv").write_text("ContextTokens,GeneratedTokens\n" + "40,20\n" * 60)
    is_named = {"--cells", "--trace"} & set(arguments)

    ran = run_here("overlap", *arguments, *([] if is_named else ["--cells", "2x64"]))

    assert_refused(ran, *texts)


def test_without_pytorch(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    ran = run_here("overlap", "--cells", "2x64", "--device", "cuda")

    assert_refused(ran, "--device cuda needs PyTorch, which is not installed here: pip install")


def test_without_a_gpu(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    torch = FakeTorch(FakeHostClock(), there=False)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]

    ran = run_here("overlap", "--cells", "2x64", "--device", "cuda")

    assert_refused(ran, "--device cuda: PyTorch finds no CUDA device here")


def test_a_core_that_another_run_measures_on(run_here: Run):
    core = choose_cpu(None)
    with lock_cpu(core):
        ran = run_here("overlap", "--cells", "2x64", "--no-verify", "-q")

    assert_refused(ran, f"core {core} is being measured on by another run")
