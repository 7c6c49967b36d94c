from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.speedup import isolated
from harness.speedup.plan import Plan

from .checkouts import Checkout
from .gate_worlds import World
from .helpers import child_processes
from .repositories import isolate_git


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give workers the subjects of ``subjects/worker.py``; return the folder of their notes."""
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("STEPBENCH_SUBJECTS", str(folder))
    original = isolated.worker_command
    script = str(Path(__file__).parent / "subjects/worker.py")

    def command(plan: Plan) -> list[str]:
        python, *options = original(plan)
        module = options.index("-m")
        assert options[module + 1] == "harness.speedup.worker"
        return [python, *options[:module], script, *options[module + 2 :]]

    monkeypatch.setattr(isolated, "worker_command", command)
    return folder


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Checkout:
    """A checkout without a revision."""
    isolate_git(monkeypatch, tmp_path)
    return Checkout(tmp_path / "TensorRT-LLM@home")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A gate whose long steps are made up, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    world = World()
    world.install(monkeypatch)
    return world


@pytest.fixture
def no_child_left() -> Iterator[None]:
    """Fail if the test leaves a process behind."""
    before = child_processes()
    yield
    assert child_processes() == before
