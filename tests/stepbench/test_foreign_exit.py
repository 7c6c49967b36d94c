"""Code that ends the process is a finding, never a pass."""

import json
from pathlib import Path

import pytest

from stepbench import compare, verify

from .conftest import Run

pytestmark = pytest.mark.thorough


def test_an_arm_that_calls_sys_exit_is_no_pass(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    def leave(*_: object, **_named: object) -> object:
        raise SystemExit(0)

    monkeypatch.setattr(
        "connector.incremental.KvCacheConnectorSchedulerOutputManager.__init__", leave
    )
    # In this process, where the arm can be changed.
    monkeypatch.setattr(verify, "_LIMIT", None)

    ran = run_here("verify", "incremental", "--run", "0", "--jobs", "1", "-q")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "stepbench: error: something called sys.exit(0): no result\n"


@pytest.fixture
def arm(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An arm in a file that does something in each of its calls."""
    text = (Path(__file__).parents[2] / "connector/batched.py").read_text()
    first = text.index("        scheduler_output = ") if "scheduler_output = " in text else 0
    assert first
    path = tmp_path / "arm.py"
    path.write_text(f"{text[:first]}        {request.param}\n{text[first:]}")
    return f"file:{path}"


COMMANDS = [["verify", "--runs", "2", "--jobs", "1"], ["compare", "batched", "--cells", "2x64"]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("arm", ["import os; os._exit(0)"], indirect=True)
def test_an_arm_from_elsewhere_that_ends_its_process_is_no_pass(
    run_here: Run, command: list[str], arm: str
):
    ran = run_here(*command, arm, "-q")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(": a process of play_runs was killed or died\n")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("arm", ["import time; time.sleep(60)"], indirect=True)
def test_an_arm_from_elsewhere_that_hangs_is_no_pass(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, command: list[str], arm: str
):
    monkeypatch.setattr(compare, "FOREIGN_LIMIT", 4.0)
    monkeypatch.setattr(verify, "_LIMIT", 4.0)

    ran = run_here(*command, arm, "-q")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(": a process of play_runs hung: no result in 4 s\n")


@pytest.mark.parametrize("arm", ["print('a word')"], indirect=True)
def test_what_an_arm_from_elsewhere_prints_is_no_part_of_the_result(run_here: Run, arm: str):
    ran = run_here("verify", "--runs", "2", "--jobs", "1", "--json", "-q", arm)

    assert json.loads(ran.out)["same"] is True
