"""Nothing that a worker is or starts outlives the process that waits for it, whatever ends that."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.system.worker_process import started

from ..helpers import child_processes, error_of, run, wait_for, wait_until_gone

pytestmark = pytest.mark.usefixtures("no_child_left")


# How a process can get away from the one that started it.
ESCAPES = {
    "child": "subprocess.Popen(['sleep', '60'], stdin=null, stdout=null, stderr=null)",
    "with our output": "subprocess.Popen(['sleep', '60'])",
    "session": "subprocess.Popen(['sleep', '60'], start_new_session=True)",
    "daemon": "subprocess.Popen(['setsid', '--fork', 'sh', '-c', f'echo $$ > {note}; sleep 60'])",
    "multiprocessing": "context.Process(target=time.sleep, args=(60,))",
}


def leaver(note: Path, escape: str) -> str:
    """The program of a worker that starts a process, and notes its id."""
    return (
        "import multiprocessing, os, pathlib, subprocess, time; null = subprocess.DEVNULL; "
        f"context = multiprocessing.get_context('fork'); note = {str(note)!r}; "
        f"child = {ESCAPES[escape]}; hasattr(child, 'start') and child.start()\n"
        f"if {escape != 'daemon'}: pathlib.Path(note).write_text(str(child.pid))\n"
        "while not os.path.exists(note) or not os.path.getsize(note): time.sleep(0.01)\n"
    )


@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("end", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_what_it_started_ends_with_it(tmp_path: Path, escape: str, end: str):
    note = tmp_path / "note"
    program = leaver(note, escape) + end
    if end == "os._exit(0)":
        assert run(program) == ""
    else:
        error_of(program)

    # Already: nobody has to wait.
    assert not psutil.pid_exists(int(note.read_text()))


@pytest.mark.parametrize("escape", ["with our output", "daemon"])
def test_what_a_hanging_worker_started_ends_with_it(tmp_path: Path, escape: str):
    note = tmp_path / "note"

    error_of(leaver(note, escape) + "time.sleep(60)", timeout=2)

    assert not psutil.pid_exists(int(note.read_text()))


@pytest.fixture
def killed_command(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for a worker, which has noted its id and started another process."""
    worker = leaver(tmp_path / "child", "daemon") + (
        f"pathlib.Path({str(tmp_path / 'worker')!r}).write_text(str(os.getpid())); time.sleep(60)"
    )
    parent = (
        "import sys; from harness.system.worker_process import run_child; "
        f"run_child('x', [sys.executable, '-c', {worker!r}], 1, '', 60)"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        wait_for(tmp_path / "worker")
        yield process
        process.kill()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGSEGV, signal.SIGUSR1, signal.SIGALRM]
)
def test_whatever_kills_the_process_that_waits_no_worker_outlives_it(
    tmp_path: Path, killed_command: subprocess.Popen[bytes], number: signal.Signals
):
    # It has no chance to clean up.
    killed_command.send_signal(number)

    for name in ("worker", "child"):
        wait_until_gone(int((tmp_path / name).read_text()))


def test_a_worker_dies_with_its_keeper(tmp_path: Path, killed_command: subprocess.Popen[bytes]):
    (keeper,) = psutil.Process(killed_command.pid).children()

    keeper.kill()

    wait_until_gone(int((tmp_path / "worker").read_text()))
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_keeper_does_its_work_whatever_it_is_asked(
    tmp_path: Path, killed_command: subprocess.Popen[bytes], number: signal.Signals
):
    (keeper,) = psutil.Process(killed_command.pid).children()

    keeper.send_signal(number)
    killed_command.kill()

    for name in ("worker", "child"):
        wait_until_gone(int((tmp_path / name).read_text()))


def test_a_command_that_ends_before_its_worker_starts_leaves_none(tmp_path: Path):
    note = tmp_path / "note"
    parent = (
        "import os, subprocess, sys; from harness.system import worker_process as child; "
        "real = subprocess.Popen; "
        "start = lambda *options, **more: (real(*options, **more), os.kill(os.getpid(), 9)); "
        "subprocess.Popen = start; "
        f"child.run_child('x', ['sh', '-c', 'echo $$ > {note}; sleep 60'], 1, '', 60)"
    )
    done = subprocess.run([sys.executable, "-c", parent], check=False)

    assert done.returncode == -signal.SIGKILL
    time.sleep(0.5)
    if note.exists() and (pid := note.read_text()):
        wait_until_gone(int(pid))


@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interruption_while_a_worker_starts_leaves_none(
    monkeypatch: pytest.MonkeyPatch, moment: str
):
    real = subprocess.Popen

    def interrupted(*arguments: object, **options: object) -> None:
        if moment == "after":
            real(*arguments, **options)  # type: ignore[call-overload]
        raise KeyboardInterrupt

    descriptors, others = psutil.Process().num_fds(), child_processes()
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("import time; time.sleep(60)")
    monkeypatch.undo()

    assert psutil.Process().num_fds() == descriptors
    # It ends by itself; Python collects it when the next one starts.
    for keeper in child_processes() - others:
        wait_until_gone(keeper)
    run("")


def test_signals_that_are_ignored_or_held_back_here_are_not_in_a_worker():
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD]
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers[:3]}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        told = run(
            "import os; os.execvp('grep', ['grep', '-E', 'Sig(Blk|Ign)', '/proc/self/status'])"
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)

    found = {line.split()[0]: int(line.split()[1], 16) for line in told.splitlines()}
    # Python itself ignores two.
    of_python = {signal.SIGPIPE, signal.SIGXFSZ}
    assert found == {"SigBlk:": 0, "SigIgn:": sum(1 << (number - 1) for number in of_python)}


def test_neither_a_stopped_program_nor_a_stopped_keeper_stays(tmp_path: Path):
    note = tmp_path / "note"
    with started(["sh", "-c", f"echo $$ > {note}; sleep 60"]) as kept:
        program = psutil.Process(int(wait_for(note)))
        program.suspend()
        psutil.Process(kept.process.pid).suspend()

    assert not program.is_running()
