"""The section of the power study's report on the usual tools."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from power_file import Record, cells_of, of
from power_words import by_cell, is_alarm, seconds, table

from harness.verdict import Kind

# Slowdowns that the peers are asked for.
_PEERS_ASKED = ("a/a", "1 %", "5 %")
# Rules of the peers, one a run, and the statistics for which another threshold is looked for.
_EQUAL_DETECTION = {
    "pyperf compare_to": ("mean", "median", "min"),
    "pytest-benchmark mean:5%": ("mean", "median", "min"),
    "asv continuous --factor=1": ("median",),
}
# Of these an alarm means significance, without which there is none at any threshold.
_SIGNIFICANT = ("asv continuous --factor=1",)


def peers_section(trials: Sequence[Record]) -> str:
    """Return how often each tool's rule found what there was, and what there was not."""
    rules = _rules(trials)
    if not rules:
        return ""
    one = cells_of(of(trials, "1 %"))
    target = sum(cell["kind"] == Kind.SLOWER for cell in one) / len(one) if one else 1.0
    rows = [("stepbench compare", "0.5 %", *_own_rates(trials))]
    for rule, by_label in rules.items():
        rates = [_share_of([found["alarm"] for found in by_label[label]]) for label in _PEERS_ASKED]
        took = [found["seconds"] for found in itertools.chain.from_iterable(by_label.values())]
        rows.append((rule, "its own", *rates, seconds(took)))
    for rule, statistics_of_it in _EQUAL_DETECTION.items():
        if rule in rules:
            rows += [_equal_detection(rule, rules[rule], name, target) for name in statistics_of_it]
    head = ("Tool", "Threshold", "A/A: false alarms", "1 % found", "5 % found", "A trial took")
    words = (
        "In the cell v2-64x2048, with the same budget, each tool the way its users run it: a "
        "baseline is stored, then the other arm is run and compared with it. Below the tools' own "
        f"rules the threshold at which each finds as many of the 1 % as the duet ({target:.0%}), "
        "and what that costs in false alarms; asv's only where it calls the difference "
        "significant. The duet's A/A trials are those of this cell in the "
        "grids."
    )
    return f"{table(head, rows)}\n\n{words}"


def _rules(trials: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return what each rule of each peer said, by slowdown."""
    rules: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        for found in trial.get("peers", ()):
            rules[found["peer"]][trial["part"].partition(": ")[2]].append(found)
    return rules


def _equal_detection(
    rule: str, by_label: Mapping[str, Sequence[Record]], statistic: str, target: float
) -> tuple[str, ...]:
    """Return a line for the largest threshold of a statistic that finds ``target`` of the 1 %."""
    name = f"{rule.partition(' ')[0]} {statistic}"
    asks_more = rule in _SIGNIFICANT
    ratios = {
        label: [
            found["ratios"][statistic] if found["alarm"] or not asks_more else -math.inf
            for found in by_label[label]
        ]
        for label in _PEERS_ASKED
    }
    slowed = sorted(ratios["1 %"], reverse=True)
    if not slowed:
        return (name, "-", "-", "-", "-", "")
    least = slowed[max(1, math.ceil(target * len(slowed))) - 1]
    if not math.isfinite(least):
        return (name, "none", "-", "-", "-", "")
    found = [_share_of([ratio >= least for ratio in values]) for values in ratios.values()]
    return (name, f"{least - 1:.2%}", *found, "")


def _share_of(found: Sequence[bool]) -> str:
    return f"{sum(found)} of {len(found)}"


def _own_rates(trials: Sequence[Record]) -> tuple[str, str, str, str]:
    same = by_cell(of(trials, "a/a grid")).get("v2-64x2048", [])
    rates, took = [f"{sum(map(is_alarm, same))} of {len(same)}"], [c["took"] for c in same]
    for label in ("1 %", "5 %"):
        cells = cells_of(of(trials, label))
        rates.append(f"{sum(c['kind'] == Kind.SLOWER for c in cells)} of {len(cells)}")
        took += [cell["took"] for cell in cells]
    return rates[0], rates[1], rates[2], seconds(took)
