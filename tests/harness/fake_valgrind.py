"""A program that plays valgrind: it counts nothing and writes what it is told to."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

# What a run knows: its number, the folder for its files, and the job.
_HEAD = """#!{python} -IS
import json, os, pathlib, signal, sys, time
if sys.argv[1:] == ["--version"]:
    print("valgrind-3.99.1")
    sys.exit()
(out,) = [word for word in sys.argv if word.startswith("--callgrind-out-file=")]
folder = pathlib.Path(out.partition("=")[2]).parent
run = int(folder.name.removeprefix("run-"))
job = json.load(sys.stdin)
note = dict(argv=sys.argv[1:], environment=dict(os.environ), job=job, folder=str(folder))
notes = pathlib.Path({notes!r})
# Whoever finds it finds all of it: this may be killed at any moment.
part = notes.with_name(f"part-{{run}}")
part.write_text(json.dumps(note))
part.replace(notes / f"{{run}}.json")

def write(process, nothing, arm):
    first, second = (folder / f"{{process}}.{{part}}" for part in (1, 2))
    first.write_text(f"part: 1\\n\\nsummary: {{nothing}}\\n\\nfn=(1)\\n0 5\\n")
    second.write_text(f"part: 2\\n\\nfn=(1)\\n0 7\\n\\ntotals: {{arm}}\\n")
    print(process, flush=True)

"""
# Both arms have 32 iterations of 2 x 64: 10 and 11 instructions each, beyond 4 for nothing.
COUNTS = "write(70, 128, 448); write(71, 128, 480)"
BY_HASH = "write(70, 128, 448); write(71, 128, 480 + 32 * max(0, run - 2))"
DIFFERING = "write(70, 128, 448 + 32 * run); write(71, 128, 480)"


class FakeValgrind:
    """The program on the path, and the notes that its runs leave."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes = folder / "notes"
        self.path = folder / "valgrind"
        self.notes.mkdir(parents=True)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        self.does(COUNTS)

    def does(self, what: str) -> None:
        """Have its runs do ``what`` after they have noted how they were started."""
        head = _HEAD.format(python=sys.executable, notes=str(self.notes))
        self.path.write_text(f"{head}{what}\n")
        self.path.chmod(0o755)

    def runs(self) -> list[dict[str, Any]]:
        """How the runs were started, in the order of their numbers."""
        return [json.loads(file.read_text()) for file in sorted(self.notes.iterdir())]
