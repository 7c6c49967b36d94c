"""The results file: pyperf JSON, with the plan and every sample in it.

One benchmark per cell and arm, one run per worker process. What pyperf does not know stands in
metadata whose names begin with ``stepbench_``.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyperf

from harness.arms.conditions import conditions, differences, environments_of, sentence
from harness.arms.environment import ENVIRONMENT
from harness.system.files import damage, described, read_document, write_atomically
from harness.system.fingerprint import check_same_fingerprint, identity
from stepbench_core.errors import InputError, NoBaselineError

from .plan import MAX_COUNT, Job, Plan
from .pyperf_psutil import shun_broken_psutil
from .pytest_results import TOOL, is_pytest_benchmark, load_suite
from .stored_plan import read_plan

FORMAT = 2
# In the first one the processes of a cell ran one after the other, and no precision was asked for.
_READ = (1, FORMAT)

# What names a machine and its Python where there is no fingerprint, and to a reader.
MACHINE_FIELDS = (
    "hostname",
    "cpu_model_name",
    "cpu_count",
    "python_implementation",
    "python_version",
)

# In these, too, pyperf wants the runs of a benchmark to be alike.
_RESUME_FIELDS = (*MACHINE_FIELDS, "platform", "aslr")

# What a worker notes about its run.
_RUN_FIELDS = {
    "stepbench_process",
    "stepbench_requests_mean",
    "stepbench_tokens_first",
    "stepbench_tokens_last",
    "stepbench_tokens_mean",
    "stepbench_load_start",
}

# What pyperf notes about it and we read.
_PYPERF_FIELDS = ("load_avg_1min", "mem_max_rss", "duration")


@dataclass(frozen=True)
class Results:
    """A results file that was read.

    Attributes:
        path: where it was read.
        plan: what was to be measured.
        suite: what was measured: a benchmark per cell and arm, a run per process.
        metadata: what all runs have in common.
    """

    path: Path
    plan: Plan
    suite: pyperf.BenchmarkSuite
    metadata: Mapping[str, object]

    @property
    def machine(self) -> tuple[str, ...]:
        """What names the machine and its Python."""
        return tuple(str(self.metadata.get(field, "unknown")) for field in MACHINE_FIELDS)

    def runs(self) -> list[tuple[Job, pyperf.Run]]:
        """Return each process of the plan that the file holds, with its run, in the plan's order.

        Raises:
            KeyError: a run does not say which process it was.
        """
        found = {
            (bench.get_name(), run.get_metadata()["stepbench_process"]): run
            for bench in self.suite
            for run in bench.get_runs()
        }
        most = self.plan.protocol.processes if self.plan.precision is None else MAX_COUNT
        numbers = {number for _, number in found}
        jobs = (
            job
            for number in sorted(numbers.intersection(range(most)))
            for scenario in self.plan.scenarios
            for job in self.plan.group(scenario, number)
        )
        runs = ((job, found.get((job.benchmark, job.process))) for job in jobs)
        return [(job, run) for job, run in runs if run is not None]


def load(path: str | Path) -> Results:
    """Read a results file, or what pytest-benchmark wrote of the same cells.

    Raises:
        InputError: the file cannot be read, is truncated, foreign, or of a later version.
    """
    path = Path(path)
    return parse(path, *read_document(path))


def parse(path: Path, text: str, document: Any) -> Results:  # noqa: ANN401
    """Return the results that a file holds.

    Args:
        path: the file.
        text: its text.
        document: the same as JSON.

    Raises:
        InputError: it is foreign, damaged, or of a later version.
    """
    if isinstance(document, dict) and "stepbench_duet_format" in document:
        raise InputError(f"{path}: samples of `stepbench compare`, which have no speedup table")
    if is_pytest_benchmark(document):
        suite = load_suite(path, document)
    else:
        suite = _pyperf_suite(path, text, document)
    metadata = suite.get_metadata()
    version = metadata.get("stepbench_format")
    if version is None:
        raise InputError(f"{path}: a pyperf file, but not one that stepbench wrote")
    if type(version) is not int or version not in _READ:
        raise InputError(
            f"{path}: written by a later stepbench: format {version}, this one reads {FORMAT}"
        )
    try:
        plan = read_plan(str(metadata["stepbench_plan"]))
        results = Results(path, plan, suite, metadata)
        runs = results.runs()
        complete = all(_is_complete(run, plan) for _, run in runs)
        complete &= len(runs) == sum(bench.get_nrun() for bench in suite)
        suite.get_dates()
    except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: damaged: {damage(error)}") from None
    if not complete or not runs:
        raise InputError(f"{path}: damaged: its runs are not those of its plan")
    return results


def _pyperf_suite(path: Path, text: str, document: object) -> pyperf.BenchmarkSuite:
    try:
        suite = pyperf.BenchmarkSuite.loads(text)
        suite.get_metadata()
    except Exception:  # pyperf checks little: a foreign document can fail anyhow.
        words = f"expected a results file of stepbench, found {described(document)}"
        raise InputError(f"{path}: {words}") from None
    return suite


def _is_complete(run: pyperf.Run, plan: Plan) -> bool:
    """Return whether a run has all values of its plan, and our numbers about it."""
    metadata = run.get_metadata()
    numbers = [metadata.get(field) for field in (*_RUN_FIELDS, *_PYPERF_FIELDS)]
    return (
        len(run.values) == plan.protocol.values
        and _are_times(run.values)
        and all(_is_sane(number) for number in numbers if number is not None)
        and _is_sane(metadata.get("stepbench_verified_runs", 0))
        and metadata.keys() >= _RUN_FIELDS
        and metadata["stepbench_tokens_first"] > 0
    )


def _are_times(values: Sequence[float]) -> bool:
    """Return whether all of many values are times in seconds: without a loop of our own."""
    return (
        set(map(type, values)) <= {int, float}
        and math.isfinite(sum(values))
        and min(values) > 1e-12
        and max(values) < 1e9
    )


def _is_sane(number: object) -> bool:
    """Return whether a number is finite, not negative and not beyond all reason."""
    return type(number) in (int, float) and 0 <= number < 1e15  # type: ignore[operator]


class ResultsWriter:
    """Collects the runs of a measurement and keeps the file complete after each of them.

    Args:
        path: the file.
        plan: what is measured.
        metadata: what to note with every run.
        resumed: what the file already holds, to be kept.
    """

    def __init__(
        self,
        path: Path,
        plan: Plan,
        metadata: Mapping[str, str | int | float],
        resumed: Results | None = None,
    ) -> None:
        self.path = path
        self._suite = resumed.suite if resumed else None
        self._metadata = {
            "stepbench_format": FORMAT,
            "stepbench_plan": plan.to_json(),
            **metadata,
        }

    def add(self, *benchmarks: pyperf.Benchmark) -> None:
        """Take in the runs of workers, and write the file: with all of them, or with none.

        Raises:
            InputError: the file cannot be written; it still holds what was written before.
            NoBaselineError: a run does not go with those that the file holds.
        """
        for benchmark in benchmarks:
            benchmark.update_metadata(dict(self._metadata))
            if self._suite is None:
                self._suite = pyperf.BenchmarkSuite([benchmark])
                continue
            try:
                self._suite.add_runs(benchmark)
            except ValueError as error:  # pyperf does not mix runs that differ in some fields.
                raise NoBaselineError(f"{self.path}: {error}") from None
        if self._suite is None:
            return
        write_atomically(self.path, self._suite.dump)


def check_writable(path: Path, *, force: bool) -> None:
    """Raise InputError if ``path`` cannot be written, or exists and ``force`` is false.

    Creates the folder where it is missing.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{path}: {kind}, not a file")
    if path.exists() and not force:
        raise InputError(f"{path}: exists; --force overwrites it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be written: {error.strerror}") from None


def check_same_machine(results: Results) -> None:
    """Raise NoBaselineError unless ``results`` were measured on this machine with this Python.

    Only then can a measurement carry on with them. Where the file or this machine has no
    fingerprint, that cannot be known. Raise InputError if another tool wrote them, or an earlier
    version: a file of ours could not hold both.
    """
    if TOOL in results.metadata:
        raise InputError(
            f"{results.path}: written by {results.metadata[TOOL]}: only a measurement of "
            "`stepbench speedup` can be carried on with"
        )
    if results.metadata["stepbench_format"] != FORMAT:
        raise InputError(
            f"{results.path}: written by an earlier stepbench, in whose measurements the arms of a "
            "cell did not take turns: it cannot be carried on with, only reported"
        )
    shun_broken_psutil()
    here = pyperf.Run([1.0], metadata={"name": "here"}).get_metadata()
    for field in _RESUME_FIELDS:
        then, now = results.metadata.get(field), here.get(field)
        if then is not None and now is not None and str(then) != str(now):
            raise NoBaselineError(
                f"{results.path}: measured on another machine or Python: {field} was {then}, "
                f"and is {now} here"
            )
    check_same_fingerprint(str(results.path), results.metadata, "this one", identity())


def changed_conditions(results: Results, metadata: Mapping[str, object]) -> list[str]:
    """Return a sentence on the conditions that are others than in ``results``, if any are.

    Args:
        results: what was measured before.
        metadata: what is noted with what is measured next.

    Raises:
        NoBaselineError: the arms would do something else, since what they read of the environment
            has changed.
    """
    runs = [run.get_metadata() for _, run in results.runs()]
    if any(ENVIRONMENT in run for run in runs):
        then = environments_of(runs)
        now = environments_of([metadata])
        changed = differences(then, now)
        if changed:
            raise NoBaselineError(
                f"{results.path}: the arms read another environment than then: {'; '.join(changed)}"
            )
    here = pyperf.Run([1.0], metadata={"name": "here"}).get_metadata()
    return sentence(differences(conditions(runs), conditions([{**here, **metadata}])))
