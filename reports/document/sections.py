"""A report of several kinds of evidence as sections, before any markup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.arms.registry import FLOOR
from harness.compare.figure import Kind
from harness.compare.file import DuetFile
from harness.compare.verdict import Rule
from harness.count.file import WorkFile
from harness.gate.config import Outcome, outcome_of
from harness.gate.file import GateFile
from harness.overlap.file import OverlapFile
from harness.system.fingerprint import DIGEST, UNKNOWN
from harness.verify.file import VerificationFile
from reports.evidence import Evidence
from reports.kinds.counts import LEGEND, growth_parts, note_parts, work_table
from reports.kinds.duet import duet_parts, headline, overall_of
from reports.kinds.duet_words import how
from reports.kinds.gate import steps_table
from reports.kinds.overlap import overlap_parts
from reports.render.numbers import is_open, short_ratio
from reports.render.parts import Part, Section, Verbatim
from reports.render.table import State, Table, words
from reports.render.words import code, counted, sentences
from reports.speedup.summary import Summary, machines_note, proper_arms
from reports.speedup.table import speedup_table

# Of a step, what matters: as a duet's threshold.
_MATTERS = Rule.threshold
_REVISION = "stepbench_revision"


def sections(evidence: Evidence) -> list[Section]:
    """Return a section for each file: what decides first."""
    return [
        *map(_gate, evidence.gates),
        *map(_duet, evidence.duets),
        *map(_speedup, evidence.summaries),
        *map(_verification, evidence.verifications),
        *map(_work, evidence.works),
        *map(_overlap, evidence.overlaps),
    ]


def warning(evidence: Evidence) -> str | None:
    """Return the warning that several machines are involved, or None if it is one."""
    note = machines_note(evidence.summaries)
    machines = {summary.fingerprint for summary in evidence.summaries}
    machines |= {metadata.get(DIGEST) for metadata in _metadata(evidence)}
    machines -= {None, UNKNOWN}
    if note is None and len(machines) > 1:
        note = (
            f"These files come from {len(machines)} different machines (they differ in "
            "fingerprint): compare ratios between them, never times."
        )
    revisions = sorted({revision[:12] for revision in _revisions(evidence)})
    if len(revisions) > 1:
        mixed = f"These files are of {len(revisions)} revisions: {', '.join(revisions)}."
        note = f"{note} {mixed}" if note else mixed
    return note


def _metadata(evidence: Evidence) -> list[Mapping[str, Any]]:
    """Return what names the machine and the code, of all files but results."""
    return [
        *(file.metadata for file in evidence.duets),
        *(file.metadata for file in evidence.overlaps),
        *(file.metadata for file in evidence.gates),
        *(file.metadata for file in evidence.works),
        *(file.metadata for file in evidence.verifications),
    ]


def _revisions(evidence: Evidence) -> list[str]:
    """Return the revisions of this project that the files name."""
    runs = [run.get_metadata() for file in evidence.results for _, run in file.runs()]
    found = [*runs, *_metadata(evidence)]
    return [str(metadata[_REVISION]) for metadata in found if _REVISION in metadata]


def missing_note(evidence: Evidence) -> str:
    """Return what would belong to a whole report and is not there; empty if nothing is missing."""
    if any(file.duet.subject is not None for file in evidence.duets):
        return ""  # Of a user's own function no other kind of file is read yet.
    missing = evidence.missing()
    return f"Not in this report: {'; '.join(missing)}." if missing else ""


def _gate(file: GateFile) -> Section:
    outcome = outcome_of(file.steps)
    states = {
        Outcome.PASSED: State.GOOD,
        Outcome.INCONCLUSIVE: State.OPEN,
        Outcome.CANNOT_RUN: State.OPEN,
    }
    details: list[Part] = []
    for step in file.steps:
        if step.details:
            details += [f"{step.name}:", Verbatim(step.details)]
    worst = [f"{step.name} ({step.summary})" for step in file.steps if step.outcome is outcome]
    why = "" if outcome is Outcome.PASSED else f": {'; '.join(worst)}"
    return Section(
        "Gate",
        states.get(outcome, State.BAD),
        f"The gate against {code(file.base)}: {outcome.words}{why}.",
        (steps_table(file.steps),),
        tuple(details),
        f"{file.where} Repeat with {code(file.command)}.",
    )


def _duet(file: DuetFile) -> Section:
    kind = overall_of(file.duet, file.results)
    states = {Kind.SLOWER: State.BAD, Kind.INCONCLUSIVE: State.OPEN}
    failed = any(result.failure is not None for result in file.results)
    return Section(
        "Slower or faster?",
        State.BAD if failed else states.get(kind, State.GOOD),
        headline(file.duet, file.results),
        tuple(duet_parts(file.duet, file.results)),
        (),
        how(file.duet, file.results, file.metadata),
    )


def _speedup(summary: Summary) -> Section:
    arms = proper_arms(summary.arms)
    # No verdict: it shows how much, and may be the same two arms whatever a change changed.
    state = State.NEUTRAL
    verdict = " ".join(_compared(summary, arms[0], arm) for arm in arms[1:])
    if not verdict:
        alone = code(arms[0]) if arms else code(FLOOR)
        verdict = f"{alone} alone, in {counted(len(summary.cells), 'cell')}: nothing to compare."
    parts: tuple[Part, ...] = (speedup_table(summary), *summary.notes)
    return Section(f"Speedup: {summary.file}", state, verdict, parts, (), summary.provenance)


def _compared(summary: Summary, base: str, arm: str) -> str:
    """Say how many times as fast an arm is as the base, over the cells that have both."""
    ratios = [cell.speedups[arm] for cell in summary.cells if arm in cell.speedups]
    if not ratios:
        return f"{code(arm)} and {code(base)} were measured in no common cell."
    values = [ratio.value for ratio in ratios]
    extent = " to ".join(dict.fromkeys(map(short_ratio, (min(values), max(values)))))
    where = counted(len(ratios), "cell")
    unclear = sum(ratio.low <= 1 <= ratio.high for ratio in ratios if not is_open(ratio))
    if unclear:
        where += f", no clear difference in {unclear}"
    return f"{code(arm)} is {extent} times as fast as {code(base)} ({where})."


def _verification(file: VerificationFile) -> Section:
    arms = ", ".join(map(code, file.arms))
    if file.missing is not None:
        return Section(
            "Same outputs?",
            State.OPEN,
            f"{file.missing.message}.",
            ("That says nothing about the outputs: what nothing stands in for is no mistake.",),
            (),
            " ".join(_where(file)),
        )
    if file.difference is not None:
        found = file.difference
        operations = [f"{number}. {one}" for number, one in enumerate(found.operations, start=1)]
        reported = found.reported
        of_output = "" if reported is None else f", of the output of report {reported}"
        return Section(
            "Same outputs?",
            State.BAD,
            f"{code(found.arm)} departs from {code(file.against)} in run {found.run} of seed "
            f"{file.seed}.",
            (
                f"After report {found.step}, field {found.field}{of_output}: expected "
                f"{code(found.expected)}, found {code(found.actual)}.",
                Table.of(words("Shortest operation list"), ((line,) for line in operations)),
            ),
            (),
            " ".join(_where(file, found.repeat)),
        )
    same = (
        f"{arms} gave the outputs of {code(file.against)}, field by field, in "
        f"{counted(file.runs, 'random run')} with {counted(file.reports, 'report')}."
    )
    if file.uncovered:
        few = f"Too few of the runs reached: {', '.join(file.uncovered)}."
        return Section("Same outputs?", State.OPEN, same, (few,), (), " ".join(_where(file)))
    return Section("Same outputs?", State.GOOD, same, (), (), " ".join(_where(file)))


def _where(file: VerificationFile | WorkFile, command: str = "") -> list[str]:
    """Return where it was found, the arms from elsewhere, and how to repeat it."""
    where = str(file.metadata.get("where", ""))
    command = command or str(file.metadata.get("command", ""))
    repeat = f"Repeat with {code(command)}." if command else ""
    return list(filter(None, [where, *sentences(file.origins), repeat]))


def _work(file: WorkFile) -> Section:
    arms = list(dict.fromkeys(work.arm for work in file.works))
    cells = len({work.scenario for work in file.works})
    verdict = (
        f"Exact work of {counted(len(arms), 'arm')} in {counted(cells, 'cell')}, per iteration."
    )
    words = " ".join([f"Counted on Python {file.python}. {LEGEND}", *_where(file)])
    parts = (work_table(file.works), *note_parts(file.works))
    details = tuple(growth_parts(file.works))
    return Section("How much work?", State.NEUTRAL, verdict, parts, details, words)


def _overlap(file: OverlapFile) -> Section:
    devices = [process["device"] for run in file.runs for process in run.processes]
    base, *others = (source.spec for source in file.plan.arms)
    verdict = " ".join(_saved(file, base, arm) for arm in others)
    if not verdict:
        verdict = f"What a step pays for with {code(base)} alone: nothing to compare."
    *parts, assumed, provenance = overlap_parts(file.plan, file.cells, devices, file.metadata)
    failures = [cell.failure for cell in file.cells if cell.failure is not None]
    state = State.BAD if failures else State.NEUTRAL
    if failures:
        verdict = f"Not all was measured: {'; '.join(failures)}."
    return Section("Does it matter?", state, verdict, tuple(parts), (assumed,), str(provenance))


def _saved(file: OverlapFile, base: str, arm: str) -> str:
    """Say in how many cells a step is clearly shorter with an arm than with the base."""
    found = [one for cell in file.cells for one in cell.arms if one.arm == arm]

    def clear(overlap: bool) -> int:
        orders = [one.with_overlap if overlap else one.without_overlap for one in found]
        return sum(
            order.saved is not None and order.saved.low > _MATTERS * order.step.value
            for order in orders
        )

    return (
        f"A step is shorter by more than {_MATTERS:.1%} with {code(arm)} than with {code(base)} in "
        f"{clear(False)} of {counted(len(found), 'cell')} without overlap, and in {clear(True)} "
        "with the overlap scheduler."
    )
