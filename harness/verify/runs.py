"""Whether arms do the same over thousands of random runs, and whether the runs reach everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.arms.loading import Need, lacks
from harness.arms.needs import playable
from harness.arms.registry import FLOOR, REFERENCE, ArmFactory, RegisteredArm, as_factories
from harness.system.pool import spread
from scenarios.operations import LARGE_BLOCKS, SMALL_BLOCKS, Episode, Operation, Setting, random_run
from scenarios.orders import ORDERS
from stepbench_core.errors import InputError, NotRunnableError, WorkerError, described
from stubs.providers import DEFAULT_PROVIDER

from .episode import LEFT_OUT, Difference, compare_episode
from .shortening import shorten

# An ingredient that fewer of the runs reach is an error of the model ...
LEAST_COVERAGE = 0.05
# ... once there are enough runs for such a share to mean something.
LEAST_RUNS_FOR_COVERAGE = 300
_RUNS_PER_TASK = 25
# What a verification comes to; the third time there is no finding.
SAME, DIFFERENT, NOT_RUNNABLE = "same", "different", "cannot be run here"
# Begins the name of what is counted where something of a run could not be played.
NOT_PLAYED = "not played: "
# Beyond it, a slip of the hand.
MAX_RUNS = 10_000_000
# Before a measurement: a wrong arm is found by nearly every run.
_BRIEF_RUNS = 20

# Everything that runs must reach: operations, what came of them, and settings.
INGREDIENTS = (
    *("join", "prefix cached", "chunk", "generate", "leave told", "leave untold", "id reused"),
    *(f"{count} new tokens" for count in range(5)),
    *("shrink", "shrink with pages", "regrow", "rewind", "reset", "pause", "late token"),
    *("transfer in", "transfer out", "external", "load", "trim chunk", "trim whole"),
    *("readmit", "withdraw", *ORDERS),
    *("draft", "draft tokens scheduled", "dummy", "dummy left out", "cache salt"),
    *("new request", "cached request", "block hashes", "priorities", "masked page"),
    *("manager v1", "manager v2", "pages from a list", "pages from a generator"),
    *("1 layer group", "2 layer groups", "3 layer groups", "window", "sink"),
    *("attention DP", "overlap", "output kept"),
    *(f"blocks of {size}" for size in (*SMALL_BLOCKS, *LARGE_BLOCKS)),
)


@dataclass(frozen=True)
class Failure:
    """The first run in which an arm departs from the reference.

    Attributes:
        run: number of the run.
        setting: the setting of the episode in question.
        operations: a shortest operation list that still fails.
        difference: what differs after those operations.
    """

    run: int
    setting: Setting
    operations: tuple[Operation, ...]
    difference: Difference


@dataclass(frozen=True)
class Verification:
    """What a verification found.

    Attributes:
        arms: names of the arms verified.
        against: name of the reference.
        seed: the seed of the runs.
        runs: how many runs were made.
        reports: how many outputs of each arm were compared.
        failure: the first difference; None if there is none.
        coverage: number of runs that reached each ingredient.
        provider: where the stand-ins came from.
        not_played: number of runs of which something was left out, by what an arm lacks for it.
        left_out: fields that were not compared, since one side does not have them.
    """

    arms: tuple[str, ...]
    against: str
    seed: int
    runs: int
    reports: int
    failure: Failure | None
    coverage: dict[str, int]
    provider: str = DEFAULT_PROVIDER
    not_played: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The outcome in a word; the third, that an arm cannot be run here, is an error."""
        return SAME if self.failure is None else DIFFERENT

    def uncovered(self) -> list[str]:
        """Return the ingredients that too few of the runs reached, if there were enough runs.

        Where arms lack something, or an output has not all fields, none are asked for.
        """
        is_partial = self.not_played or self.left_out
        if self.failure is not None or self.runs < LEAST_RUNS_FOR_COVERAGE or is_partial:
            return []
        least = LEAST_COVERAGE * self.runs
        return [name for name, count in self.coverage.items() if count < least]


@dataclass(frozen=True)
class Contest:
    """Who is compared: factories by name. Can be sent to another process.

    Attributes:
        arms: the arms to verify.
        against: name of the reference.
        reference: the reference.
        provider: where the stand-ins come from.
    """

    arms: Mapping[str, ArmFactory]
    against: str
    reference: ArmFactory
    provider: str = DEFAULT_PROVIDER

    @staticmethod
    def of(
        names: Sequence[str], against: str = REFERENCE, provider: str = DEFAULT_PROVIDER
    ) -> Contest:
        """Return the contest of registered arms."""
        arms = {name: RegisteredArm(name) for name in names}
        return Contest(arms, against, RegisteredArm(against), provider)

    def play(self, episode: Episode) -> tuple[Difference | None, Counter[str]]:
        """Play to all arms what of an episode all of them can be played.

        What was left out is counted among what was reached, under a name that begins with
        ``NOT_PLAYED``.
        """
        can_be, missing = playable(episode, self.lacks())
        notes = Counter({f"{NOT_PLAYED}{need.value}": 1 for need in missing})
        if can_be is None:
            return None, notes
        difference, reached = compare_episode(
            can_be, self.reference, self.arms, self.against, self.provider
        )
        return difference, reached + notes

    def lacks(self) -> frozenset[Need]:
        """Return what at least one of the arms does not have."""
        return frozenset().union(*map(lacks, (self.reference, *self.arms.values())))


@dataclass(frozen=True)
class Tally:
    """What a batch of runs found.

    Attributes:
        runs: their number, up to the one that failed.
        reports: outputs compared in them.
        reached: how many of them reached each ingredient.
        failed: the failure of the run that failed, as it came; None if none did.
    """

    runs: int
    reports: int
    reached: Counter[str]
    failed: Failure | None


def verify(
    contest: Contest,
    runs: Sequence[int],
    seed: int,
    *,
    jobs: int = 1,
    limit: float | None = None,
    progress: Callable[[int], None] = lambda _count: None,
) -> Verification:
    """Play random runs to the arms and to the reference, up to the first difference.

    The result does not depend on ``jobs``.

    Args:
        contest: the arms and the reference.
        runs: numbers of the runs.
        seed: the seed of the runs.
        jobs: processes to use.
        limit: seconds without any result after which a process counts as hanging. With it all is
            played in other processes.
        progress: called with the number of runs done since the last call.

    Raises:
        NotRunnableError: an arm uses what is not here.
        WorkerError: a process died or hung.
    """
    coverage: Counter[str] = Counter()
    done = reports = 0
    failure = None
    for tally in spread(play_runs, tasks(contest, runs, seed), jobs, limit=limit, describe=_runs):
        coverage.update(tally.reached)
        done += tally.runs
        reports += tally.reports
        progress(tally.runs)
        if tally.failed is not None:
            failure = _shortest(contest, tally.failed, seed, limit)
            break
    return Verification(
        tuple(contest.arms),
        contest.against,
        seed,
        done,
        reports,
        failure,
        {name: coverage[name] for name in INGREDIENTS},
        contest.provider,
        _named(coverage, NOT_PLAYED),
        tuple(sorted(_named(coverage, LEFT_OUT))),
    )


def _named(coverage: Counter[str], beginning: str) -> dict[str, int]:
    """Return the counts whose names begin so, under what follows in their names."""
    return {
        name.removeprefix(beginning): count
        for name, count in coverage.items()
        if name.startswith(beginning)
    }


def verify_briefly(
    arms: Sequence[str] | Mapping[str, ArmFactory],
    provider: str = DEFAULT_PROVIDER,
    *,
    limit: float | None = None,
) -> Verification | None:
    """Play a few random runs to arms that are about to be compared in speed.

    Args:
        arms: names of arms of this project, or arms by name; the floor among them, which is none,
            is left out.
        provider: where the stand-ins come from.
        limit: as for ``play_briefly``.

    Returns:
        What was found of the others against the first; None where there are no two of them.
    """
    makes = as_factories(arms)
    makes.pop(FLOOR, None)
    if len(makes) < 2:
        return None
    against, *others = makes
    contest = Contest({name: makes[name] for name in others}, against, makes[against], provider)
    return play_briefly(contest, limit=limit)


def play_briefly(contest: Contest, *, limit: float | None = None) -> Verification:
    """Play a few random runs in one process: this one, unless there is a limit to its time."""
    return verify(contest, range(_BRIEF_RUNS), 0, limit=limit)


def play_runs(contest: Contest, runs: Sequence[int], seed: int) -> Tally:
    """Play runs in this process, up to the first that fails."""
    coverage: Counter[str] = Counter()
    reports = 0
    for index, run in enumerate(runs):
        reached: Counter[str] = Counter()
        for episode in random_run(seed, run):
            try:
                difference, found = contest.play(episode)
            except InputError:
                raise
            except Exception as error:
                # Not in an arm's call: an arm has changed what it was given.
                words = described(error)
                raise WorkerError(f"run {run}: the engine cannot go on: {words}") from error
            reached.update(found)
            if difference is not None:
                failure = Failure(run, episode.setting, tuple(episode.operations), difference)
                return Tally(index + 1, reports + reached["report"], coverage, failure)
        reports += reached["report"]
        coverage.update(name for name, count in reached.items() if count)
    return Tally(len(runs), reports, coverage, None)


def count_failing(contest: Contest, runs: Sequence[int], seed: int) -> int:
    """Return in how many of ``runs`` an arm departs from the reference."""
    return sum(any(contest.play(episode)[0] for episode in random_run(seed, run)) for run in runs)


def tasks(
    contest: Contest, runs: Sequence[int], seed: int
) -> list[tuple[Contest, Sequence[int], int]]:
    """Return the arguments that ``play_runs`` and ``count_failing`` take, for parts of the runs."""
    parts = [runs[i : i + _RUNS_PER_TASK] for i in range(0, len(runs), _RUNS_PER_TASK)]
    return [(contest, part, seed) for part in parts]


def _runs(_contest: Contest, runs: Sequence[int], _seed: int) -> str:
    return f"runs {runs[0]} to {runs[-1]}"


def _shortest(contest: Contest, failure: Failure, seed: int, limit: float | None) -> Failure:
    """Return a failure with its operation list shortened, or else as it came.

    It may not come again in another process, as where an arm looks at addresses or hashes; and an
    arm may hang on what is left of the list. It is a difference all the same.
    """
    try:
        (found,) = spread(find_failure, [(contest, failure.run, seed)], 1, limit=limit)
    except WorkerError:
        return failure
    return found or failure


def find_failure(contest: Contest, run: int, seed: int) -> Failure | None:
    """Return the failure of a run with its operation list shortened; None if it does not fail."""
    for episode in random_run(seed, run):
        difference, _ = contest.play(episode)
        if difference is not None:
            return _shortened(contest, run, episode, difference)
    return None


def _shortened(contest: Contest, run: int, episode: Episode, difference: Difference) -> Failure:
    # What was played of it: without the other arms more could be.
    episode = playable(episode, contest.lacks())[0] or episode
    # Of the reference alone, if that raised something.
    arms = {name: make for name, make in contest.arms.items() if name == difference.arm}
    alone = replace(contest, arms=arms)

    def play(operations: Sequence[Operation]) -> Difference | None:
        try:
            return alone.play(Episode(episode.setting, tuple(operations)))[0]
        except NotRunnableError:
            return None  # A shorter list that is no finding at all.

    shortest = shorten(episode.operations, lambda operations: play(operations) is not None)
    return Failure(run, episode.setting, tuple(shortest), play(shortest) or difference)
