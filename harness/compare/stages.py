"""The stage of a duet's job: of TensorRT-LLM's connector, or of a user's own function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from harness.arms.loading import create, load_apart
from harness.arms.missing import refuse_uncaught
from harness.arms.sources import ArmSource
from scenarios.scenario import from_dict
from scenarios.workload import Workload, create_workload
from subjects.base import Stage
from subjects.own.answers import with_errors
from subjects.own.stage import OwnStage


def create_stage(job: dict[str, Any]) -> Stage:
    """Return the stage that a job describes: nothing is loaded yet."""
    if job.get("subject") is not None:
        return OwnStage(job["subject"], job["sources"], job["scenario"], job["seed"])
    return _ConnectorStage(job)


def failures_told(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return what a worker does, with an answer in place of an error of a user's own function.

    The answer is what the leader of a group gives as well: ``failed`` or ``refused``. What an arm
    of the connector raises ends the process, and is read from its last words.
    """
    own = with_errors(work)

    @wraps(work)
    def told(job: dict[str, Any], *arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        return (work if job.get("subject") is None else own)(job, *arguments)

    return told


class _ConnectorStage:
    """Copies of arms that read one workload, which moves on for all of them at once."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._sources = [ArmSource(**source) for source in job["sources"]]
        refuse_uncaught({source.spec: source.filename for source in self._sources})
        self._calls: dict[int, Callable[..., object]] = {}
        self._workload: Workload

    def load(self, copy: int) -> None:
        """Load an instance as modules of its own."""
        source = self._sources[copy]
        arm = create(load_apart(source, f"_stepbench_duet_{copy}"), source, attention_dp=False)
        self._calls[copy] = arm.build_scheduler_output

    def build(self) -> None:
        """Build the workload."""
        job = self._job
        iterations = job["warmups"] + job["most"]
        scenario = from_dict(job["scenario"])
        self._workload = create_workload(scenario, iterations, job["seed"], job["provider"])

    def advance(self) -> None:
        """Move the workload on."""
        self._workload.advance()

    def ready(self, copy: int) -> Callable[[], object]:
        """Return the call with its arguments; this way it has no frame of ours."""
        at = self._workload
        return partial(self._calls[copy], at.batch, at.async_requests, at.manager)

    def tell(self, copy: int, error: BaseException) -> None:
        """Leave an error to whoever reads the last words of this process."""
