"""The paragraph below a table: everything that is needed to repeat it."""

import json
from collections import Counter
from datetime import datetime
from typing import Any

from harness.arms.registry import FLOOR
from harness.arms.revision import revision_words
from harness.speedup.file import Results
from harness.speedup.plan import SETTLING, Plan
from harness.speedup.pytest_results import TOOL
from harness.system.cores import pinned
from reports.render.numbers import format_share
from reports.render.words import code, counted, sentences
from scenarios.scenario import SteadyDecode, TraceReplay

_FIGURES = (
    "A time is the median of the round medians. A ratio is formed of two rounds that followed each "
    "other, one of either arm, and a process says the median of those; a speedup is the geometric "
    "mean over processes, its interval the 95 % Student t interval of their logarithms."
)


def provenance(results: Results) -> str:
    """Return one paragraph on when, where, with what and how ``results`` were measured."""
    return " ".join(
        [
            _where(results),
            _code(results),
            *_arms(results),
            *_verified(results),
            _how(results),
            _repeat(results),
        ]
    )


def _where(results: Results) -> str:
    field = results.metadata.get
    model, cores, allowed = (
        field("cpu_model_name", "an unnamed CPU"),
        field("cpu_count", "?"),
        field("stepbench_cpus_allowed", "?"),
    )
    turbo = {
        "stepbench_no_turbo": {"0": "on", "1": "off"},
        "stepbench_boost": {"0": "off", "1": "on"},
    }
    states = [names.get(str(field(name))) for name, names in turbo.items() if field(name)]
    loads = _run_values(results, "stepbench_load_start"), _run_values(results, "load_avg_1min")
    first, last = (f"{values[index]:.2f}" for values, index in zip(loads, (0, -1), strict=True))
    dates = results.suite.get_dates()
    return (
        f"Measured {_date(dates[0]) if dates else 'at an unknown time'} on {model} "
        f"({cores} cores, {allowed} allowed, {pinned(results.plan.cpu)}; "
        f"governor {field('stepbench_governor', 'not readable')}, "
        f"turbo {states[0] if states and states[0] else 'not readable'}), "
        f"host {field('hostname', 'unknown')}, Linux {field('stepbench_kernel', '?')}, "
        f"{field('python_implementation', 'Python')} {field('python_version', '?')}; "
        f"load {first} at the start, {last} at the end."
    )


def _code(results: Results) -> str:
    field = results.metadata.get
    # More than one where a measurement was carried on with after a change.
    revisions = dict.fromkeys(map(revision_words, _runs(results)))
    peak = max((run.get("mem_max_rss", 0) for run in _runs(results)), default=0)
    return (
        f"stepbench {field('stepbench_version', '?')}, revision {' and '.join(revisions)}; "
        f"stand-ins: provider {results.plan.provider}; "
        f"largest process {peak / 1e6:,.0f} MB."
    )


def _arms(results: Results) -> list[str]:
    """Return where arms are from that are named by where their source is."""
    found: dict[str, None] = {}
    # More than one of an arm where a measurement was carried on with after a commit.
    for run in _runs(results):
        try:
            origins = json.loads(str(run.get("stepbench_arms", "{}")))
        except ValueError:
            continue
        if isinstance(origins, dict):
            found.update(dict.fromkeys(sentences(origins)))
    return list(found)


def _verified(results: Results) -> list[str]:
    if sum(arm != FLOOR for arm in results.plan.arms) < 2:
        return []
    runs = min(run.get("stepbench_verified_runs", 0) for run in _runs(results))
    if not runs:
        return ["That the arms give the same outputs was not verified."]
    same = f"Before that, the arms gave the same outputs in {counted(runs, 'random run')}."
    partial = dict.fromkeys(str(run.get("stepbench_not_compared", "")) for run in _runs(results))
    return [same, *filter(None, partial)]


def _how(results: Results) -> str:
    plan = results.plan
    tool = results.metadata.get(TOOL)
    sentences = _course(results) if tool is None else _course_in_one_process(plan, str(tool))
    if FLOOR in plan.arms:
        pairs = ", formed as a speedup is" if tool is None else ""
        sentences.append(
            f"`{FLOOR}` is no arm but the bare cost of building the output objects in Python; x "
            f"floor is an arm's time over the floor's{pairs}."
        )
    steady = _growth(results)
    if steady:
        first, last = max(steady, key=lambda pair: pair[1] / pair[0])
        sentences.append(
            f"Sequences grow by {last - first:,.0f} tokens while they are measured (the shortest "
            f"from {first:,.0f} to {last:,.0f})."
        )
    if any(getattr(scenario, "boundaries", None) == "aligned" for scenario in plan.scenarios):
        sentences.append(
            "With aligned boundaries all requests get a new block in the same iteration; medians "
            "show the iterations between."
        )
    if any(isinstance(scenario, TraceReplay) for scenario in plan.scenarios):
        sentences.append(
            "Each process drew its own stretch of the trace's steady part, the same for all arms."
        )
    sentences.append(f"Seed {plan.seed}.")
    return " ".join(sentences)


def _course(results: Results) -> list[str]:
    """Return what `stepbench speedup` did, and what its figures are."""
    plan, protocol = results.plan, results.plan.protocol
    collector = "running" if plan.gc else "frozen and off"
    each = (
        f"a process took {counted(protocol.warmups, 'warm-up iteration')}, then "
        f"{counted(protocol.rounds, 'round')} of {protocol.samples}, with the garbage collector "
        f"{collector}"
    )
    if results.metadata["stepbench_format"] == 1:
        return [
            f"Each arm of each cell ran in {counted(protocol.processes, 'process')} of its own, "
            f"one after the other; {each}.",
            _FIGURES,
        ]
    sentences = [
        f"Each arm of each cell ran in {_processes(results)} of its own. Those of a cell were "
        f"alive at once and took turns on one core, round by round, in random and balanced order; "
        f"{each}; a round began with {counted(SETTLING, 'iteration')} that were not timed."
    ]
    if plan.precision is None:
        return [*sentences, _FIGURES]
    return [
        *sentences,
        f"Processes were added until each ratio was within ±{format_share(plan.precision)} or "
        f"{plan.seconds:,.0f} s were over.",
        f"{_FIGURES} It is computed for 98 %, since processes were added while it was too wide.",
    ]


def _processes(results: Results) -> str:
    """Return how many processes an arm had, over all cells."""
    counts = Counter(job.benchmark for job, _ in results.runs()).values()
    if min(counts) == max(counts):
        return counted(max(counts), "process")
    return f"{min(counts)} to {counted(max(counts), 'process')}"


def _course_in_one_process(plan: Plan, tool: str) -> list[str]:
    """Return the same of a tool that takes one arm of one cell after the other."""
    protocol = plan.protocol
    collector = "running" if plan.gc else "off in each timed call"
    return [
        f"{tool} timed all arms of all cells in one process, one after the other: each for "
        f"{counted(protocol.warmups, 'warm-up iteration')}, then "
        f"{counted(protocol.rounds, 'round')} of {protocol.samples}, with the garbage collector "
        f"{collector}.",
        "A time is the median of the round medians, and a speedup the ratio of two times. A single "
        "process tells nothing of how far another would be from it, so there is no interval.",
    ]


def _growth(results: Results) -> list[tuple[float, float]]:
    """Return the tokens per request at the first and last timed iteration of the steady cells."""
    return [
        (values["stepbench_tokens_first"], values["stepbench_tokens_last"])
        for job, run in results.runs()
        for values in [run.get_metadata()]
        if isinstance(job.scenario, SteadyDecode)
    ]


def _repeat(results: Results) -> str:
    return f"Repeat with {code(results.plan.command)}."


def _runs(results: Results) -> list[dict[str, Any]]:
    return [run.get_metadata() for _, run in results.runs()]


def _run_values(results: Results, name: str) -> list[float]:
    """Return a number of each run, oldest run first."""
    runs = sorted(_runs(results), key=lambda run: str(run.get("date", "")))
    return [run[name] for run in runs if name in run] or [float("nan")]


def _date(date: datetime) -> str:
    return f"{date:%Y-%m-%d %H:%M} {date.astimezone().tzname()}"
