"""Keeps one process: neither it nor anything that it starts outlives who asked for it.

``harness.system.worker_process`` starts it as a script, ``python -I -S keeper.py LIFELINE
COMMAND``, with two file descriptors: a socket whose other end the asking process holds, and a file
with the command line. What the process is given and what it says goes past the keeper, which ends
as the process did.

The keeper ends everything when the process has ended, or when the lifeline is cut: by the asking
process, or by the kernel, whatever killed that, and however early. Should the keeper itself be
killed, the death signal ends the process. It is a program of its own, since it cannot be in
the asking process, where threads may run (a fork of those may hang), and sleeps meanwhile. It
imports little, so that it starts within some ten milliseconds.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
from typing import NoReturn

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# What a shell says of a command that it does not find, or that cannot be run.
_NOT_FOUND, _NOT_RUN = 127, 126


def main() -> NoReturn:
    """Keep what the command line describes."""
    lifeline, listed = map(int, sys.argv[1:])
    command = os.read(listed, os.fstat(listed).st_size).split(b"\0")
    os.close(listed)
    os.set_inheritable(lifeline, False)
    # Nothing but the lifeline ends it before its work is done. Whoever asks may hold signals back,
    # or be deaf to the end of children: all begins anew here.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    heard, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # Orphans among the descendants become children of this process, also those of other sessions.
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    keeper = os.getpid()
    process = os.fork()
    if not process:
        _become(command, keeper)
    status = _wait(process, lifeline, heard)
    _end_all(process)
    _end_as(status)


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, where the kernel and this Python can."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _become(command: list[bytes], keeper: int) -> NoReturn:
    """Become the process that is to be kept."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:  # It was gone before the kernel knew.
        os._exit(_NOT_RUN)
    # A session of its own: Ctrl-C in a terminal reaches the asking process alone.
    os.setsid()
    # What was ignored would stay so.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - a shell would change what it is given
    except OSError as error:
        print(f"{os.fsdecode(command[0])}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN)


def _wait(process: int, lifeline: int, heard: int) -> int | None:
    """Return the wait status of the process once it has ended; None if the lifeline was cut."""
    poller = select.poll()
    poller.register(lifeline, select.POLLIN)
    poller.register(heard, select.POLLIN)
    while True:
        if lifeline in dict(poller.poll()):
            return None
        os.read(heard, 4096)
        # Orphans end as well, and have to be collected.
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == process:
                return status
            if not ended:
                break


def _end_all(process: int) -> None:
    """Kill all descendants, and return when they are gone."""
    with contextlib.suppress(OSError):  # It had not come to its own group, or left nobody there.
        os.killpg(process, signal.SIGKILL)
    while _has_children():
        # Children of a killed one become ours: they are found the next time.
        children = _children()
        for child in [process] if children is None else children:
            with contextlib.suppress(OSError):  # Gone, or another user's.
                os.kill(child, signal.SIGKILL)
        if children is None:
            return
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def _has_children() -> bool:
    """Return whether this process has children, once those that have ended are collected."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def _children() -> list[int] | None:
    """Return the process ids of this process's children; None where there is no ``/proc``."""
    found = []
    try:
        names = [name for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
        if not names:
            return None
    except OSError:
        return None
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                # After the name, which may hold anything: the state and the parent.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == os.getpid():
            found.append(int(name))
    return found


def _end_as(status: int | None) -> NoReturn:
    """End this process in the way that the kept one did."""
    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(0 if status is None else os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
