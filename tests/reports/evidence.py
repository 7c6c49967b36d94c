"""Evidence of all kinds, made up, for the tests of what is made of it."""

from collections import Counter
from pathlib import Path

from harness.arms.sources import ArmSource
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.file import DuetFile
from harness.compare.verdict import Process, Verdict
from harness.count.file import WorkFile
from harness.count.work import Work
from harness.forward.forward_time import ForwardTime
from harness.gate.config import Outcome, Step
from harness.gate.file import GateFile
from harness.overlap.figures import figures
from harness.overlap.file import OverlapFile
from harness.overlap.run import CellRun, OverlapPlan
from harness.stats.estimates import Estimate
from harness.verify.file import Found, VerificationFile
from scenarios.scenario import SteadyDecode

SMALL = SteadyDecode(requests=2, tokens=64)
LARGE = SteadyDecode(requests=2, tokens=256)

# A name that tries to be more than one, and the same on one line, as a results file wants it.
HOSTILE = "x`|<img src=//e.vil>@team #1\n# --> [a](http://b)"
HOSTILE_LINE = HOSTILE.replace("\n", " ")


HERE = {"where": "Here.", "command": "stepbench gate"}


def arm(name: str) -> ArmSource:
    return ArmSource(name, name, f"{name}.py", "")


def duet_file(kind: Kind = Kind.SLOWER, b: str = "batched") -> DuetFile:
    processes = [
        Process(0.02 + i / 1000, (i / 2000, i / 2000), 1.0, (1e-3, 1.02e-3)) for i in range(6)
    ]
    verdict = Verdict(kind, "", Estimate(1.02, 1.015, 1.025), 0.002, 0.009)
    result = CellResult(SMALL, verdict, first=processes, second=processes[:4], took=4.0)
    failed = CellResult(LARGE, Verdict(Kind.INCONCLUSIVE, "the worker died"), failure="it died")
    results = (result, failed) if kind is Kind.INCONCLUSIVE else (result,)
    duet = Duet(arm("incremental"), arm(b), tuple(one.scenario for one in results))
    metadata = {"where": "stepbench 1.2, host box.", "command": "stepbench compare a b"}
    return DuetFile(Path("duet.json"), duet, results, metadata)


def work_file() -> WorkFile:
    works = [
        Work(cell, name, 2, 4, 4 * cell.tokens, Counter(), Counter(tokens=tokens, bytecodes=900))
        for cell in (SMALL, LARGE)
        for name, tokens in (("full-copy", 4 * cell.tokens), ("batched", 4))
    ]
    return WorkFile(Path("work.json"), "3.11", tuple(works))


def verification_file(different: bool = False) -> VerificationFile:
    difference = Found(
        arm="batched",
        run=17,
        step=2,
        field="new_tokens",
        expected="[1]",
        actual="[]",
        operations=["join 0", "step"],
        repeat="stepbench verify batched --run 17",
    )
    found = difference if different else None
    return VerificationFile(
        Path("same.json"), ("batched",), "full-copy", 3, 300, 22_000, found, (), {}, HERE
    )


def gate_file(outcome: Outcome = Outcome.PASSED, details: str = "| a |\n```x") -> GateFile:
    steps = (Step("equivalence", Outcome.PASSED, "same"), Step("duet", outcome, "!", details))
    return GateFile(Path("gate.json"), "origin/main", steps, HERE, 0)


def overlap_file() -> OverlapFile:
    """Two arms of 3 and 0.5 ms before a forward of 1 ms."""
    plan = OverlapPlan(
        (arm("full-copy"), arm("incremental")), (SMALL,), ForwardTime(1e-3), processes=2
    )
    segments = []
    for index, path in enumerate((3e-3, 0.5e-3)):
        for overlap in (False, True):
            exposed = max(0.0, path - 1e-3) if overlap else path
            values = {
                "between": 0.0,
                "path": path,
                "background": 0.0,
                "other": 0.0,
                "launch": 0.0,
                "forward": 1e-3,
                "exposed": exposed,
                "step": exposed + 1e-3,
            }
            columns = {name: [value] * 3 for name, value in values.items()}
            segments.append({"arm": index, "overlap": overlap, "alive": [], **columns})
    run = CellRun(SMALL, [{"segments": segments, "device": {}, "cpu_share": 1.0}] * 2)
    metadata = {"where": "stepbench 1.2, host box.", "command": "stepbench overlap"}
    return OverlapFile(Path("overlap.json"), plan, (run,), (figures(plan, run),), metadata)
