"""The report of the power study: tables in Markdown, and a plot."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from power_file import Record, cells_of, of
from power_report_peers import peers_section
from power_report_positions import positions_section
from power_summary import first_screen
from power_trials import CELL
from power_words import (
    by_cell,
    count,
    grids_with_alarm,
    is_alarm,
    mean,
    ratio,
    seconds,
    slower,
    table,
)

from harness.arms.sources import find_source
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.compare.verdict import Process, Rule
from reports.kinds.duet import left_out
from scenarios.catalogue import find_scenarios
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import NoBaselineError

_RESAMPLED_GRIDS = 500
# The load up to which nothing of weight ran beside the study.
_QUIET = 2.5
SLOWDOWNS = ("0.5 %", "1 %", "2 %", "5 %")


def write_report(trials: Sequence[Record], path: Path) -> str:
    """Write the report and the plot of trials beside their file; return the report.

    Raises:
        NoBaselineError: there are no trials.
    """
    if not trials:
        raise NoBaselineError(f"{path}: there are no trials to report")
    from power_plot import draw  # Which needs matplotlib.

    plot = path.with_suffix(".svg")
    draw(trials, plot)
    text = render(trials, plot.name)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    return text


def render(trials: Sequence[Record], plot: str) -> str:
    """Return the report as Markdown.

    Args:
        trials: all that is known.
        plot: the name of the plot's file.
    """
    parts = ["# Power study", first_screen(trials), f"![Detections and A/A ratios]({plot})"]
    sections = (
        ("How it was measured", _setting),
        ("False alarms", _false_alarms),
        ("Trials that failed", _failed),
        ("Injected slowdowns", _slowdowns),
        ("Cell by cell", _cells),
        ("At a threshold of 0.25 %", _half_threshold),
        ("In processes of their own", _apart),
        ("Beside a process that keeps a core busy", _hogs),
        ("The usual tools on the same arms", peers_section),
        ("Position", positions_section),
        ("Resampled, not run", _resampled),
    )
    for title, section in sections:
        text = section(trials)
        parts.append(f"## {title}\n\n{text or 'No trials yet.'}")
    return "\n\n".join(parts) + "\n"


def _setting(trials: Sequence[Record]) -> str:
    dates = sorted(trial["date"][:10] for trial in trials)
    revisions = sorted({str(trial["revision"])[:12] for trial in trials})
    hours = sum(trial.get("seconds", 0.0) for trial in trials) / 3600
    run = trials[-1]
    days = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    cells = len(find_scenarios("grid"))
    dirty = " with local changes" if any(trial["dirty"] for trial in trials) else ""
    return (
        f"{len(trials)} trials of {hours:.1f} hours in all, {days}; machine "
        f"`{run['machine']}`: {run['processor']}, {run['cores']} cores allowed, Python "
        f"{run['python']}; stepbench revision {', '.join(revisions)}{dirty}; stand-ins: provider "
        f"{run['provider']}; {run['budget']:g} s a cell. Made by `python "
        "benchmarks/power_study.py`, which adds to them when it is called again. The arm is "
        "`incremental`. A slowed arm is the same source with a wait after each call, of that share "
        "of the call's own time; the arm it is held against has the same lines with a share of 0. "
        f"Cores measured on, with a process on each at once: {run['cpus']}. All verdicts are "
        f"those of a grid of {cells} cells: a difference has to be clear in two runs, each at a "
        f"confidence of {Rule(comparisons=cells).confidence:.2%}. "
        "Intervals of shares are exact ones (Clopper and Pearson), 95 %."
    )


def _false_alarms(trials: Sequence[Record]) -> str:
    return _alarms(of(trials, "a/a grid"))


def _alarms(grids: Sequence[Record]) -> str:
    if not grids:
        return ""
    cells = cells_of(grids)
    kinds = Counter(cell["kind"] for cell in cells)
    codes = Counter(grid["exit_code"] for grid in grids)
    took = [cell["took"] for cell in cells]
    rows = [
        ("grids of 12 cells", count(grids_with_alarm(grids), len(grids))),
        ("cells", count(sum(map(is_alarm, cells)), len(cells))),
    ]
    told = ", ".join(f"{number} times {kind}" for kind, number in kinds.most_common())
    ended = ", ".join(
        f"{number} times with exit code {code}" for code, number in sorted(codes.items())
    )
    return (
        f"{table(('A/A', 'False alarms'), rows)}\n\nOf the cells: {told}. The command ended "
        f"{ended} (0: no difference in any cell; 3: inconclusive in some). Of the 95 % intervals, "
        f"{_holding_one(cells)} hold 1; they are those of the moment at which a cell stopped. "
        f"A cell took {seconds(took)}."
    )


def _holding_one(cells: Sequence[Record]) -> str:
    ratios = [cell["ratio"] for cell in cells]
    return count(sum(one["low"] <= 1 <= one["high"] for one in ratios), len(ratios))


def _failed(trials: Sequence[Record]) -> str:
    failed = Counter(trial["part"] for trial in trials if "failed" in trial)
    lines = [f"- {part}: {number}" for part, number in failed.items()]
    return "\n".join(lines) or "None."


def _slowdowns(trials: Sequence[Record]) -> str:
    asked = {label: cells_of(of(trials, f"{label} in each cell")) for label in SLOWDOWNS}
    words = (
        "In all twelve cells in turn. The threshold is 0.5 %: a slowdown that lies on it is "
        f"neither clearly beyond nor clearly within it.{_by_load(of(trials, '1 % in each cell'))}"
    )
    return _verdicts(asked, words)


def _verdicts(asked: Mapping[str, Sequence[Record]], words: str) -> str:
    """Return the table of what was said of each slowdown; nothing where there are no trials."""
    rows = []
    for label, cells in asked.items():
        if cells:
            effects = [effect for cell in cells for effect in cell["effects"]]
            took = seconds([cell["took"] for cell in cells])
            rows.append((label, *_kinds(cells), ratio(mean(effects)), took))
    head = (
        *("Slowdown", "Slower", "Inconclusive", "No difference", "Faster"),
        *("Mean ratio of all processes", "A cell took"),
    )
    return f"{table(head, rows)}\n\n{words}" if rows else ""


def _half_threshold(trials: Sequence[Record]) -> str:
    alarms = _alarms(of(trials, "a/a grid at 0.25 %"))
    asked = {"0.5 %": cells_of(of(trials, "0.5 % at 0.25 %"))}
    found = _verdicts(asked, f"In the cell {CELL}, as if it were one of the grid.")
    return "\n\n".join(filter(None, (alarms, found)))


def _apart(trials: Sequence[Record]) -> str:
    labels = {"A/A": "a/a", "3 %": "3 %", "5 %": "5 %"}
    asked = {label: cells_of(of(trials, f"{part} apart")) for label, part in labels.items()}
    noise = [
        statistics.stdev(cell["effects"])
        for cells in asked.values()
        for cell in cells
        if len(cell["effects"]) > 1
    ]
    words = "With `compare --apart`, in all twelve cells in turn; a process is a group of four."
    if noise:
        words += f" What a group says deviates by {statistics.median(noise):.2%} (median of cells)."
    return _verdicts(asked, words)


def _by_load(trials: Sequence[Record]) -> str:
    """Say whether other work on the machine cost detections of 1 %."""
    quiet = [trial for trial in trials if trial["load"] <= _QUIET]
    busy = [trial for trial in trials if trial["load"] > _QUIET]
    if not quiet or not busy:
        return ""
    found = [count(slower(cells_of(group)), len(group)) for group in (quiet, busy)]
    return (
        f" Of the trials of 1 % that began at a load of at most {_QUIET} (the study itself is a "
        f"load of 2), {found[0]} found it; of the others, beside other work, {found[1]}."
    )


def _cells(trials: Sequence[Record]) -> str:
    same = by_cell(of(trials, "a/a grid"))
    slowed = {label: by_cell(of(trials, f"{label} in each cell")) for label in SLOWDOWNS}
    rows = []
    for name, cells in same.items():
        kinds = Counter(cell["kind"] for cell in cells)
        effects = [effect for cell in cells for effect in cell["effects"]]
        detectable = statistics.median(cell["detectable"] for cell in cells)
        rows.append(
            (
                name,
                f"{kinds[Kind.NO_DIFFERENCE]} / {kinds[Kind.INCONCLUSIVE]} / "
                f"{kinds[Kind.SLOWER] + kinds[Kind.FASTER]}",
                f"{statistics.stdev(effects):.2%}" if len(effects) > 1 else "-",
                ratio(mean(effects)),
                f"{detectable:.2%}",
                *(_found(slowed[label].get(name, [])) for label in SLOWDOWNS),
                seconds([cell["took"] for cell in cells]),
            )
        )
    head = (
        "Cell",
        "A/A: no difference / inconclusive / alarm",
        "Noise of a process",
        "Mean A/A ratio",
        "Detectable",
        *(f"{label} found" for label in SLOWDOWNS),
        "An A/A cell took",
    )
    words = (
        "Noise is the standard deviation of what a process says. Detectable is the median of what "
        "the A/A runs said of themselves."
    )
    return f"{table(head, rows)}\n\n{words}" if rows else ""


def _found(cells: Sequence[Record]) -> str:
    """Return in how many of these trials the slowdown was found."""
    return f"{slower(cells)} of {len(cells)}" if cells else "-"


def _hogs(trials: Sequence[Record]) -> str:
    rows, tried = [], []
    for label, wrong in (("a/a", (Kind.SLOWER, Kind.FASTER)), ("1 %", ("faster", "no difference"))):
        cells = cells_of(of(trials, f"{label} beside a hog"))
        if cells:
            tried += cells
            bad = sum(cell["kind"] in wrong for cell in cells)
            rows.append((label.replace("a/a", "A/A"), count(bad, len(cells)), *_kinds(cells)))
    head = ("Slowdown", "Wrong", "Slower", "Inconclusive", "No difference", "Faster")
    busy = sum(bool(left_out(cell["cores"])) for cell in tried)
    words = (
        "In all twelve cells in turn; in every other trial the hog is pinned to the last of the "
        f"cores that are measured on, in the rest it may run on any. In {busy} of these trials "
        "a core was left out that turned out to be busy."
    )
    return f"{table(head, rows)}\n\n{words}" if rows else ""


def _resampled(trials: Sequence[Record]) -> str:
    """Grids made of processes that are drawn from the live A/A grids, with replacement."""
    cells = by_cell(of(trials, "a/a grid"))
    scenarios = find_scenarios("grid")
    if set(cells) != {scenario.name for scenario in scenarios}:
        return ""
    source = find_source("incremental")
    duet = Duet(source, source, tuple(scenarios), seconds=trials[-1]["budget"])
    rng = random.Random(0)
    rows = []
    for label, shift in (("A/A", 0.0), ("1 %", math.log1p(0.01))):
        kinds: Counter[str] = Counter()
        grids = 0
        for _ in range(_RESAMPLED_GRIDS):
            found = [
                _draw_cell(duet, scenario, rng.choice(cells[scenario.name]), shift, rng)
                for scenario in scenarios
            ]
            kinds.update(found)
            grids += any(kind in (Kind.SLOWER, Kind.FASTER) for kind in found)
        share = [f"{kinds[kind] / kinds.total():.2%}" for kind in Kind]
        rows.append((label, count(grids, _RESAMPLED_GRIDS), *share))
    head = ("Slowdown", "Grids with a difference", *(f"Cells: {kind}" for kind in Kind))
    words = (
        f"{_RESAMPLED_GRIDS} grids: for each cell a live A/A run is drawn, and then processes of "
        "it, as if they did not depend on each other, and one at a time; for the slowdown each "
        "effect is moved by it. "
        "It shows what the rule does with this noise, not what the machine does at another time."
    )
    return f"{table(head, rows)}\n\n{words}"


def _draw_cell(
    duet: Duet,
    scenario: SteadyDecode | TraceReplay,
    cell: Record,
    shift: float,
    rng: random.Random,
) -> Kind:
    """Return the verdict on processes that are drawn from those of one run of a cell."""
    parts = (cell["effects"], cell["controls"], cell["cpu_shares"])
    seen = list(zip(*parts, strict=True))
    cost = cell["took"] / len(seen)
    drawn = 0

    def draw() -> Process:
        nonlocal drawn
        drawn += 1
        effect, control, share = rng.choice(seen)
        return Process(effect + shift, tuple(control), share, (1.0, 1.0))

    return compare_cell(duet, scenario, draw=draw, clock=lambda: drawn * cost).verdict.kind


def _kinds(cells: Sequence[Record]) -> list[str]:
    kinds = Counter(cell["kind"] for cell in cells)
    order = (Kind.SLOWER, Kind.INCONCLUSIVE, Kind.NO_DIFFERENCE, Kind.FASTER)
    first, *others = order
    return [count(kinds[first], len(cells)), *(f"{kinds[kind]}" for kind in others)]
