"""The asv benchmark of one subject; ``peers_asv`` copies it to where asv looks for benchmarks."""

import functools
import os
from pathlib import Path

from peers_subject import Subject, read_job


@functools.cache
def _subject() -> Subject:
    # asv also imports this file where nothing is measured. The plugin sets the variable.
    return Subject(read_job(Path(os.environ["STEPBENCH_PEER_JOB"])))


class Steps:
    """One call a sample."""

    number = 1

    def setup(self) -> None:
        """Advance the workload; asv calls it before each sample."""
        self.subject = _subject()
        self.subject.advance()

    def time_call(self) -> None:
        """Make the call."""
        self.subject.call()
