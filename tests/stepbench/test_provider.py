"""``--provider`` of the commands that have it: which one is taken, told and kept."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.compare.duet import CellResult, Duet
from harness.speedup.file import load
from harness.speedup.plan import Plan
from harness.verify.runs import Contest, Verification
from stepbench import compare, speedup, verify
from stepbench_core.errors import InputError
from stubs import providers

from .conftest import Ran, Run, assert_refused

TWO = ("--cells", "1x8", "--quick", "--processes", "1", "--arms", "full-copy,incremental")
COMMANDS = {
    "speedup": (*TWO, "-q", "-o", "x.json"),
    "verify": ("page-range", "--run", "0", "--jobs", "1", "-q"),
    "compare": ("incremental", "batched", "--cells", "1x8", "-q", "-o", "x.json"),
}
Installed = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Says which packages are found; all providers are that of Python under other names."""
    own = providers._import_classes("python")
    monkeypatch.setattr(providers, "_import_classes", lambda _name: own)

    def set_installed(*packages: str) -> None:
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: object() if name in packages else None
        )

    return set_installed


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The providers that a command hands on, to verify and to measure; neither is done."""
    names: list[str] = []

    def verified(contest: Contest, *_: object, **__: object) -> Verification:
        names.append(contest.provider)
        return Verification(tuple(contest.arms), contest.against, 0, 1, 1, None, {})

    monkeypatch.setattr(verify, "verify", verified)
    monkeypatch.setattr(compare, "play_briefly", verified)

    def compared(duet: Duet, *_: object) -> CellResult:
        names.append(duet.provider)
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "compare_cell", compared)
    monkeypatch.setattr(speedup, "verify_briefly", lambda _arms, name, **_: names.append(name))
    monkeypatch.setattr(speedup, "measure", lambda plan, *_: (names.append(plan.provider), [])[1])
    return names


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("given", [(), ("--provider", "auto")], ids=["default", "auto"])
@pytest.mark.parametrize(
    ("packages", "name"),
    [
        ((), "python"),
        (("stepbench_native",), "nanobind"),
        (("tensorrt_llm",), "python"),  # The engine is taken by name alone.
        (("stepbench_native", "tensorrt_llm"), "nanobind"),
    ],
)
def test_auto_is_nanobind_where_it_is_found(
    run_here: Run,
    installed: Installed,
    taken: list[str],
    command: str,
    given: tuple[str, ...],
    packages: tuple[str, ...],
    name: str,
):
    installed(*packages)
    run_here(command, *COMMANDS[command], *given)
    assert taken == [name] * (1 if command == "verify" else 2)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", providers.PROVIDERS)
def test_a_provider_that_is_there_can_be_named(
    run_here: Run, installed: Installed, taken: list[str], command: str, name: str
):
    installed("stepbench_native", "tensorrt_llm")
    run_here(command, *COMMANDS[command], "--provider", name)
    assert set(taken) == {name}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nanobind", "pip install ./stubs/native builds it"),
        ("tensorrt_llm", "it is the engine itself and needs its GPU libraries"),
    ],
)
def test_an_absent_provider_is_refused_and_it_says_how_to_get_it(
    run_here: Run, installed: Installed, taken: list[str], command: str, name: str, hint: str
):
    installed()
    ran = run_here(command, *COMMANDS[command], "--provider", name)
    assert_refused(ran, f"the provider {name} is absent: ", hint)
    assert taken == []
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_provider_is_refused_with_those_there_are(run_here: Run, command: str):
    ran = run_here(command, *COMMANDS[command], "--provider", "cython")
    assert_refused(ran, "'cython'", "'auto', 'python', 'nanobind', 'tensorrt_llm'")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_default(run_here: Run, command: str):
    ran = run_here(command, "--help")
    text = " ".join(ran.out.split())
    assert "--provider [auto|python|nanobind|tensorrt_llm]" in text
    assert "auto: nanobind if it is built. [default: auto]" in text


def test_the_plan_and_the_provenance_name_it(run_here: Run):
    ran = run_here("speedup", *COMMANDS["speedup"], "--provider", "python", "--cpu", "none")

    assert (ran.code, ran.err) == (0, "")
    assert load(Path("x.json")).plan.provider == "python"
    assert "; stand-ins: provider python; " in ran.out
    again = run_here("report", "x.json")
    assert "; stand-ins: provider python; " in again.out
    assert json.loads(run_here("report", "x.json", "--json").out)["results"][0]["provider"] == (
        "python"
    )


def test_nanobind_is_measured_and_named_where_it_is_built(run_here: Run):
    reason = providers.absent("nanobind")
    if reason is not None:
        pytest.skip(reason)
    ran = run_here("speedup", *COMMANDS["speedup"], "--cpu", "none")
    assert (ran.code, ran.err) == (0, "")
    assert load(Path("x.json")).plan.provider == "nanobind"
    assert "; stand-ins: provider nanobind; " in ran.out


def change_plan(path: str, *, provider: str | None = None) -> Plan:
    """Drop the last process of the results file, and put another provider in its plan."""
    document = json.loads(Path(path).read_text())
    if provider is not None:
        plan = json.loads(document["metadata"]["stepbench_plan"])
        document["metadata"]["stepbench_plan"] = json.dumps(plan | {"provider": provider})
    del document["benchmarks"][-1]["runs"][-1]
    Path(path).write_text(json.dumps(document))
    return load(Path(path)).plan


@pytest.fixture
def half(run_here: Run) -> Callable[..., Ran]:
    """Measures with the stand-ins in Python; ``--resume`` finds one process missing."""
    ran = run_here(
        "speedup", "--cells", "1x8", "--quick", "--processes", "2", "--arms", "incremental",
        *("--provider", "python", "--cpu", "none", "-q", "-o", "x.json"),
    )  # fmt: skip
    assert ran.code == 0
    return lambda *arguments: run_here("speedup", "--resume", "x.json", "-q", *arguments)


def test_a_measurement_is_carried_on_with_its_own_provider(
    half: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
):
    change_plan("x.json")
    # Whatever auto would be.
    monkeypatch.setattr(speedup, "check_provider", seen := Seen(speedup.check_provider))

    ran = half()

    assert (ran.code, ran.err) == (0, "")
    assert seen.names == ["python"]
    results = load(Path("x.json"))
    assert (results.plan.provider, len(results.runs())) == ("python", 2)
    assert "; stand-ins: provider python; " in ran.out


class Seen:
    """Calls a function of a name and keeps the names."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self.names: list[str] = []
        self._function = function

    def __call__(self, name: str) -> str:
        self.names.append(name)
        return self._function(name)


def test_a_provider_does_not_go_with_resume(half: Callable[..., Ran]):
    before = Path("x.json").read_bytes()
    assert_refused(half("--provider", "python"), "--provider does not go with --resume")
    assert Path("x.json").read_bytes() == before


def test_what_was_measured_on_a_provider_that_is_gone_cannot_be_carried_on_with(
    half: Callable[..., Ran], installed: Installed
):
    assert change_plan("x.json", provider="nanobind").provider == "nanobind"
    before = Path("x.json").read_bytes()
    installed()
    assert_refused(half(), "the provider nanobind is absent: ", "pip install ./stubs/native")
    assert Path("x.json").read_bytes() == before


def test_a_plan_of_no_known_provider_is_no_plan(half: Callable[..., Ran]):
    with pytest.raises(InputError, match="cython"):
        change_plan("x.json", provider="cython")
    assert_refused(half(), "x.json: ", "there is no provider 'cython'")
