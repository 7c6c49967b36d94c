"""``reports.kinds.doctor`` on chosen findings."""

import io
import json

import pytest

from harness.compare.figure import Kind
from harness.compare.noise_floor import Noise
from harness.compare.verdict import Verdict
from harness.system.doctor import Finding, State
from reports.kinds.doctor import write_doctor

FINDINGS = (
    Finding("governor", "powersave", State.BETTER, "sudo set it"),
    Finding("load", "0.10", State.GOOD),
    Finding("turbo", "not readable", State.UNKNOWN, "look on the host"),
    Finding("clock", "quick", State.GOOD),
)
QUIET = Noise(18, effect=0.001, control=0.001, seconds=0.5, verdict=Verdict(Kind.NO_DIFFERENCE))
BUSY = Noise(
    18, effect=0.05, control=0.05, seconds=0.5, verdict=Verdict(Kind.INCONCLUSIVE, "busy core")
)


def written(noise: Noise | None, style: str, findings: tuple[Finding, ...] = FINDINGS) -> str:
    file = io.StringIO()
    write_doctor(findings, noise, "On a box.", style, file)
    return file.getvalue()


def test_markdown_without_a_run():
    table, *paragraphs = written(None, "markdown").rstrip("\n").split("\n\n")

    head, _, *rows = table.splitlines()
    assert head == "| Finding | What was found | Verdict |"
    assert rows == [
        "| governor | powersave | could be better |",
        "| load | 0.10 | good |",
        "| turbo | not readable | unknown |",
        "| clock | quick | good |",
    ]
    assert paragraphs == [
        "governor: sudo set it",
        "turbo: look on the host",
        "Nothing to do about: load, clock.",
        "On a box.",
    ]


def test_where_nothing_is_fine_no_empty_list_is_printed():
    assert "Nothing to do" not in written(None, "markdown", FINDINGS[:1])


def test_the_smallest_slowdown_of_a_quiet_machine():
    # 20 processes of half a second fit into 10 s, 120 into a minute; half are for the first run.
    # Of the ten and the sixty 6 and 36 are left, for which Student's quantiles are 2.957 and 2.239:
    # 0.5 % + (3.584 + 2.326) 0.1 % / 3.162 = 0.69 %, 0.5 % + (2.537 + 2.326) 0.1 % / 7.746 = 0.56 %
    text = written(QUIET, "markdown")
    assert (
        "`incremental` against itself in cell v2-64x2048: 18 processes, 0.50 s each, whose ratios "
        "vary by 0.10% (a standard deviation on which the outermost fifths weigh little).\n\n"
        "The smallest slowdown that `stepbench compare` can be relied on to find here: about 0.69% "
        "in 10 s and 0.56% in 60 s a cell, with a threshold of 0.50% and if the noise stays as it "
        "was.\n"
    ) in text


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (BUSY.verdict, "busy core"),
        (Verdict(Kind.SLOWER), "the same code counts as slower"),
    ],
)
def test_a_noisy_machine_is_told_to_be(verdict: Verdict, reason: str):
    noise = Noise(18, effect=0.05, control=0.05, seconds=0.5, verdict=verdict)
    text = written(noise, "markdown")
    assert (
        f"Too noisy to say which slowdown can be found here: {reason}. If the noise stays as it"
        in (text)
    )
    assert "The smallest slowdown" not in text


def test_a_terminal_gets_the_same_words():
    text = written(QUIET, "terminal")
    for finding in FINDINGS:
        assert any(
            line.split() == [finding.name, *finding.found.split(), *finding.state.split()]
            for line in text.splitlines()
        )
    assert "'stepbench compare' can be relied on" in text
    assert text.endswith("On a box.\n")


@pytest.mark.parametrize(("noise", "too_noisy"), [(QUIET, False), (BUSY, True)])
def test_json_has_all_of_it(noise: Noise, too_noisy: bool):
    document = json.loads(written(noise, "json"), parse_constant=pytest.fail)

    assert document["findings"][:2] == [
        {
            "name": "governor",
            "found": "powersave",
            "state": "could be better",
            "advice": "sudo set it",
        },
        {"name": "load", "found": "0.10", "state": "good", "advice": "nothing to do"},
    ]
    assert document["where"] == "On a box."
    found = document["noise"]
    assert (found["arm"], found["cell"], found["processes"]) == ("incremental", "v2-64x2048", 18)
    assert found["too_noisy"] is too_noisy
    assert found["verdict"]["kind"] == noise.verdict.kind.value
    # What is no number is null.
    assert found["verdict"]["reach"] is None
    assert [(each["seconds"], each["processes"]) for each in found["detectable"]] == [
        (10, 10),
        (60, 60),
    ]
    first, second = (each["slowdown"] for each in found["detectable"])
    assert 0.005 < second < first


def test_json_without_a_run():
    assert json.loads(written(None, "json"))["noise"] is None
