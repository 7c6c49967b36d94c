"""Workers as processes: small programs that end in every way a worker can."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness import child
from harness.child import (
    Child,
    WorkerError,
    child_environment,
    hash_seed,
    run_child,
    run_children,
)

from .helpers import child_processes

pytestmark = pytest.mark.usefixtures("no_child_left")


def run(program: str, text: str = "", *, seed: int = 1, timeout: float = 60) -> str:
    return run_child("cell x", [sys.executable, "-c", program], seed, text, timeout)


def error_of(program: str, timeout: float = 60) -> str:
    with pytest.raises(WorkerError) as caught:
        run(program, timeout=timeout)
    return str(caught.value)


def wait_for(path: Path) -> str:
    for _ in range(1000):
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.01)
    raise AssertionError(f"{path.name} was never written")


def wait_until_gone(pid: int) -> None:
    for _ in range(1000):
        # Dead, whether or not its new parent has collected it.
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the process is still there")


def test_what_a_worker_prints_is_returned():
    # More than a pipe holds, both ways and on stderr.
    program = (
        "import sys; t = sys.stdin.read(); print(t.upper(), end=''); print(t, file=sys.stderr)"
    )
    assert run(program, "caf\u00e9 " * 50_000) == "CAF\u00c9 " * 50_000


def test_a_worker_need_not_read_what_it_is_given():
    assert run("print(1)", "x" * 1_000_000) == "1\n"


def test_undecodable_output_is_no_reason_to_fail():
    assert run(r"import os; os.write(1, b'caf\xe9')") == "caf\ufffd"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise RuntimeError('a broken arm')", "failed: RuntimeError: a broken arm"),
        ("raise ValueError('of two\\nlines')", "failed: ValueError: of two"),
        ("import sys; sys.exit(3)", "exited with 3"),
        ("import sys; sys.exit('no such thing\\n \\n')", "failed: no such thing"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL "),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "was killed by SIGTERM"),
        ("import os; os.kill(os.getpid(), 40)", "was killed by signal 40"),
        ("def", "failed: SyntaxError: "),
    ],
)
def test_how_it_died_is_told(program: str, why: str):
    assert error_of(program).startswith(f"cell x: the worker {why}")


def test_only_sigkill_hints_at_memory():
    assert error_of("import os; os.kill(os.getpid(), 9)").endswith("SIGKILL (out of memory?)")
    assert error_of("import os; os.kill(os.getpid(), 6)").endswith("killed by SIGABRT")


@pytest.mark.parametrize(("timeout", "told"), [(0.2, "0.2 s"), (1.0, "1 s")])
def test_a_hanging_worker_is_stopped(timeout: float, told: str):
    descriptors = psutil.Process().num_fds()

    error = error_of("import time; time.sleep(60)", timeout)

    assert error == f"cell x: the worker hung: no result after {told}"
    assert psutil.Process().num_fds() == descriptors


@pytest.mark.parametrize("end", ["", "; raise SystemExit(3)", "; time.sleep(60)"])
def test_what_it_started_ends_with_it(tmp_path: Path, end: str):
    note = tmp_path / "note"
    program = (
        "import pathlib, subprocess, time; null = subprocess.DEVNULL; "
        "child = subprocess.Popen(['sleep', '60'], stdin=null, stdout=null, stderr=null); "
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))"
    )
    if end:
        error_of(program + end, timeout=1)
    else:
        run(program)

    wait_until_gone(int(note.read_text()))


def test_an_interrupt_stops_the_worker(tmp_path: Path):
    note = tmp_path / "note"
    program = (
        "import os, pathlib, time; "
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )

    def interrupt() -> None:
        wait_for(note)
        os.kill(os.getpid(), signal.SIGINT)

    before = child_processes()
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(program)
    thread.join()
    assert child_processes() == before
    assert not psutil.pid_exists(int(note.read_text()))


def test_a_worker_is_in_a_session_of_its_own():
    # Ctrl-C in a terminal goes to a session's foreground group: it must not reach the worker.
    assert run("import os; print(os.getsid(0) == os.getpid())") == "True\n"


def test_the_environment_is_ours_without_what_changes_how_python_runs(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("STEPBENCH_WORD", "kept")
    monkeypatch.setenv("PYTHONPATH", "here")
    for name in ("PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONHASHSEED", "PYTHONOPTIMIZE"):
        monkeypatch.setenv(name, "7")

    found = child_environment(42)

    assert {name: value for name, value in found.items() if name.startswith("PYTHON")} == {
        "PYTHONPATH": "here",
        "PYTHONHASHSEED": "42",
        "PYTHONUTF8": "1",
    }
    assert found["STEPBENCH_WORD"] == "kept"
    monkeypatch.delenv("PYTHONPATH")
    assert "PYTHONPATH" not in child_environment(42)


def test_the_hash_seed_decides_how_texts_are_hashed():
    program = "print(hash('text'))"
    first, again, other = run(program, seed=5), run(program, seed=5), run(program, seed=6)
    assert first == again != other
    assert hash_seed(0, 5) != hash_seed(0, 6) != hash_seed(1, 5)


def test_only_the_result_leaves_a_worker_that_took_over_stdout():
    program = (
        "import os, subprocess, sys; from harness.child import take_over_stdout; "
        "print('before', flush=True); result = take_over_stdout(); print('word', flush=True); "
        "os.write(1, b'native'); subprocess.run(['echo', 'child']); print('not flushed', end=''); "
        "result.write('caf\u00e9'); result.flush(); os._exit(0)"
    )
    assert run(program) == "before\ncaf\u00e9"


def test_a_worker_dies_with_the_process_that_waits_for_it(tmp_path: Path):
    note = tmp_path / "note"
    worker = (
        "import os, pathlib, time; from harness.child import die_with_parent; die_with_parent(); "
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    parent = (
        "import sys; from harness.child import run_child; "
        f"run_child('x', [sys.executable, '-c', {worker!r}], 1, '', 60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as waiting:
        pid = int(wait_for(note))
        # So that it has no chance to clean up.
        waiting.kill()

    wait_until_gone(pid)


def children(*programs: str) -> list[Child]:
    return [
        Child(f"cell {number}", [sys.executable, "-c", program], 1, f"{number}")
        for number, program in enumerate(programs)
    ]


def test_workers_run_at_once_and_answer_in_their_order(tmp_path: Path):
    # Each waits for the other one; what they print is more than a pipe holds.
    program = (
        "import pathlib, sys, time; me = int(sys.stdin.read()); "
        f"folder = pathlib.Path({str(tmp_path)!r}); (folder / str(me)).touch()\n"
        "while not (folder / str(1 - me)).exists(): time.sleep(0.01)\n"
        "time.sleep(0.2 * (1 - me)); print(me, 'x' * 100_000)"
    )

    found = run_children(children(program, program), 60)

    assert found == [f"{number} {'x' * 100_000}\n" for number in range(2)]


@pytest.mark.parametrize("place", [0, 1])
def test_of_workers_at_once_the_one_that_fails_is_named_and_the_other_stopped(
    tmp_path: Path, place: int
):
    note = tmp_path / "note"
    sleeps = (
        "import os, pathlib, time; "
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    fails = (
        f"import pathlib, time\nwhile not pathlib.Path({str(note)!r}).exists(): time.sleep(0.01)\n"
        "raise RuntimeError('a broken arm')"
    )
    programs = (fails, sleeps) if place == 0 else (sleeps, fails)

    with pytest.raises(WorkerError) as caught:
        # The first one is waited for; of one that hangs, another one that died is the reason.
        run_children(children(*programs), 10)

    words = f"cell {place}: the worker failed: RuntimeError: a broken arm"
    assert str(caught.value) == words
    wait_until_gone(int(note.read_text()))


def test_one_time_limit_holds_for_all_workers(monkeypatch: pytest.MonkeyPatch):
    # At the start, and before each is waited for.
    now = iter([100.0, 101.0, 107.0])
    monkeypatch.setattr(child, "time", SimpleNamespace(monotonic=lambda: next(now)))
    real, left = subprocess.Popen.communicate, list[float]()

    def communicate(process: subprocess.Popen[str], timeout: float) -> tuple[str, str]:
        left.append(timeout)
        return real(process, timeout=60)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)

    assert run_children(children("print(1)", "print(2)"), 60) == ["1\n", "2\n"]
    assert left == [59.0, 53.0]
