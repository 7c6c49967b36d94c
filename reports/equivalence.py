"""What a verification found, as text or as JSON."""

import json
from collections.abc import Mapping
from typing import Any

from harness.verification import LEAST_COVERAGE, Failure, Verification
from scenarios.operations import Setting
from scenarios.scenario import format_layer_group

from .words import counted


def render_text(result: Verification, *, coverage: bool = False) -> str:
    """Return the finding in words, and the coverage as a table if ``coverage``."""
    lines = _failure(result, result.failure) if result.failure else [_same(result)]
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


def render_json(result: Verification) -> str:
    """Return one JSON document."""
    document: dict[str, Any] = {
        "arms": result.arms,
        "against": result.against,
        "seed": result.seed,
        "runs": result.runs,
        "reports": result.reports,
        "provider": result.provider,
        "same": result.failure is None,
        "coverage": result.coverage,
        "uncovered": result.uncovered(),
        "difference": None,
    }
    if result.failure is not None:
        failure, difference = result.failure, result.failure.difference
        document["difference"] = {
            "arm": difference.arm,
            "run": failure.run,
            "setting": describe_setting(failure.setting),
            "operations": [str(operation) for operation in failure.operations],
            "step": difference.step,
            "field": difference.field,
            "expected": difference.expected,
            "actual": difference.actual,
            "repeat": repeat_command(result, failure),
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
        f"stepbench verify {arm} --against {result.against} --seed {result.seed} "
        f"--run {failure.run} --provider {result.provider}"
    )


def _same(result: Verification) -> str:
    arms = ", ".join(f"`{arm}`" for arm in result.arms)
    return (
        f"Same: {arms} gave the outputs of `{result.against}`, field by field, in "
        f"{counted(result.runs, 'random run')} with {counted(result.reports, 'report')} "
        f"(seed {result.seed})."
    )


def _failure(result: Verification, failure: Failure) -> list[str]:
    difference = failure.difference
    width = max(len(result.against), len(difference.arm)) + 1
    return [
        f"Different: `{difference.arm}` departs from `{result.against}` in run {failure.run} of "
        f"seed {result.seed}.",
        f"Setting: {describe_setting(failure.setting)}",
        f"Shortest operation list ({counted(len(failure.operations), 'operation')}):",
        *(f"  {index}. {op}" for index, op in enumerate(failure.operations, start=1)),
        f"After report {difference.step}, field {difference.field}:",
        f"  {result.against + ':':<{width}} {difference.expected}",
        f"  {difference.arm + ':':<{width}} {difference.actual}",
        f"Repeat with `{repeat_command(result, failure)}`.",
    ]
