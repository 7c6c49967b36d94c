"""``harness.speedup.worker`` with known subjects among its arms: ones that fail, and ones that look
around.

Run as a script with a worker's arguments. ``STEPBENCH_SUBJECTS`` names a folder for their notes.
"""

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from connector.full_copy import KvCacheConnectorSchedulerOutputManager as FullCopy
from connector.interfaces import AsyncRequests, KVCacheManager, ScheduledRequests
from harness.arms import registry as arms
from harness.speedup import worker

NOTES = Path(os.environ["STEPBENCH_SUBJECTS"])

# CPython 3.12 freezes some objects of its own before any code of ours runs.
FROZEN_AT_START = gc.get_freeze_count()


def note(name: str, text: str) -> None:
    """Leave a note that is complete as soon as it is there."""
    draft = NOTES / f".{name}"
    draft.write_text(text)
    draft.replace(NOTES / name)


class Subject(FullCopy):
    """An arm that works, and does something beside it in every iteration."""

    def build_scheduler_output(
        self, batch: ScheduledRequests, loading: AsyncRequests, manager: KVCacheManager
    ) -> object:
        self.batch = batch
        self.act()
        return super().build_scheduler_output(batch, loading, manager)

    def act(self) -> None:
        """Do nothing, here."""


class Crash(Subject):
    def act(self) -> None:
        raise RuntimeError("the subject broke")


class CrashOnThree(Subject):
    def act(self) -> None:
        if len(self.batch.generation_requests) == 3:
            raise RuntimeError("three are too many")


class CrashSecondTime(Subject):
    """Breaks in all processes but the first."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        number = len(list(NOTES.glob("second-*")))
        (NOTES / f"second-{number}").touch()
        if number:
            raise ValueError("not again")


class Hang(Subject):
    def act(self) -> None:
        note("hang", str(os.getpid()))
        # Not for good: a harness that does not kill it should fail its test, not hang it.
        time.sleep(60)
        os._exit(4)


class Kill(Subject):
    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Terminate(Subject):
    def act(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


class NamelessSignal(Subject):
    """Dies of a real-time signal, most of which have no name."""

    def act(self) -> None:
        os.kill(os.getpid(), 40)


class Exit(Subject):
    def act(self) -> None:
        sys.exit(3)


class Vanish(Subject):
    def act(self) -> None:
        os._exit(0)


class Garbage(Subject):
    """Writes past Python's own stdout, and ends before there is a result."""

    def act(self) -> None:
        os.write(1, b"\x00 garbage\n")
        os._exit(0)


class UndecodableError(Subject):
    def act(self) -> None:
        os.write(2, b"caf\xe9\n")
        os._exit(3)


class LeaveChild(Subject):
    """Starts a process and dies before it ends."""

    def act(self) -> None:
        null = subprocess.DEVNULL
        child = subprocess.Popen(["sleep", "60"], stdin=null, stdout=null, stderr=null)
        note("child", str(child.pid))
        os.kill(os.getpid(), signal.SIGKILL)


class Print(Subject):
    def act(self) -> None:
        print("a word on stdout", flush=True)
        print("a word on stderr", file=sys.stderr, flush=True)


class NativePrint(Subject):
    """Prints as a native library does, past Python's own stdout."""

    def act(self) -> None:
        os.write(1, b"a word on stdout\n")


class Look(Subject):
    """Notes what it sees: one file a process, one line an iteration."""

    def act(self) -> None:
        requests = self.batch.generation_requests
        tokens = repr([request.get_tokens(0) for request in requests])
        seen = {
            "pid": os.getpid(),
            "time": time.monotonic(),
            "session": os.getsid(0),
            "hash_seed": os.environ.get("PYTHONHASHSEED"),
            "cpus": sorted(os.sched_getaffinity(0)),
            "gc": gc.isenabled(),
            "frozen": gc.get_freeze_count() > FROZEN_AT_START,
            "tokens": hashlib.sha256(tokens.encode()).hexdigest(),
            "heavy": sorted({"pandas", "rich", "matplotlib", "scipy"} & set(sys.modules)),
        }
        with (NOTES / f"look-{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(seen) + "\n")


class LookAgain(Look):
    """The same under another name."""


subjects = {"loud-import": "loud_import"}
sys.path.append(str(Path(__file__).parent))
for subject in Subject.__subclasses__() + Look.__subclasses__():
    name = "".join(f"-{c.lower()}" if c.isupper() else c for c in subject.__name__).lstrip("-")
    subjects[name] = f"subject {name}"
    sys.modules[subjects[name]] = SimpleNamespace(KvCacheConnectorSchedulerOutputManager=subject)
# The arms, and where they are looked up together with what is none.
arms.ARMS.update(subjects)
getattr(arms, "_MODULES", arms.ARMS).update(subjects)

worker.main()
