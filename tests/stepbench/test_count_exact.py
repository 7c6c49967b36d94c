"""``stepbench count`` on arms whose work is not the same each time, or not all their own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run, run_script

pytestmark = pytest.mark.thorough

ARM = (Path(__file__).parents[2] / "connector/batched.py").read_text()
BUILD = "        scheduler_output = SchedulerOutput("
SPIN = "\n\ndef spin():\n    for number in range(600):\n        pass\n"
WHERE = "file:arm.py in v2-2x8-block=4: "
SMALL = ("--arms", "file:arm.py", "--cells", "2x8", "--tokens-per-block", "4", "-q")

# The work of the arm goes by the order of a set, or by a hash alone.
BY_HASH = {
    "set of strings": """\
for word in {"alpha", "beta", "gamma", "delta", "omega"}:
    if word == "gamma":
        break""",
    "dict by a frozenset": """\
for word in dict.fromkeys(frozenset(("alpha", b"beta", "gamma", b"delta", ("omega",)))):
    if word == "alpha":
        break""",
    "remainder": "for _ in range(hash('kv-connector') % 7): pass",
}
# What no seed of hashes decides.
UNSTEADY = {
    "places in memory": """\
made = [object() for _ in range(7)]
for one in set(made):
    if one is made[0]:
        break""",
    "the system's random numbers": "import os\nfor _ in range(os.urandom(1)[0]): pass",
    "the time": """\
import time
end = time.perf_counter_ns() + 200_000
while time.perf_counter_ns() < end: pass""",
    "the process": "import os\nfor _ in range(os.getpid() % 2): pass",
}
# What other threads do for it, and which are alive afterwards.
THREADS = {
    "executor": (
        """\
if not hasattr(self, "pool"):
    from concurrent.futures import ThreadPoolExecutor
    self.pool = ThreadPoolExecutor(1)
self.pool.submit(spin)""",
        "; alive after a call: ThreadPoolExecutor-0_0",
    ),
    "executor that is waited for": (
        """\
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    list(pool.map(lambda _: spin(), range(1)))""",
        "",
    ),
    "thread": ("import threading\nthreading.Thread(target=spin).start()", ""),
    "queue": (
        """\
if not hasattr(self, "queue"):
    import queue, threading
    self.queue = queue.Queue()
    def work():
        while True: self.queue.get()()
    threading.Thread(target=work, name="worker", daemon=True).start()
self.queue.put(spin)""",
        "; alive after a call: worker",
    ),
    "raw thread": ("import _thread\n_thread.start_new_thread(spin, ())", ""),
}
PROCESSES = {
    "left alive": (
        "import subprocess\nsubprocess.Popen(['sleep', '60'])",
        "subprocess.Popen (sleep)",
    ),
    "waited for": ("import subprocess\nsubprocess.run(['true'])", "subprocess.Popen (true)"),
    "forked": (
        "import os\nchild = os.fork()\nif not child: os._exit(0)\nos.waitpid(child, 0)",
        "os.fork",
    ),
}


@pytest.fixture
def write() -> Callable[[str], None]:
    """Writes the arm, which does something in each of its calls."""

    def write(lines: str) -> None:
        assert ARM.count(BUILD) == 1
        code = "".join(f"        {line}\n" for line in lines.splitlines())
        Path("arm.py").write_text(ARM.replace(BUILD, f"{code}{BUILD}") + SPIN)

    return write


def count(run_here: Run, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    """What was counted of the arm, and what is told besides."""
    ran = run_here("count", *SMALL, "--json", *arguments)
    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    (work,) = document["work"]
    return work, document["notes"]


@pytest.mark.parametrize("case", BY_HASH)
def test_work_that_depends_on_hashes_is_exact_and_told(
    run_here: Run, write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, case: str
):
    write(BY_HASH[case])
    found = []
    for seed in ("0", "7"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        found.append(count(run_here))

    (work, notes), (again, told) = found
    assert (again["per_iteration"], told) == (work["per_iteration"], notes)
    (note,) = notes
    assert note.startswith(f"work depends on the hash seed: {WHERE}bytecodes ")
    (variation,) = work["variations"]
    assert variation["by_hash"]
    assert variation["low"] <= work["per_iteration"]["bytecodes"] <= variation["high"]


@pytest.mark.parametrize("case", UNSTEADY)
def test_what_cannot_be_made_exact_is_told(run_here: Run, write: Callable[[str], None], case: str):
    write(UNSTEADY[case])

    work, (note,) = count(run_here)

    assert note.startswith(f"work differs between two runs under one hash seed: {WHERE}bytecodes ")
    assert [one["by_hash"] for one in work["variations"]] == [False]


def test_random_numbers_are_drawn_alike(run_here: Run, write: Callable[[str], None]):
    write("import random\nfor _ in range(random.randrange(99)): pass")

    first, notes = count(run_here)

    assert notes == []
    assert count(run_here)[0] == first
    assert count(run_here, "--seed", "1")[0] != first


def test_what_is_told_stands_in_all_formats_and_in_the_report(
    run_here: Run, write: Callable[[str], None]
):
    write(BY_HASH["set of strings"])
    line = f"\nWork depends on the hash seed: {WHERE}bytecodes "

    assert line in run_here("count", *SMALL, "--format", "markdown").out
    terminal = run_here("count", *SMALL, "--format", "terminal").out
    assert "Work depends on the hash seed: " in terminal
    Path("work.json").write_text(run_here("count", *SMALL, "--json").out)
    assert line in run_here("report", "work.json", "--format", "markdown").out


def test_the_callers_environment_changes_nothing_but_what_the_arm_reads(
    write: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    write('''\
"""Text that is no docstring."""
import os, sys, warnings
assert [1 for _ in range(10)]
warnings.warn("old", DeprecationWarning)
if sys.flags.dev_mode: raise ValueError
for _ in range(int(os.environ.get("KV_ROUNDS", "0"))): pass''')

    def counted() -> object:
        ran = run_script("count", *SMALL, "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)["work"]

    plain = counted()
    for name, value in {
        "PYTHONHASHSEED": "77",
        "PYTHONOPTIMIZE": "2",
        "PYTHONMALLOC": "malloc",
        "PYTHONINTMAXSTRDIGITS": "640",
        "PYTHONNODEBUGRANGES": "1",
        "LC_ALL": "C",
    }.items():
        monkeypatch.setenv(name, value)
    assert counted() == plain
    monkeypatch.setenv("KV_ROUNDS", "5")
    assert counted() != plain


def test_nor_do_its_flags(write: Callable[[str], None]):
    write("assert [1 for _ in range(10)]")
    printed = [
        subprocess.run(
            [sys.executable, *flags, "-P", "-m", "stepbench", "count", *SMALL, "--json"],
            capture_output=True,
            check=True,
        ).stdout
        for flags in ((), ("-OO", "-X", "dev", "-W", "ignore"))
    ]
    first, second = (json.loads(one)["work"] for one in printed)
    assert first == second


@pytest.mark.parametrize("case", THREADS)
def test_what_other_threads_do_is_the_arms_work(
    run_here: Run, write: Callable[[str], None], case: str
):
    lines, alive = THREADS[case]
    write(lines)

    work, notes = count(run_here)

    delegated = work["delegated"]
    # Of the loop alone three instructions a turn.
    assert 4 * 1_800 < delegated["bytecodes"] < 4 * work["per_iteration"]["bytecodes"]
    (note,) = [one for one in notes if one.startswith("work on other threads: ")]
    share = f"{work['per_iteration']['bytecodes']:,.2f}".removesuffix(".00")
    assert note.endswith(f" of {share} bytecodes per iteration{alive}")


def test_an_arm_that_hands_out_nothing_is_told_nothing_about(
    run_here: Run, write: Callable[[str], None]
):
    write("pass")
    work, notes = count(run_here)
    assert notes == []
    nothing = {"bytecodes": 0, "threads": [], "processes": [], "is_restless": False}
    assert (work["variations"], work["delegated"]) == ([], nothing)


def test_a_thread_that_never_rests_is_told(run_here: Run, write: Callable[[str], None]):
    write("""\
if not hasattr(self, "poller"):
    import threading, time
    def poll():
        while True: time.sleep(0.001)
    self.poller = threading.Thread(target=poll, name="poller", daemon=True)
    self.poller.start()""")

    _, notes = count(run_here, "--jobs", "8")

    assert f"threads that never rest: {WHERE}not all that they do is counted" in notes
    assert any(note.endswith("alive after a call: poller") for note in notes)


@pytest.mark.parametrize("case", PROCESSES)
def test_work_in_a_child_process_is_told(run_here: Run, write: Callable[[str], None], case: str):
    lines, name = PROCESSES[case]
    write(lines)

    work, notes = count(run_here)

    assert work["delegated"]["processes"] == [name]
    assert f"work in child processes, which is not counted: {WHERE}{name}" in notes


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import os\nos._exit(0)", "the worker returned no result: it printed nothing"),
        ("import os\nos.abort()", "the worker was killed by SIGABRT"),
    ],
)
def test_an_arm_that_ends_its_process_is_one_line(
    run_here: Run, write: Callable[[str], None], lines: str, words: str
):
    write(lines)

    ran = run_here("count", *SMALL)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.strip() == f"stepbench: error: cell v2-2x8-block=4: {words}"
