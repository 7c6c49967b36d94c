"""What a verification found, as text or as JSON."""

import json
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from harness.system.documents import FORMAT
from harness.verify.file import VERIFICATION
from harness.verify.runs import LEAST_COVERAGE, NOT_RUNNABLE, Failure, Verification
from reports.render.words import code, counted, sentences
from scenarios.operations import Setting
from scenarios.scenario import format_layer_group
from stepbench_core.errors import NotRunnableError

_NONE: Mapping[str, str] = MappingProxyType({})


def render_text(
    result: Verification, origins: Mapping[str, str] = _NONE, *, coverage: bool = False
) -> str:
    """Return the finding in words.

    Args:
        result: what was found.
        origins: where arms are from, by name, of those that are named by where their source is.
        coverage: add the coverage as a table.
    """
    lines = _failure(result, result.failure) if result.failure else [_same(result)]
    lines += partial(result)
    lines += sentences(origins)
    for name in result.uncovered():
        lines.append(
            f"Error of the model: '{name}' was reached in {result.coverage[name]:,} of "
            f"{counted(result.runs, 'run')}, fewer than {LEAST_COVERAGE:.0%}."
        )
    if coverage:
        lines += ["", "| Reached | Runs | Share |", "| :--- | ---: | ---: |"]
        lines += [
            f"| {name} | {count:,} | {count / result.runs:.0%} |"
            for name, count in result.coverage.items()
        ]
    return "\n".join(lines) + "\n"


def render_json(
    result: Verification,
    origins: Mapping[str, str] = _NONE,
    metadata: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """Return one JSON document.

    Args:
        result: what was found.
        origins: as for ``render_text``.
        metadata: what names the machine, the code and the command.
    """
    document: dict[str, Any] = {
        VERIFICATION: FORMAT,
        "arms": result.arms,
        "against": result.against,
        "origins": dict(origins),
        "metadata": dict(metadata),
        "seed": result.seed,
        "runs": result.runs,
        "reports": result.reports,
        "provider": result.provider,
        "outcome": result.outcome,
        "same": result.failure is None,
        "coverage": result.coverage,
        "uncovered": result.uncovered(),
        "not_played": dict(result.not_played),
        "fields_left_out": result.left_out,
        "difference": None,
        "missing": None,
    }
    if result.failure is not None:
        failure, difference = result.failure, result.failure.difference
        document["difference"] = {
            "arm": difference.arm,
            "run": failure.run,
            "setting": describe_setting(failure.setting),
            "operations": [str(operation) for operation in failure.operations],
            "step": difference.step,
            "reported": difference.reported,
            "field": difference.field,
            "expected": difference.expected,
            "actual": difference.actual,
            "traceback": difference.trace or None,
            "repeat": repeat_command(result, failure),
        }
    return json.dumps(document, indent=2) + "\n"


def render_not_runnable(
    error: NotRunnableError,
    arms: Sequence[str],
    against: str,
    seed: int,
    provider: str,
    metadata: Mapping[str, object] = MappingProxyType({}),
) -> str:
    """Return the JSON document of a verification that an arm's needs kept from a finding.

    Args:
        error: what it needs.
        arms: the arms to verify.
        against: name of the reference.
        seed: the seed of the runs.
        provider: where the stand-ins come from.
        metadata: as for ``render_json``.
    """
    missing = error.missing
    document = {
        VERIFICATION: FORMAT,
        "arms": arms,
        "against": against,
        "origins": {},
        "metadata": dict(metadata),
        "seed": seed,
        "runs": 0,
        "reports": 0,
        "provider": provider,
        "outcome": NOT_RUNNABLE,
        "same": None,
        "coverage": {},
        "uncovered": [],
        "not_played": {},
        "fields_left_out": [],
        "difference": None,
        "missing": {
            "arm": missing.arm if missing else "",
            "uses": missing.uses if missing else None,
            "file": missing.file if missing else None,
            "line": (missing.line or None) if missing else None,
            "library": (missing.library or None) if missing else None,
            "message": str(error),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def render_self_test(caught: Mapping[str, int], runs: int, least: int) -> str:
    """Return the table of the wrong arms with the number of runs that caught each."""
    lines = ["| Wrong arm | Caught | Too few |", "| :--- | ---: | :--- |"]
    for name, count in caught.items():
        verdict = "" if count >= least else f"fewer than {least}"
        lines.append(f"| {name} | {count} of {runs} | {verdict} |")
    missed = sum(count < least for count in caught.values())
    lines.append("")
    lines.append(
        f"{counted(missed, 'wrong arm')} of {len(caught)} caught too seldom."
        if missed
        else f"All {len(caught)} wrong arms were caught, each in at least {least} of {runs} runs."
    )
    return "\n".join(lines) + "\n"


def describe_setting(setting: Setting) -> str:
    """Return what stays the same during an episode, in words."""
    words = [f"manager {setting.manager}", f"blocks of {setting.tokens_per_block}"]
    if setting.manager == "v2":
        words.append("layer groups " + ",".join(map(format_layer_group, setting.layer_groups)))
        words.append(f"pages from a {setting.page_backend}")
    words += ["attention DP"] * setting.attention_dp + ["overlap"] * setting.overlap
    return ", ".join(words)


def repeat_command(result: Verification, failure: Failure) -> str:
    """Return the command line that shows the same failure again."""
    arm = failure.difference.arm
    return (
        f"stepbench verify {shlex.quote(arm)} --against {shlex.quote(result.against)} "
        f"--seed {result.seed} "
        f"--run {failure.run} --provider {result.provider}"
    )


def _same(result: Verification) -> str:
    arms = ", ".join(map(code, result.arms))
    return (
        f"Same: {arms} gave the outputs of {code(result.against)}, field by field, in "
        f"{counted(result.runs, 'random run')} with {counted(result.reports, 'report')} "
        f"(seed {result.seed})."
    )


def partial(result: Verification) -> list[str]:
    """Say what was not compared, since one side does not have it."""
    lines = []
    if result.left_out:
        lines.append(f"Not compared, since one side lacks them: {', '.join(result.left_out)}.")
    lines += [
        f"Left out of {counted(runs, 'run')}: what needs {need}, which an arm lacks."
        for need, runs in sorted(result.not_played.items())
    ]
    return lines


def _failure(result: Verification, failure: Failure) -> list[str]:
    difference = failure.difference
    words = f"Different: {code(difference.arm)} departs from {code(result.against)}"
    sides = [(result.against, difference.expected), (difference.arm, difference.actual)]
    if difference.arm == result.against:
        words = f"Failed: {code(result.against)}, which should be right, {difference.failure}"
        del sides[0]
    where = f"After report {difference.step}, field {difference.field}"
    if difference.reported is not None:
        where = f"{where}, of the output of report {difference.reported}"
        sides = [("should be", difference.expected), ("is", difference.actual)]
    width = max(len(side) for side, _ in sides) + 1
    return [
        f"{words} in run {failure.run} of seed {result.seed}.",
        f"Setting: {describe_setting(failure.setting)}",
        f"Shortest operation list ({counted(len(failure.operations), 'operation')}):",
        *(f"  {index}. {op}" for index, op in enumerate(failure.operations, start=1)),
        f"{where}:",
        *(f"  {side + ':':<{width}} {value}" for side, value in sides),
        *(f"    {line}" for line in difference.trace.splitlines()),
        f"Repeat with {code(repeat_command(result, failure))}.",
    ]
