"""What all peers measure: one call of an arm, on the workload of a cell that moved on before it.

The peers' own processes use it. A job is a JSON file that ``peers_trial`` writes: the scenario, the
arm as source text, and what a tool's process has to know besides. Run as a script with the path of
one, it prints what it takes, in seconds.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from harness.arms.loading import load_apart
from harness.arms.sources import ArmSource
from scenarios.scenario import from_dict
from scenarios.workload import create_workload
from stubs.providers import AUTO

# The project's own protocol: 10 calls to warm up, then 9 rounds of 15.
WARMUPS = 10
ITERATIONS = 135


class Subject:
    """One arm, and the workload it is called on, which never ends.

    An iteration makes each sequence longer. So that a call stays that of the cell, however many a
    tool wants, the workload starts anew after as many iterations as one of our own processes times.

    Args:
        job: the job, with its ``scenario`` and ``source``.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self._scenario = from_dict(job["scenario"])
        module = load_apart(ArmSource(**job["source"]), "_stepbench_peer")
        self._create = module.KvCacheConnectorSchedulerOutputManager
        self._lives = 0
        self._output: object = None
        self._start_over()

    def advance(self) -> None:
        """Move the workload on, and free the last call's output; outside the timing."""
        self._output = None
        if self._left == 0:
            self._start_over()
        self._left -= 1
        self._workload.advance()

    def call(self) -> None:
        """Make the call that is timed."""
        workload = self._workload
        self._output = self._build(workload.batch, workload.async_requests, workload.manager)

    def _start_over(self) -> None:
        seed = f"peers {self._lives}"
        self._workload = create_workload(self._scenario, WARMUPS + ITERATIONS, seed, AUTO)
        self._build = self._create().build_scheduler_output
        self._lives += 1
        self._left = WARMUPS + ITERATIONS
        for _ in range(WARMUPS):
            self.advance()
            self.call()


def read_job(path: Path) -> dict[str, Any]:
    """Return the job that a file holds."""
    job: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return job


def main() -> None:
    """Print what a third of the subject's iterations take, and its start before, as JSON."""
    job = read_job(Path(sys.argv[1]))
    clock, count = time.perf_counter, ITERATIONS // 3
    began = clock()
    subject = Subject(job)
    created = clock()
    for _ in range(count):
        subject.advance()
        subject.call()
    ended = clock()
    probe = {"start": created - began, "iterations": ended - created, "count": count}
    print(json.dumps(probe), flush=True)
    # Freeing a million ints one by one would take longer than this did.
    os._exit(0)


if __name__ == "__main__":
    main()
