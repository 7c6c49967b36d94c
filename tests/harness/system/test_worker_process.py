"""Workers as processes: small programs that end in every way a worker can."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from harness.system.worker_process import (
    Child,
    WorkerError,
    child_environment,
    hash_seed,
    run_children,
    started,
)
from harness.system.worker_process import run as run_program

from ..helpers import child_processes, error_of, run, wait_for, wait_until_gone

pytestmark = pytest.mark.usefixtures("no_child_left")


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
        "import os, subprocess, sys; from harness.system.worker_process import take_over_stdout; "
        "print('before', flush=True); result = take_over_stdout(); print('word', flush=True); "
        "os.write(1, b'native'); subprocess.run(['echo', 'child']); print('not flushed', end=''); "
        "result.write('caf\u00e9'); result.flush(); os._exit(0)"
    )
    assert run(program) == "before\ncaf\u00e9"


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
        # Told at once: the other one would take its minute.
        run_children(children(*programs), 600)

    words = f"cell {place}: the worker failed: RuntimeError: a broken arm"
    assert str(caught.value) == words
    wait_until_gone(int(note.read_text()))


def test_one_time_limit_holds_for_all_workers():
    # Each is done within the limit; were it counted anew for each, nothing would hang.
    programs = ("import time; time.sleep(1)", "import time; time.sleep(60)")

    with pytest.raises(WorkerError) as caught:
        run_children(children(*programs), 2)

    assert str(caught.value) == "cell 1: the worker hung: no result after 2 s"


def test_a_program_is_run_like_subprocess_runs_it(tmp_path: Path):
    done = run_program(["sh", "-c", "echo out; echo err >&2"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    done = run_program(["pwd"], stdout=subprocess.PIPE, cwd=tmp_path)
    assert done.stdout == f"{tmp_path}\n".encode()
    with pytest.raises(subprocess.CalledProcessError) as failed:
        run_program(["sh", "-c", "exit 7"], check=True)
    assert (failed.value.returncode, failed.value.cmd) == (7, ["sh", "-c", "exit 7"])
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run_program(["sleep", "60"], timeout=0.3)
    assert (late.value.timeout, late.value.cmd) == (0.3, ["sleep", "60"])


def test_a_program_that_is_not_there_or_is_none_is_told(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        run_program(["no-such-program"])
    (tmp_path / "program").write_bytes(b"\x7fELF")
    (tmp_path / "program").chmod(0o755)
    done = run_program([str(tmp_path / "program")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (126, f"{tmp_path}/program: Exec format error\n")


def test_workers_start_whatever_many_files_are_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("no more than 1024 files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1100):
                stack.enter_context(Path(os.devnull).open())
            assert run("print(1)") == "1\n"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_program_ends_with_the_block_that_started_it():
    with started(["sleep", "60"]) as kept:
        (program,) = psutil.Process(kept.process.pid).children() or [None]
    assert program is None or not program.is_running()
    assert kept.process.returncode == 0
