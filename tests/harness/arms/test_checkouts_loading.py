"""How the module of a checkout is loaded: beside others, and without an engine."""

import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pyperf
import pytest

from harness.arms.inspection import Answer, inspect_arm
from harness.arms.loading import CLASS
from harness.speedup.isolated import run_jobs
from harness.verify.runs import Contest, verify
from stepbench_core.errors import Missing, NotRunnableError
from stubs.surface.not_provided import NotProvidedError

from ..checkouts import Checkout, everything
from ..connectors import AFTER, BEFORE, OLD, OLD_PLACE, PLACE, WRONG, changed
from ..helpers import TINY, make_plan

IMPORTS = "import torch\n\n"
# What no surface knows, in all places where a name can stand without being called.
UNKNOWN = """\
import abc
import enum

import flashinfer.comm as comm
import no_such_module_at_all
import nvtx.colors
import tensorrt_llm.logger
import torch
import torch.distributed
from no_such_module_at_all.deep import *
from no_such_models import BaseModel, Field
from tensorrt_llm.bindings.executor import KvCacheConfig, RequestType
from tensorrt_llm.runtime.generation import Mapping

from . import kv_cache_layout
from ..resource_manager import BaseResourceManager, ResourceManagerType

try:
    import mooncake
except ImportError:
    mooncake = None
if mooncake:
    from mooncake.store import Store
else:
    Store = None

DTYPE = torch.float16
KINDS = {torch.int8: 1, torch.int4: 2, RequestType.CONTEXT: 3}


class Layout(kv_cache_layout.Layout, BaseResourceManager, abc.ABC):
    dtype: torch.dtype = torch.float16

    @abc.abstractmethod
    def place(self, tensor: torch.Tensor, on: torch.cuda.Stream | None) -> "KvCacheConfig": ...


class Placed(Layout):
    size: int = 3

    def place(self, tensor, on): return self.size

    def fill(self, mapping: Mapping[str, int], store: Store) -> comm.Handle:
        from tensorrt_llm.mapping import fill

        return fill(mapping)


class Settings(BaseModel):
    depth: int = 1


def on_leader():
    return torch.distributed.get_rank() == 0


"""


def with_more(text: str) -> str:
    return changed(AFTER, (IMPORTS, text))


def test_unknown_imports_are_no_harm_until_they_are_called(engine: Checkout):
    arm = engine.add(with_more(UNKNOWN))

    assert verify(Contest({"arm": arm}, "base", engine.add(BEFORE)), range(3), 0).failure is None
    module = arm.module()
    assert module.Placed().place(None, None) == 3
    assert module.Settings().depth == 1
    assert module.KINDS[module.torch.int4] == 2
    assert module.KINDS[module.RequestType.CONTEXT] == 3
    assert module.tensorrt_llm.logger is module.logger
    for call, name in (
        (module.on_leader, "torch.distributed.get_rank"),
        (lambda: module.Placed().fill({}, None), "tensorrt_llm.mapping.fill"),
        (module.mpi_rank, "tensorrt_llm._utils.mpi_rank"),
        (module.Field, "no_such_models.Field"),
        (module.no_such_module_at_all.Store.open, "no_such_module_at_all.Store.open"),
    ):
        with pytest.raises(NotProvidedError) as caught:
            call()
        assert str(caught.value) == f"{name} is a placeholder here, and was called"
    # What is not installed is not there for whoever is prepared for that.
    assert (module.mooncake, module.Store) == (None, None)


def test_what_was_a_placeholder_is_said(engine: Checkout):
    found = inspect_arm(engine.add(with_more(UNKNOWN)).source)

    made_up = {name for name, _, answer in found.imports if answer is Answer.PLACEHOLDER}
    assert made_up >= {
        *("flashinfer.comm", "no_such_module_at_all", "no_such_module_at_all.deep.*"),
        *("torch", "torch.distributed", "no_such_models.BaseModel"),
        *("tensorrt_llm.bindings.executor.KvCacheConfig", "tensorrt_llm.mapping.fill"),
        ".kv_cache_layout",
    }
    assert not made_up & {"tensorrt_llm.logger", "tensorrt_llm.bindings.LlmRequestState"}
    others = {name: answer for name, _, answer in found.imports if name not in made_up}
    assert (others["nvtx.colors"], others["mooncake"]) == (Answer.NO_OP, Answer.ABSENT)
    assert found.lacks == ()


def test_a_call_of_a_placeholder_in_a_report_is_no_difference(engine: Checkout):
    text = "        self.tokens += tokens\n"
    calls = changed(AFTER, (text, text + "        torch.cuda.synchronize('here')\n"))
    arm = engine.add(calls)
    line = calls.splitlines().index("        torch.cuda.synchronize('here')") + 1

    with pytest.raises(NotRunnableError) as caught:
        verify(Contest({"arm": arm}, "base", engine.add(AFTER)), range(1), 0)

    file = arm.source.filename
    assert caught.value.missing == Missing("arm", "torch.cuda.synchronize", file, line)
    assert str(caught.value) == (
        f"arm: cannot be run here: uses torch.cuda.synchronize (line {line}), for which there is "
        f"no stand-in; see {file}:{line}"
    )


def test_revisions_side_by_side_share_no_state(engine: Checkout):
    state = "SEEN = []\nclass Kept:\n    all = {}\n\n\n"
    text = changed(
        with_more(IMPORTS + state),
        (
            "        output = SchedulerOutput()\n",
            "        output = SchedulerOutput()\n"
            "        SEEN.append(1)\n        Kept.all[id(self)] = 1\n",
        ),
    )
    first = engine.add(text)
    (engine.root / PLACE).write_text(text + "\n")
    arms = {"first": first, "by tag": engine.at("HEAD"), "work tree": engine.work_tree()}
    modules = {name: arm.module() for name, arm in arms.items()}

    # One commit under two names is one source: the same module, and apart from the work tree's.
    assert modules["first"] is not modules["by tag"]
    assert len({id(module) for module in modules.values()}) == 3
    assert len({module.__name__ for module in modules.values()}) == 3
    contest = Contest({"work tree": arms["work tree"]}, "first", first)
    assert verify(contest, range(1), 0).failure is None
    counts = {name: len(module.SEEN) for name, module in modules.items()}
    assert counts["first"] == counts["work tree"] > 0
    assert counts["by tag"] == 0
    assert len(modules["first"].Kept.all) > 0 == len(modules["by tag"].Kept.all)
    for name in ("RequestData", "SchedulerOutput", CLASS):
        assert len({id(getattr(module, name)) for module in modules.values()}) == 3
    # What stands for the engine is the same for all.
    assert len({id(module.LlmRequestState) for module in modules.values()}) == 1


def test_instances_of_one_module_share_nothing(engine: Checkout):
    arm: Any = engine.add(AFTER)
    first, second = (arm(attention_dp=False) for _ in range(2))
    request = types.SimpleNamespace(request_id=3)

    first.record_new_matched_tokens(request, 7)

    own, other = (made.record_new_matched_tokens.__self__ for made in (first, second))
    assert (own.external_loads, other.external_loads) == ({3: 7}, {})
    assert own.requests is not other.requests


def test_a_worker_measures_an_arm_of_which_it_gets_the_source(engine: Checkout):
    source = engine.add(with_more(UNKNOWN)).source
    plan = make_plan(source.name, processes=1, rounds=1, sources={source.name: source.digest})
    (job,) = plan.jobs()
    # What is there by then is not looked at.
    shutil.rmtree(engine.root)

    benchmark = run_jobs(plan, [job], 60, {job.arm: source})[job]

    assert isinstance(benchmark, pyperf.Benchmark)
    assert benchmark.get_name() == f"{TINY.name}/{source.name}"
    assert len(benchmark.get_values()) == plan.protocol.values == 3
    assert benchmark.get_metadata()["stepbench_arm"] == source.name


class Guarded(types.ModuleType):
    """A module that must not be looked at."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")

    def __setattr__(self, name: str, _value: object) -> None:
        raise AssertionError(f"{name} was set")


def test_real_modules_stay_as_they_are(engine: Checkout, monkeypatch: pytest.MonkeyPatch):
    real = {name: Guarded(name) for name in ("torch", "torch.cuda", "tensorrt_llm")}
    for name, module in real.items():
        monkeypatch.setitem(sys.modules, name, module)

    arms = {"arm": engine.add(with_more(UNKNOWN))}
    found = verify(Contest(arms, "base", engine.add(OLD, OLD_PLACE)), range(1), 0)

    assert found.failure is None
    assert {name: sys.modules[name] for name in real} == real
    names = [name for name in sys.modules if name.partition(".")[0] in ("torch", "tensorrt_llm")]
    assert sorted(names) == sorted(real)


PROCESS = """\
import sys
from harness.arms.loading import ArmOfSource
from harness.arms.sources import find_source
from harness.verify.runs import Contest, verify

arms = [ArmOfSource(find_source(spec)) for spec in sys.argv[1:]]
assert verify(Contest({"arm": arms[0]}, "base", arms[1]), range(1), 0).failure is None
roots = {name.partition(".")[0] for name in sys.modules}
assert not roots & {"torch", "tensorrt_llm"}, roots
"""


def test_what_is_installed_is_not_imported_and_nothing_is_written(
    engine: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    installed = tmp_path / "installed"
    for name in ("torch", "tensorrt_llm"):
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text("raise RuntimeError('was imported')\n")
    # Nor what else there is of the checkout.
    engine.add(with_more(UNKNOWN))
    for package in ("tensorrt_llm", "tensorrt_llm/_torch"):
        (engine.root / package / "__init__.py").write_text("raise RuntimeError('was imported')\n")
    revision = engine.add(with_more(UNKNOWN))
    before = everything(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[3]}:{installed}:{engine.root}")

    command = [sys.executable, "-c", PROCESS, f"trtllm:{engine.root}", revision.source.spec]
    ran = subprocess.run(command, cwd=engine.root, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert everything(tmp_path) == before


def test_what_a_module_prints_when_it_is_imported_is_not_in_the_way(
    engine: Checkout, capfd: pytest.CaptureFixture[str]
):
    engine.add("print('hello')\n" + WRONG)(attention_dp=False)

    assert capfd.readouterr() == ("", "hello\n")
