"""``harness.speedup.isolated``: known subjects that fail, each in its way."""

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.speedup import isolated
from harness.system.worker_process import WorkerError

from ..helpers import make_plan, run_job

pytestmark = pytest.mark.usefixtures("no_child_left")


def error_of(arm: str, timeout: float = 60) -> str:
    plan = make_plan(arm)
    with pytest.raises(WorkerError) as caught:
        run_job(plan, plan.jobs()[0], timeout)
    return str(caught.value)


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        ("crash", "failed: RuntimeError: the subject broke"),
        ("kill", "was killed by SIGKILL (out of memory?)"),
        ("terminate", "was killed by SIGTERM"),
        ("nameless-signal", "was killed by signal 40"),
        ("exit", "exited with 3"),
        ("vanish", "returned no result"),
        ("garbage", "returned no result"),
        ("undecodable-error", "failed: caf\ufffd"),
        ("unheard", "failed: stepbench_core.errors.InputError: unknown arm 'unheard': known: "),
    ],
)
def test_an_error_names_cell_arm_process_and_reason(arm: str, reason: str):
    assert error_of(arm).startswith(f"cell v2-2x40, arm {arm}, process 1: the worker {reason}")


def test_a_hanging_worker_is_killed(notes: Path):
    plan = make_plan("hang")
    with pytest.raises(WorkerError) as caught:
        run_job(plan, plan.jobs()[1], 3.0)
    assert str(caught.value) == (
        "cell v2-2x40, arm hang, process 2: the worker hung: no result after 3 s"
    )
    assert not psutil.pid_exists(int((notes / "hang").read_text()))


@pytest.mark.usefixtures("notes")
def test_a_timeout_below_a_second_is_not_told_as_0():
    assert error_of("hang", timeout=0.2).endswith("no result after 0.2 s")


@pytest.mark.usefixtures("notes")
def test_a_hanging_worker_leaves_no_pipe_open():
    plan, here = make_plan("hang"), psutil.Process()
    before = here.num_fds()
    # The error is held: nothing may depend on when the garbage collector comes by.
    with pytest.raises(WorkerError) as caught:
        run_job(plan, plan.jobs()[0], 0.2)
    assert here.num_fds() == before, caught


def test_what_a_worker_started_dies_with_it(notes: Path):
    assert error_of("leave-child").endswith("the worker was killed by SIGKILL (out of memory?)")
    child = int((notes / "child").read_text())
    for _ in range(500):
        try:
            state = psutil.Process(child).status()
        except psutil.NoSuchProcess:
            return
        if state == psutil.STATUS_ZOMBIE:  # Dead; its new parent has to collect it.
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child of a dead worker is still there")


@pytest.mark.parametrize(
    "text",
    [
        *["", "garbage", "{", "1", "null", "[]", "{}", '{"version": "1.0"}'],
        *['{"version": "1.0", "benchmarks": []}', '{"version": "1.0", "benchmarks": 1}'],
        *['{"version": "1.0", "benchmarks": [{"runs": []}]}', "\u00e9"],
    ],
)
def test_anything_else_on_stdout_is_no_result(monkeypatch: pytest.MonkeyPatch, text: str):
    print_it = f"import sys; sys.stdout.buffer.write({text.encode('latin-1')!r})"
    monkeypatch.setattr(isolated, "worker_command", lambda _: [sys.executable, "-c", print_it])
    assert error_of("any") == "cell v2-2x40, arm any, process 1: the worker returned no result"


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize("arm", ["print", "native-print", "loud-import"])
def test_an_arm_may_print(arm: str):
    plan = make_plan(arm)
    (result,) = run_job(plan, plan.jobs()[0]).get_runs()
    assert len(result.values) == 6
