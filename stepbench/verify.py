"""``stepbench verify``."""

from __future__ import annotations

import json

import click
from click.core import ParameterSource

from harness.arms.registry import ARMS, REFERENCE, RegisteredArm, check_arms
from harness.system.pool import FOREIGN_LIMIT, spread
from harness.verify.runs import MAX_RUNS, Contest, count_failing, tasks, verify
from harness.verify.worlds import RUNS, STEPS
from harness.verify.wrong_arms import WRONG_ARMS
from reports.kinds.equivalence import (
    render_json,
    render_not_runnable,
    render_self_test,
    render_text,
)
from stepbench_core.errors import NotRunnableError

from .cli import FOUND
from .foreign import find_sources, make_factories
from .messages import unread_is_fine
from .metadata import described_code
from .mutants import show_mutants
from .options import jobs_option, provider_option, quiet_option
from .own_function import subject_option
from .own_work import verify_own
from .progress import CountingProgress
from .surroundings import Surroundings, find_surroundings

_RUNS = 3000
# Most mutants are found in the first run, and one that survives so many is worth a look.
_MUTANT_RUNS = 300
# A deliberately wrong arm counts as caught if no more than two of these runs miss it.
_SELF_TEST_RUNS = 300
_SELF_TEST_LEAST = 298
# With a limit, here of seconds without any result, all is played in other processes. These hash
# alike: what differs once does so when it is repeated.
_LIMIT: float | None = FOREIGN_LIMIT


@click.command()
@click.argument("arms", nargs=-1, metavar="[ARM]...")
@subject_option
@click.option(
    "--against",
    default=REFERENCE,
    metavar="ARM",
    help=f"The arm that is right.  [default: {REFERENCE}; with --subject git:HEAD]",
)
@click.option(
    "--runs",
    type=click.IntRange(1, MAX_RUNS),
    help=f"[default: {_RUNS}; with --mutants {_MUTANT_RUNS}, with --subject {RUNS} of each cell]",
)
@click.option("--cells", metavar="LIST", help="With --subject: its cells, or patterns of them.")
@click.option(
    "--steps", type=click.IntRange(1, 10_000), help=f"With --subject: of a run.  [default: {STEPS}]"
)
@click.option("--run", type=click.IntRange(0), help="Repeat this run alone.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@jobs_option
@provider_option
@click.option("--self-test", is_flag=True, help="Check that wrong arms are caught.")
@click.option(
    "--mutants", metavar="ARM", help="Change ARM in every small way, and list what is not found."
)
@click.option("--mutant", type=click.IntRange(1), metavar="N", help="Of these, this one alone.")
@click.option("--coverage", is_flag=True, help="Print how many runs reached what.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@quiet_option
def command(
    *,
    arms: tuple[str, ...],
    subject: str | None,
    against: str,
    runs: int | None,
    cells: str | None,
    steps: int | None,
    run: int | None,
    seed: int,
    jobs: int,
    provider: str,
    self_test: bool,
    mutants: str | None,
    mutant: int | None,
    coverage: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Verify that arms give the same outputs on random runs.

    Without an ARM, all of them. A run plays what can happen to the requests of an engine: chunks,
    tokens, shrinks, resets, joins and leaves, loads, drafts, trims, with both managers. After each
    report the whole output is compared. Then its lists are overwritten, as a consumer may do, or it
    is kept, as another may do, and must not change while it is. On a difference the shortest
    operation list that still fails is printed, and the exit code is 1. An arm that uses what
    nothing stands in for cannot be run here: the exit code is 2, and the line says what it is and
    where.

    With --subject it is a function of your own: each arm plays the same seeded worlds, and what
    comes of each step is compared. By default the work tree, git:, is held against git:HEAD.

    With --mutants the runs themselves are put to the test: each mutant of the arm is played against
    the arm as it is, and those that no run tells from it are listed (exit code 1).

    \b
    Examples:
      stepbench verify
      stepbench verify page-range --against full-copy --runs 300
      stepbench verify page-range --seed 0 --run 17
      stepbench verify file:my_arm.py --against git:HEAD:incremental
      stepbench verify trtllm:~/TensorRT-LLM --against trtllm:~/TensorRT-LLM@HEAD~1
      stepbench verify --subject bench_join.py
      stepbench verify --self-test
      stepbench verify --mutants batched
    """
    if subject is not None:
        if mutants is not None or self_test or coverage:
            raise click.UsageError("--mutants, --self-test and --coverage are the connector's")
        return verify_own(
            subject,
            arms or ("git:",),
            against if _is_given("against") else "git:HEAD",
            cells=cells,
            runs=runs or RUNS,
            run=run,
            steps=steps or STEPS,
            seed=seed,
            as_json=as_json,
            quiet=quiet,
        )
    if cells is not None or steps is not None:
        raise click.UsageError("--cells and --steps go with --subject")
    if mutant is not None and mutants is None:
        raise click.UsageError("--mutant needs --mutants")
    default = _RUNS if mutants is None else _MUTANT_RUNS
    numbers = range(runs or default) if run is None else range(run, run + 1)
    if mutants is not None:
        if arms or self_test:
            raise click.UsageError("--mutants takes its own arm alone, and no --self-test")
        return show_mutants(
            mutants,
            numbers,
            seed,
            number=mutant,
            jobs=jobs,
            provider=provider,
            as_json=as_json,
            quiet=quiet,
        )
    if self_test:
        if arms:
            raise click.UsageError("--self-test takes no arms")
        return _self_test(seed, jobs, provider, as_json=as_json, quiet=quiet)
    names = arms or tuple(name for name in ARMS if name != against)
    check_arms(names, floor=False)
    check_arms([against], floor=False)
    try:
        sources = find_sources((against, *names))
        factories = make_factories((against, *names), sources)
        surroundings = find_surroundings((against, *names), sources, provider)
        named = surroundings.origins(sources)
        arms_by_name = {name: factories[name] for name in names}
        contest = Contest(arms_by_name, against, factories[against], provider)
        with CountingProgress(len(numbers), "runs", quiet=quiet) as progress:
            result = verify(contest, numbers, seed, jobs=jobs, limit=_LIMIT, progress=progress.add)
    except NotRunnableError as error:
        if as_json:
            about = described_code(provider, Surroundings())
            text = render_not_runnable(error, names, against, seed, provider, about)
            click.echo(text, nl=False)
        raise
    with unread_is_fine():
        if as_json:
            text = render_json(result, named, described_code(provider, surroundings))
        else:
            text = render_text(result, named, coverage=coverage)
        click.echo(text, nl=False)
    return FOUND if result.failure or result.uncovered() else 0


def _is_given(name: str) -> bool:
    """Return whether an option stood on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def _self_test(seed: int, jobs: int, provider: str, *, as_json: bool, quiet: bool) -> int:
    runs = range(_SELF_TEST_RUNS)
    caught = {}
    with CountingProgress(len(WRONG_ARMS), "wrong arms", quiet=quiet) as progress:
        for name, arm in WRONG_ARMS.items():
            contest = Contest({name: arm}, REFERENCE, RegisteredArm(REFERENCE), provider)
            caught[name] = sum(spread(count_failing, tasks(contest, runs, seed), jobs))
            progress.add(1)
    if as_json:
        click.echo(json.dumps({"runs": len(runs), "least": _SELF_TEST_LEAST, "caught": caught}))
    else:
        click.echo(render_self_test(caught, len(runs), _SELF_TEST_LEAST), nl=False)
    return FOUND if min(caught.values()) < _SELF_TEST_LEAST else 0
