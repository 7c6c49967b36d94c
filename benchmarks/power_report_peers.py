"""The section of the power study's report on the usual tools."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from power_file import Record, cells_of, of
from power_words import count, is_alarm, seconds, table

from harness.compare.figure import Kind
from harness.stats.estimates import proportion

# Slowdowns that the peers are asked for.
_ASKED = ("a/a", "1 %", "5 %")
# Rules of the peers, and the statistics for which another threshold is looked for: of what the rule
# calls significant where it asks for that, else of all.
_EQUAL_DETECTION = {
    "pyperf compare_to": ("mean", "significant"),
    "pyperf mean:5%": ("median", "all"),
    "pytest-benchmark mean:5%": ("mean", "all"),
    "pytest-benchmark median:5%": ("median", "all"),
    "pytest-benchmark min:5%": ("min", "all"),
    "asv continuous --factor=1": ("median", "significant"),
}

_WORDS = (
    "The same arms in the same cells in turn ({cells}), each tool with {budget:g} s and the way "
    "its users run it: a baseline is stored, then the other arm is run and compared with it. The "
    "tools keep their defaults: the garbage collector runs under pyperf and pytest-benchmark, and "
    "is off under asv and in the duet. The duet has cores {cpus} at once; the tools run one "
    "process at a time, on the last of them. A trial's time includes the start of the tool; that "
    "of the duet the start of its processes, not of the command."
)
_EQUAL_WORDS = (
    "The largest threshold at which a tool finds as large a share of the 1 % as the duet does at "
    "least, after the interval above ({target:.0%}), and what that costs in false alarms; where "
    "none is above 0, what it finds above 0. It is chosen on the very trials that it is judged by, "
    "which flatters the tools."
)


def peers_section(trials: Sequence[Record]) -> str:
    """Return how often each tool's rule found what there was, and what there was not."""
    rules = _rules(trials)
    own = {label: cells_of(of(trials, f"duet: {label}")) for label in _ASKED}
    if not rules or not own["1 %"] or not own["a/a"]:
        return ""
    found = [cell["kind"] == Kind.SLOWER for cell in own["1 %"]]
    rows = [
        (
            "stepbench compare",
            _share_of([is_alarm(cell) for cell in own["a/a"]]),
            _share_of(found),
            _share_of([cell["kind"] == Kind.SLOWER for cell in own["5 %"]]),
            seconds([cell["took"] for cells in own.values() for cell in cells]),
        )
    ]
    for rule, by_label in rules.items():
        shares = [_share_of([one["alarm"] for one in by_label[label]]) for label in _ASKED]
        took = [one["seconds"] for ones in by_label.values() for one in ones]
        rows.append((rule, *shares, seconds(took)))
    head = ("Tool", "A/A: false alarms", "1 % found", "5 % found", "A trial took")
    cells = ", ".join(dict.fromkeys(trial["cell"] for trial in trials if "peers" in trial))
    target = proportion(sum(found), len(found)).low
    equal = [
        _equal_detection(rule, rules[rule], statistic, which, target)
        for rule, (statistic, which) in _EQUAL_DETECTION.items()
        if rule in rules
    ]
    equal_head = ("Tool", "Threshold", "A/A: false alarms", "1 % found", "5 % found")
    parts = [
        table(head, rows),
        _WORDS.format(cells=cells, cpus=trials[-1]["cpus"], budget=trials[-1]["budget"]),
        table(equal_head, equal),
        _EQUAL_WORDS.format(target=target),
    ]
    return "\n\n".join(parts)


def _rules(trials: Iterable[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return what each rule of each peer said, by slowdown."""
    rules: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        for found in trial.get("peers", ()):
            rules[found["peer"]][trial["part"].partition(": ")[2]].append(found)
    return rules


def _equal_detection(
    rule: str, by_label: Mapping[str, Sequence[Record]], statistic: str, which: str, target: float
) -> tuple[str, ...]:
    """Return a line for the largest threshold of a statistic that finds ``target`` of the 1 %."""
    name = f"{rule.partition(' ')[0]}: {statistic}, {which}"
    ratios = {
        label: [
            one["ratios"][statistic] if one["alarm"] or which == "all" else -math.inf
            for one in by_label[label]
        ]
        for label in _ASKED
    }
    slowed = sorted(ratios["1 %"], reverse=True)
    needed = math.floor(target * len(slowed))
    if not needed:
        return (name, "-", "-", "-", "-")
    least = slowed[needed - 1]
    if least <= 1:
        shares = [_share_of([ratio > 1 for ratio in values]) for values in ratios.values()]
        return (name, "none above 0", *shares)
    shares = [_share_of([ratio >= least for ratio in values]) for values in ratios.values()]
    return (name, f"{least - 1:.2%}", *shares)


def _share_of(found: Sequence[bool]) -> str:
    return count(sum(found), len(found)) if found else "-"
