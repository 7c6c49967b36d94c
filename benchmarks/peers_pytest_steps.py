"""The pytest benchmark of one subject; ``peers_pytest`` copies it to a folder of its own."""

from pathlib import Path
from typing import Any

from peers_subject import WARMUPS, Subject, read_job


def test_call(benchmark: Any) -> None:  # noqa: ANN401
    """Time one call a round, each after an advance outside the timing."""
    job = read_job(Path("job.json"))
    subject = Subject(job)
    benchmark.pedantic(
        subject.call,
        setup=subject.advance,
        rounds=job["rounds"],
        iterations=1,
        warmup_rounds=WARMUPS,
    )
