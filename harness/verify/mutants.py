"""Mutants of an arm, each played against the arm as it is: how much the random runs find."""

from __future__ import annotations

import contextlib
import resource
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from multiprocessing.connection import wait
from pathlib import Path

from harness.arms.loading import ArmOfSource
from harness.arms.sources import ArmSource
from harness.system.pool import start_helper
from stepbench_core.errors import InputError, LostWorkerError, WorkerError
from stubs.providers import DEFAULT_PROVIDER

from .mutation import Mutant
from .runs import Contest, play_runs

# Seconds that ten runs may take, which take a tenth of one on a machine with nothing to do.
LIMIT = 5.0
# Seconds that a process may take to start, before its first run.
_START = 60.0
# Runs that a process is asked for at once.
_RUNS_AT_ONCE = 10
# Bytes of memory that a process may take, so that a loop that appends for ever ends by itself.
_MEMORY = 4 << 30
_EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "killed by the time limit"
    INVALID = "invalid"
    EQUIVALENT = "equivalent"
    SURVIVED = "survived"


@dataclass(frozen=True)
class Result:
    """One mutant and what became of it.

    Attributes:
        mutant: the mutant.
        fate: what became of it.
        why: what shows it: the run, the report and the field, an error, or the reason.
    """

    mutant: Mutant
    fate: Fate
    why: str = ""


@dataclass(frozen=True)
class Play:
    """How mutants are played. Can be sent to another process.

    Attributes:
        source: the arm as it is.
        runs: numbers of the runs.
        seed: the seed of the runs.
        provider: where the stand-ins come from.
    """

    source: ArmSource
    runs: Sequence[int]
    seed: int = 0
    provider: str = DEFAULT_PROVIDER


def play(
    plan: Play, mutants: Sequence[Mutant], jobs: int, limit: float = LIMIT
) -> Iterator[Result]:
    """Yield what becomes of each mutant, in the order in which that is known.

    A mutant that exceeds the time is played once more when no other is, since the machine may have
    been busy.

    Args:
        plan: how they are played.
        mutants: the mutants.
        jobs: processes to use.
        limit: seconds that ten runs may take.
    """
    again = []
    for result in _played(plan, mutants, jobs, limit):
        if result.fate is Fate.TIMED_OUT:
            again.append(result.mutant)
        else:
            yield result
    yield from _played(plan, again, 1, limit)


class Known:
    """The mutants of an arm that do the same as it does, for the reason that is on record.

    Args:
        source: the arm. Only those of this project, of whatever revision, have a record.

    Raises:
        InputError: the record is damaged.
    """

    def __init__(self, source: ArmSource) -> None:
        self._reasons: dict[tuple[str, str, str, int], str] = {}
        if source.is_linked or source.spec.startswith("file:"):
            return
        try:
            entries = tomllib.loads(_EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
            for entry in entries:
                if source.name in entry["arms"]:
                    key = (entry["operator"], entry["before"], entry["after"])
                    self._reasons[(*key, entry.get("occurrence", 0))] = entry["reason"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{_EQUIVALENT}: damaged: {error!r}") from None

    def judged(self, result: Result) -> Result:
        """Return a result, as of an equivalent mutant if it survived and is on record."""
        reason = self._reasons.get(result.mutant.key)
        if result.fate is not Fate.SURVIVED or reason is None:
            return result
        return replace(result, fate=Fate.EQUIVALENT, why=reason)

    def stale(self, results: Sequence[Result]) -> list[str]:
        """Return the entries of the record that are of no mutant that survived, in words."""
        # What one provider's stand-ins do not take, another one's may.
        survived = {
            result.mutant.key
            for result in results
            if result.fate in (Fate.SURVIVED, Fate.EQUIVALENT, Fate.INVALID)
        }
        return [
            f"{operator}: {before} -> {after}"
            for operator, before, after, occurrence in self._reasons
            if (operator, before, after, occurrence) not in survived
        ]


class _Worker:
    """A process that plays one mutant after the other, and what it is at.

    Args:
        plan: how they are played.
    """

    def __init__(self, plan: Play) -> None:
        self._plan = plan
        self._stack = contextlib.ExitStack()
        self._helper = self._stack.enter_context(start_helper(_play_runs))
        self.channel = self._helper.channel
        self.mutant: Mutant | None = None
        self._parts: Iterator[Sequence[int]] = iter(())
        self._is_started = False
        self._asked = time.monotonic()

    def give(self, mutant: Mutant) -> None:
        """Let it play a mutant."""
        runs = self._plan.runs
        parts = [runs[i : i + _RUNS_AT_ONCE] for i in range(0, len(runs), _RUNS_AT_ONCE)]
        # No run at first, so that how long it takes to start is not the mutant's.
        self._parts = iter(parts if self._is_started else [(), *parts])
        self.mutant = mutant
        self._ask(mutant)

    def _ask(self, mutant: Mutant) -> bool:
        """Let it play the next runs; return whether there are any."""
        part = next(self._parts, None)
        if part is not None:
            self._asked = time.monotonic()
            self._helper.ask((replace(self._plan, runs=part), mutant))
        return part is not None

    def hear(self) -> Result | None:
        """Return what became of the mutant, if that is known by what it says or by its death."""
        mutant = self.mutant
        if mutant is None:
            raise AssertionError("it says nothing before it is given something")
        try:
            result: Result | None = self._helper.answer("the process of mutants")()
        except LostWorkerError:
            return Result(mutant, Fate.TIMED_OUT, "its process was killed from outside")
        except WorkerError:
            return Result(mutant, Fate.KILLED, "it ended its process")
        self._is_started = True
        return result if result or self._ask(mutant) else Result(mutant, Fate.SURVIVED)

    def is_alive(self) -> bool:
        """Return whether it can play another mutant."""
        return self._helper.process.poll() is None

    def is_late(self, limit: float) -> bool:
        """Return whether its runs take longer than they may."""
        return time.monotonic() - self._asked > (limit if self._is_started else _START)

    def end(self) -> None:
        """Kill it."""
        self._stack.close()


def _played(plan: Play, mutants: Sequence[Mutant], jobs: int, limit: float) -> Iterator[Result]:
    waiting = list(reversed(mutants))
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(_Worker(plan))
                workers[-1].give(waiting.pop())
            heard = wait([worker.channel for worker in workers], timeout=min(1.0, limit))
            for worker in list(workers):
                result = worker.hear() if worker.channel in heard else None
                if result is None and worker.is_late(limit) and worker.mutant is not None:
                    words = f"{_RUNS_AT_ONCE} runs took more than {limit:g} s"
                    result = Result(worker.mutant, Fate.TIMED_OUT, words)
                if result is None:
                    continue
                if waiting and result.fate is not Fate.TIMED_OUT and worker.is_alive():
                    worker.give(waiting.pop())
                else:
                    workers.remove(worker)
                    worker.end()
                yield result
    finally:
        for worker in workers:
            worker.end()


def _play_runs(plan: Play, mutant: Mutant) -> Result | None:
    """Return what became of a mutant in the runs of a plan; None if it did as the arm does."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    return next(filter(None, (_play(plan, mutant, run) for run in plan.runs)), None)


def _play(plan: Play, mutant: Mutant, run: int) -> Result | None:
    """Return what became of a mutant in a run; None if it did as the arm does."""
    source = plan.source
    mutated = replace(
        source, text=mutant.text, filename=f"<mutant {mutant.number} of {source.filename}>"
    )
    arms = {"mutant": ArmOfSource(mutated)}
    contest = Contest(arms, source.spec, ArmOfSource(source), plan.provider)
    try:
        failed = play_runs(contest, [run], plan.seed).failed
    except InputError as error:
        return Result(mutant, Fate.INVALID, str(error))
    except WorkerError as error:  # It changed what it was given.
        return Result(mutant, Fate.KILLED, str(error))
    except BaseException as error:
        return Result(mutant, Fate.KILLED, repr(error))
    if failed is None:
        return None
    difference = failed.difference
    words = f"run {run}, report {difference.step}, {difference.field}: {difference.actual}"
    return Result(mutant, Fate.KILLED, words)
