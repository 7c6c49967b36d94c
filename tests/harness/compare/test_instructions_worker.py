"""The worker that counts instructions, apart from valgrind."""

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

from harness.arms.sources import find_source
from harness.compare import instructions_worker as worker
from scenarios.scenario import SteadyDecode
from scenarios.workload import create_workload

TOGGLE, START, DUMP = 0x43540002, 0x43540004, 0x43540000
x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")


def run(code: str, text: str = "") -> tuple[int, str, str]:
    """Run Python code in a process of its own; return its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@x86_only
def test_a_request_is_answered_with_0_where_there_is_no_valgrind():
    ask = worker.requester("x86_64")

    assert [ask(0x1001), ask(TOGGLE), ask(DUMP)] == [0, 0, 0]


@x86_only
def test_without_valgrind_the_worker_says_so():
    code = "from harness.compare.instructions_worker import main; main()"

    assert run(code, json.dumps({})) == (1, "", "this worker has to be run by valgrind\n")


def test_only_the_calls_are_counted_after_the_warm_up(capsys: pytest.CaptureFixture[str]):
    seen: list[Any] = []
    workload = create_workload(SteadyDecode(requests=2, tokens=8), 5, "0", "python")
    advance = workload.advance
    workload.advance = lambda: (seen.append("advance"), advance())[1]  # type: ignore[method-assign]

    worker._count(
        find_source("incremental"),
        workload,
        {"warmups": 2, "iterations": 3},
        lambda request: seen.append(request) or 0,
        sys.stdout,
    )

    call = [TOGGLE, TOGGLE]
    assert seen == [
        *["advance", *call, *call] * 2,
        START,
        *call * 3,
        DUMP,
        *["advance", *call] * 3,
        DUMP,
    ]
    assert capsys.readouterr().out == f"{os.getpid()}\n"


@pytest.mark.parametrize(
    ("task", "code", "out", "err"),
    [
        ("print('in', flush=True)", 0, "in\nafter\n", ""),
        ("1 / 0", 1, "", "an arm: ZeroDivisionError: division by zero\n"),
        ("raise ValueError('two\\nlines')", 1, "", "an arm: ValueError: two lines\n"),
        ("sys.exit(0)", 1, "", "an arm: SystemExit: 0\n"),
        ("os._exit(7)", 7, "", ""),
        ("os.kill(os.getpid(), 9)", 1, "", "an arm: killed by SIGKILL\n"),
    ],
)
def test_a_copy_of_the_process_that_fails_ends_it_with_one_line(
    task: str, code: int, out: str, err: str
):
    lines = [
        "import os, sys",
        "from harness.compare.instructions_worker import _in_fork",
        "def task(arm):",
        f"    {task}",
        "_in_fork('an arm', task, 1)",
        "print('after')",
    ]

    assert run("\n".join(lines)) == (code, out, err)
