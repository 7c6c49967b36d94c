"""A worker that valgrind runs: counts what each arm executes on the same workload.

``harness.compare.instructions`` starts it with a job on standard input, as JSON. The counts go to
files of valgrind's; the ids of the processes that wrote them, one for each arm, go to standard
output.
"""

import ctypes
import dataclasses
import gc
import json
import mmap
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from harness.arms.loading import create, load_apart
from harness.arms.missing import not_runnable
from harness.arms.sources import ArmSource
from harness.system.worker_process import take_over_stdout
from scenarios.scenario import from_dict
from scenarios.workload import SteadyDecodeWorkload, TraceReplayWorkload, create_workload
from stepbench_core.errors import described

# Client requests of callgrind: the enumeration in valgrind/callgrind.h, an ABI by its own words.
_DUMP, _ZERO, _TOGGLE, _DUMP_AT, _START, _STOP = (0x43540000 + number for number in range(6))
_RUNNING_ON_VALGRIND = 0x1001  # valgrind/valgrind.h

# A function of one pointer, to the words of a request. Four rotations that together change nothing
# and an exchange of a register with itself tell valgrind to look at them (valgrind/valgrind.h).
MACHINE_CODE = {
    "x86_64": bytes.fromhex(
        "4889f8"  # mov rax, rdi
        "31d2"  # xor edx, edx: the answer where nobody listens
        "48c1c703 48c1c70d 48c1c73d 48c1c733"  # rol rdi by 3, 13, 61 and 51
        "4887db"  # xchg rbx, rbx
        "4889d0"  # mov rax, rdx
        "c3"  # ret
    )
}

# What the arm's file is called, wherever it is.
COUNTED = "arm.py"

Workload = SteadyDecodeWorkload | TraceReplayWorkload
Call = Callable[[Any, Any, Any], object]


class Nothing:
    """An arm that does nothing: what its call costs is the price of calling and counting."""

    def build_scheduler_output(self, _batch: object, _requests: object, _manager: object) -> None:
        """Return nothing."""


def main() -> None:
    """Count what the job on standard input describes."""
    result = take_over_stdout()
    job = json.load(sys.stdin)
    ask = requester(os.uname().machine)
    if not ask(_RUNNING_ON_VALGRIND):
        sys.exit("this worker has to be run by valgrind")
    iterations = job["warmups"] + job["iterations"]
    workload = create_workload(from_dict(job["scenario"]), iterations, job["seed"], job["provider"])
    gc.collect()
    gc.freeze()
    gc.disable()
    # Each arm begins with the same memory, whatever the other did to its own: two copies of the
    # same code give the same count. What is made here between two forks has to be gone at the next.
    sources = [ArmSource(**source) for source in job["sources"]]
    for source in sources:
        _in_fork(source.spec, _count, source, workload, job, ask, result)
    os._exit(0)


def requester(machine: str) -> Callable[[int], int]:
    """Return a function that makes a client request and returns valgrind's answer, else 0."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(MACHINE_CODE[machine])
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p)(address)

    def ask(request: int) -> int:
        words = (ctypes.c_size_t * 6)(request)
        # The memory has to live as long as the function does.
        return int(function(words)) if memory else 0

    return ask


def _count(
    source: ArmSource,
    workload: Workload,
    job: dict[str, Any],
    ask: Callable[[int], int],
    result: TextIO,
) -> None:
    """Have valgrind write two counts: of calls that do nothing, and of the arm's.

    Each is of all counted iterations together. This process's id goes to ``result``.
    """
    os.environ.update(source.variables)
    # Where the text came from must not make a difference either.
    source = dataclasses.replace(source, filename=COUNTED)
    module = load_apart(source, "_stepbench_counted")
    build: Call = create(module, source, attention_dp=False).build_scheduler_output
    nothing: Call = Nothing().build_scheduler_output

    def call(function: Call) -> None:
        batch, requests, manager = workload.batch, workload.async_requests, workload.manager
        ask(_TOGGLE)
        output = function(batch, requests, manager)
        ask(_TOGGLE)
        del output

    for _ in range(job["warmups"]):
        workload.advance()
        call(nothing)
        call(build)
    ask(_START)
    for _ in range(job["iterations"]):
        call(nothing)
    ask(_DUMP)
    for _ in range(job["iterations"]):
        workload.advance()
        call(build)
    ask(_DUMP)
    print(os.getpid(), file=result, flush=True)


def _in_fork(name: str, task: Callable[..., None], *arguments: object) -> None:
    """Run ``task`` in a copy of this process; end this one if that fails, with a line on stderr."""
    process = os.fork()
    if not process:
        _run(name, task, *arguments)
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        sys.exit(f"{name}: killed by {signal.Signals(os.WTERMSIG(status)).name}")
    if status:
        os._exit(os.WEXITSTATUS(status))


def _run(name: str, task: Callable[..., None], *arguments: object) -> NoReturn:
    """Run ``task`` and end this process."""
    try:
        task(*arguments)
    except BaseException as error:
        said = not_runnable(error, {name: COUNTED}) or error
        words = " ".join(f"{name}: {described(said)}".split())
        print(words, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
