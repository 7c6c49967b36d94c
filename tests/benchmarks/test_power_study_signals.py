"""Signals to the study while a trial runs, with a process that keeps a core busy and workers."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from ..stepbench.signal_storm import MARK, alive

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "benchmarks" / "power_study.py"
TRIAL = ("--rounds", "3", "--seconds", "30", "--cpu", "none", "--only", "a/a beside a hog")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_nothing_is_left_of_a_study(tmp_path: Path, number: signal.Signals, code: int):
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, str(STUDY), *TRIAL, "--trials", str(tmp_path / "trials.jsonl")],
        env=os.environ | {MARK: mark, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            end = time.monotonic() + 60
            while not {"hog", "worker"} <= set(_kinds(mark, tmp_path)):
                assert time.monotonic() < end
                time.sleep(0.05)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == code
    assert "Traceback" not in err
    if number == signal.SIGKILL:
        # Nobody is left to wait for it.
        for _ in range(500):
            if not alive(mark, tmp_path):
                break
            time.sleep(0.01)
    assert alive(mark, tmp_path) == {}


def _kinds(mark: str, folder: Path) -> list[str]:
    commands = alive(mark, folder).values()
    known = {"while True: pass": "hog", "harness.compare.worker": "worker"}
    return [kind for words in commands for text, kind in known.items() if text in words]
