"""What became of the mutants of an arm, as text or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from harness.verify.mutants import Fate, Result
from reports.render.markdown import render_table
from reports.render.table import Table, figures, words
from reports.render.words import code, counted

_LONGEST = 100


@dataclass(frozen=True)
class Teeth:
    """What a verification finds of the mutants of an arm.

    Attributes:
        arm: how the user named the arm.
        file: where its source is from.
        runs: numbers of runs that each mutant was played at most.
        seed: the seed of the runs.
        made: how many mutants there are to be played.
        results: what became of those that were.
        stale: what is on record as equivalent and is not, in words.
    """

    arm: str
    file: str
    runs: Sequence[int]
    seed: int
    made: int
    results: tuple[Result, ...]
    stale: tuple[str, ...] = ()

    def of(self, *fates: Fate) -> list[Result]:
        """Return the results with one of these fates, in the order of the mutants."""
        found = [result for result in self.results if result.fate in fates]
        return sorted(found, key=lambda result: result.mutant.number)

    @property
    def killed(self) -> int:
        """How many were found to differ."""
        return len(self.of(Fate.KILLED, Fate.TIMED_OUT))

    @property
    def can_be_killed(self) -> int:
        """How many can be: all that are valid and not known to be equivalent."""
        return len(self.results) - len(self.of(Fate.INVALID, Fate.EQUIVALENT))

    @property
    def score(self) -> float | None:
        """The share of those killed, of those that can be; None where there are none."""
        return self.killed / self.can_be_killed if self.can_be_killed else None


def render_text(teeth: Teeth) -> str:
    """Return the counts and the survivors in words."""
    counts = Counter(result.fate for result in teeth.results)
    late = counts[Fate.TIMED_OUT]
    fates = [
        f"{teeth.killed:,} killed" + (f" ({late} by the time limit)" if late else ""),
        f"{counts[Fate.SURVIVED]:,} survived",
        f"{counts[Fate.EQUIVALENT]:,} known to be equivalent",
        f"{counts[Fate.INVALID]:,} that cannot be run",
    ]
    played = f"{counted(len(teeth.results), 'mutant')} of {code(teeth.arm)}"
    if len(teeth.results) < teeth.made:
        played = (
            f"{len(teeth.results):,} of the {counted(teeth.made, 'mutant')} of {code(teeth.arm)}"
        )
    runs = counted(len(teeth.runs), "random run")
    lines = [f"{played}, each in up to {runs} of seed {teeth.seed}: {', '.join(fates)}."]
    if teeth.score is not None:
        lines.append(
            f"Score: {teeth.killed:,} of {teeth.can_be_killed:,} that can be killed "
            f"({teeth.score:.1%})."
        )
    survivors = teeth.of(Fate.SURVIVED)
    if survivors:
        lines += ["", "Survivors, which differ from the arm in their source alone so far:", ""]
        rows = tuple(_row(teeth, result) for result in survivors)
        columns = (*figures("Mutant"), *words("Where", "Operator", "Before", "After"))
        lines += [render_table(Table.of(columns, rows)), ""]
        lines.append("Sharpen the model of the runs, or put an equivalent one on record.")
    lines += [f"On record as equivalent, and no survivor: {entry}." for entry in teeth.stale]
    return "\n".join(lines) + "\n"


def render_one(result: Result) -> str:
    """Return what became of one mutant."""
    mutant = result.mutant
    return (
        f"Mutant {mutant.number}, {mutant.operator}, line {mutant.line}:\n"
        f"  - {mutant.before}\n"
        f"  + {mutant.after}\n"
        f"{result.fate.capitalize()}{': ' if result.why else ''}{result.why}.\n"
    )


def render_json(teeth: Teeth, metadata: Mapping[str, object] = MappingProxyType({})) -> str:
    """Return one JSON document.

    Args:
        teeth: what was found.
        metadata: what names the machine, the code and the command.
    """
    document = {
        "arm": teeth.arm,
        "file": teeth.file,
        "runs": len(teeth.runs),
        "seed": teeth.seed,
        "metadata": dict(metadata),
        "made": teeth.made,
        "killed": teeth.killed,
        "can_be_killed": teeth.can_be_killed,
        "score": teeth.score,
        "stale": list(teeth.stale),
        "mutants": [
            {
                "number": result.mutant.number,
                "operator": result.mutant.operator,
                "line": result.mutant.line,
                "before": result.mutant.before,
                "after": result.mutant.after,
                "occurrence": result.mutant.occurrence,
                "fate": result.fate.value,
                "why": result.why,
            }
            for result in teeth.of(*Fate)
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _row(teeth: Teeth, result: Result) -> tuple[str, ...]:
    mutant = result.mutant
    sides = [code(_short(side)) for side in (mutant.before, mutant.after)]
    where = code(f"{teeth.file}:{mutant.line}")
    return (str(mutant.number), where, mutant.operator, *sides)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
