"""``reports.kinds.gate_noise`` on chosen proposals."""

import io
import json
from pathlib import Path

import pytest

from harness.compare.figure import Kind
from harness.compare.noise_floor import Noise
from harness.compare.verdict import Verdict
from harness.gate.config import GateConfig
from harness.gate.noise import Proposal
from reports.kinds.gate_noise import write_gate_noise

CONFIG = GateConfig(arms=("batched",), cells=("v2-16x8192", "v2-64x2048"))
NOISE = Noise(14, 0.001, 0.002, 0.5, Verdict(Kind.NO_DIFFERENCE), 0.003, 0.0123)
LONG = Noise(9, 0.001, 0.002, 0.9, Verdict(Kind.INCONCLUSIVE, "busy core"))
ENOUGH = Proposal(CONFIG.cells[0], "batched", NOISE, 0.005, 0.0043, 0.005, 0.0081)
RAISED = Proposal(CONFIG.cells[1], "batched", NOISE, 0.005, 0.0143, 0.015, 0.0181)
NONE = Proposal(CONFIG.cells[1], "batched", LONG, 0.005, 0.0043, None, None, "busy core")


class Terminal(io.StringIO):
    """One that is narrow, with COLUMNS."""

    def isatty(self) -> bool:
        return True


def written(*proposals: Proposal, missing: int = 0, style: str = "markdown") -> str:
    file = io.StringIO()
    path = Path("ci/stepbench.toml")
    write_gate_noise(CONFIG, path, proposals, missing, "On a box.", style, file)
    return file.getvalue()


def test_the_table_says_noise_and_thresholds():
    assert written(ENOUGH, NONE).splitlines()[:4] == [
        "| Cell | Arm | Processes | Noise: typical | Noise: mean | Noise: every sample | Needed "
        "| Configured | Proposed | Detectable |",
        "| :--- | :--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| v2-16x8192 | batched | 14 | 0.10% | 0.30% | 1.23% | 0.43 % | 0.5 % | 0.5 % | 0.81 % |",
        "| v2-64x2048 | batched | 9 | 0.10% | - | - | 0.43 % | 0.5 % | none | - |",
    ]


@pytest.mark.parametrize(
    ("proposals", "missing", "has"),
    [
        ((ENOUGH,), 0, "are enough"),
        ((ENOUGH,), 1, "Incomplete: 1 run of 2 missing."),
        ((ENOUGH, RAISED), 0, 'thresholds = { "v2-64x2048/*" = 0.015 }'),
        ((ENOUGH, NONE), 0, "Nothing is proposed for `batched` in v2-64x2048: busy core."),
        ((), 2, "Incomplete: 2 runs of 2 missing."),
    ],
)
def test_only_what_was_measured_is_called_enough(
    proposals: tuple[Proposal, ...], missing: int, has: str
):
    text = written(*proposals, missing=missing)

    assert has in text
    assert ("are enough" in text) == (has == "are enough")
    assert ("thresholds = " in text) == has.startswith("thresholds")
    assert ("in 9 or more processes a row" in text) == (NONE in proposals)
    assert text.endswith("\n\nOn a box.\n")


def test_a_terminal_does_not_break_the_line_to_paste(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "dumb")
    file = Terminal()

    write_gate_noise(CONFIG, Path("pyproject.toml"), (RAISED,), 0, "On a box.", "terminal", file)

    assert '\nthresholds = { "v2-64x2048/*" = 0.015 }\n' in file.getvalue()


def test_json_has_fractions_and_why_there_is_none():
    document = json.loads(written(RAISED, NONE, style="json"), parse_constant=pytest.fail)

    raised, none = document["cells"]
    assert (raised["proposed"], raised["is_raised"], raised["reason"]) == (0.015, True, "")
    assert (none["proposed"], none["detectable"], none["reason"]) == (None, None, "busy core")
    assert (raised["noise"]["agreed"], none["noise"]["every"]) == (0.003, None)
    assert document["thresholds"] == {"v2-64x2048/*": 0.015}
    assert document["where"] == "On a box."
