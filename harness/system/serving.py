"""A worker's end of its job: how it takes it, and how it answers. Of the standard library alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from .affinity import pin
from .turns import Turns, take_job
from .worker_process import take_over_stdout


def serve(work: Callable[[dict[str, Any]], object]) -> NoReturn:
    """Do the job on standard input, print what it gives, both as JSON, and end this process.

    Args:
        work: takes the job and returns the result. The process is pinned to the job's ``cpu``
            before, so that all memory that the work asks for is that core's own.
    """
    result, process = take_over_stdout(), os.getpid()
    job = json.load(sys.stdin)
    if job.get("cpu") is not None:
        pin(job["cpu"])
    found = work(job)
    if os.getpid() != process:
        os._exit(0)  # The measured code forked, and its child came back with it.
    answer(result, json.dumps(found))


def serve_in_turns(work: Callable[[dict[str, Any], Turns], object]) -> NoReturn:
    """Do the same for a job that takes turns with those of other workers."""
    result = take_over_stdout()
    text, turns = take_job()
    answer(result, json.dumps(work(json.loads(text), turns)))


def answer(result: TextIO, text: str) -> NoReturn:
    """Print a result and end this process."""
    result.write(text)
    result.flush()
    # Not by returning: freeing a million ints one by one would take longer than a short measurement
    # did, and nobody waits for threads that an arm has left.
    os._exit(0)
