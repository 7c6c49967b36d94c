"""The usual tools, asked for real, and what they share."""

import importlib.util
import json
import math
import os
import sys
from collections import Counter
from pathlib import Path

import peers
import pytest
from peers_subject import ITERATIONS, Subject, read_job
from peers_trial import PeerTrial, Trial, check, compare_samples, run_tool, write_job

from scenarios.workload import batch_shape
from stepbench_core.errors import InputError, NoBaselineError, WorkerError

pytestmark = pytest.mark.thorough

SUBJECTS = Path(__file__).parents[1] / "harness" / "subjects"
CRASH = f"file:{SUBJECTS / 'crash.py'}"
CELL = "v2-1x64"

RULES = {
    "pyperf": ["pyperf compare_to", "pyperf mean:5%"],
    "pytest-benchmark": [f"pytest-benchmark {name}:5%" for name in ("mean", "median", "min")],
    "asv": ["asv continuous", "asv continuous --factor=1"],
}


# So slow that neither few calls nor a busy machine can hide it.
SLOW = """\
import time

from connector import incremental


class KvCacheConnectorSchedulerOutputManager(incremental.KvCacheConnectorSchedulerOutputManager):
    def build_scheduler_output(self, batch, loading, manager):
        time.sleep(0.02)
        return super().build_scheduler_output(batch, loading, manager)
"""


def needed(peer: str) -> None:
    reason = peers.absent(peer)
    if reason:
        pytest.skip(reason)


def trial(within: Path, **changed: object) -> Trial:
    values = {"cell": CELL, "a": "incremental", "b": "incremental", "seconds": 1.0, "cpu": None}
    return Trial(**(values | {"folder": within} | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("peer", peers.PEERS)
def test_a_far_slower_arm_sets_off_every_rule(peer: str, tmp_path: Path):
    needed(peer)
    cpu = min(os.sched_getaffinity(0))
    slow = tmp_path / "slow.py"
    slow.write_text(SLOW)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    found = peers.PEERS[peer](trial(scratch, b=f"file:{slow}", cpu=cpu))

    assert [one.peer for one in found] == RULES[peer]
    assert [one.alarm for one in found] == [True] * len(found)
    for one in found:
        assert list(one.ratios) == ["mean", "median", "min"]
        assert all(math.isfinite(ratio) and ratio > 2 for ratio in one.ratios.values())
        assert math.isfinite(one.seconds)
    assert len({one.seconds for one in found}) == 1
    assert list(scratch.iterdir()) == []
    assert cpu in os.sched_getaffinity(0)


@pytest.mark.parametrize("peer", peers.PEERS)
def test_an_arm_that_breaks_is_no_answer(peer: str, tmp_path: Path):
    needed(peer)
    with pytest.raises(WorkerError, match=rf"^{peer}.*: RuntimeError: the subject broke$"):
        peers.PEERS[peer](trial(tmp_path, b=CRASH, cpu=min(os.sched_getaffinity(0))))
    assert list(tmp_path.iterdir()) == []


def test_samples_are_compared_by_three_statistics():
    found = compare_samples([1.0, 2.0, 6.0], [2.0, 3.0, 13.0])
    assert found == {"mean": 2.0, "median": 1.5, "min": 2.0}


def test_a_subject_s_workload_starts_anew_before_it_leaves_its_cell(tmp_path: Path):
    write_job(tmp_path / "job.json", CELL, "incremental", rounds=7)
    job = read_job(tmp_path / "job.json")
    assert job["rounds"] == 7
    subject = Subject(job)

    lengths = []
    for _ in range(2 * ITERATIONS):
        subject.advance()
        subject.call()
        lengths.append(batch_shape(subject._workload.batch))

    life = [(1, 75 + index) for index in range(ITERATIONS)]
    assert lengths == life + life


def test_an_arm_s_text_is_what_is_measured(tmp_path: Path):
    write_job(tmp_path / "job.json", CELL, CRASH)
    job = read_job(tmp_path / "job.json")
    assert job["source"]["text"] == (SUBJECTS / "crash.py").read_text()
    with pytest.raises(RuntimeError, match="the subject broke"):
        Subject(job)


def test_a_tool_runs_where_it_is_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--nonsense")
    before = os.sched_getaffinity(0)
    look = (
        "import os, sys, peers_subject; print(os.getcwd(), sorted(os.sched_getaffinity(0)), "
        "os.environ.get('PYTEST_ADDOPTS'), os.environ['WORD'])"
    )

    output = run_tool(
        "look",
        [sys.executable, "-c", look],
        tmp_path,
        max(before),
        timeout=60,
        env={"WORD": "said"},
    )

    assert output == f"{tmp_path.resolve()} [{max(before)}] None said\n"
    assert os.sched_getaffinity(0) == before


def test_a_tool_that_fails_or_hangs_is_named(tmp_path: Path):
    fail = [
        sys.executable,
        "-c",
        "print('one', flush=True); raise SystemExit('the last words')",
    ]
    with pytest.raises(WorkerError, match=r"^the tool: exit code 1: the last words$"):
        run_tool("the tool", fail, tmp_path, None, timeout=60)
    assert run_tool("it", fail, tmp_path, None, timeout=60, codes=(0, 1)).startswith("one")
    hang = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(WorkerError, match=r"^the tool: hung: no result after 0\.2 s$"):
        run_tool("the tool", hang, tmp_path, None, timeout=0.2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cell": "v2-1x65"}, "unknown cell 'v2-1x65': did you mean 'v2-1x64'?"),
        ({"a": "incremental2"}, "unknown arm 'incremental2': did you mean 'incremental'?"),
        ({"b": "file:none.py"}, "none.py: No such file or directory"),
        ({"seconds": 0.0}, "0 seconds: a trial takes more than 0 and at most 3600"),
        ({"seconds": math.nan}, "nan seconds: a trial takes more than 0 and at most 3600"),
        ({"cpu": 9_999}, "core 9999 is none of those this process may run on"),
        ({"folder": Path("nowhere")}, "nowhere: not a folder"),
    ],
)
def test_a_trial_that_cannot_be_run_is_refused(tmp_path: Path, changed: dict, message: str):
    with pytest.raises(InputError) as raised:
        check(trial(tmp_path, **changed))
    assert str(raised.value) == message


def test_an_absent_peer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    assert peers.absent("pyperf") is None
    with pytest.raises(InputError, match="unknown peer 'asw': did you mean 'asv'"):
        peers.absent("asw")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    expected = "asv is not installed: nox -s power_study has it, or pip install asv"
    assert peers.absent("asv") == expected


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Tools that answer at once, and how often each was asked."""
    count: Counter[str] = Counter()

    def answer(peer: str, trial: Trial) -> list[PeerTrial]:
        count[peer] += 1
        if trial.b == "full-copy":
            raise WorkerError(f"{peer}: exit code 3: no")
        return [PeerTrial(f"{peer} rule", trial.a != trial.b, {"mean": 1.0625}, 9.75)]

    for peer in peers.PEERS:
        monkeypatch.setitem(peers.PEERS, peer, lambda trial, peer=peer: answer(peer, trial))
    monkeypatch.setattr(peers, "absent", {"asv": "asv is away"}.get)
    return count


def test_the_script_asks_who_is_there(asked: Counter[str], capsys: pytest.CaptureFixture[str]):
    assert peers.main(["--b", "batched"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "pyperf rule                  alarm  mean  +6.25 %    9.8 s",
        "pytest-benchmark rule        alarm  mean  +6.25 %    9.8 s",
    ]
    assert printed.err.splitlines() == [
        "peers: left out: asv is away",
        "pyperf: about 10 s ...",
        "pytest-benchmark: about 10 s ...",
    ]
    assert asked == {"pyperf": 1, "pytest-benchmark": 1}


def test_the_script_prints_one_document(asked: Counter[str], capsys: pytest.CaptureFixture[str]):
    assert peers.main(["--json", "--peer", "pyperf", "--cell", "v2-16x8192"]) == 0
    expected = {"peer": "pyperf rule", "alarm": False, "ratios": {"mean": 1.0625}, "seconds": 9.75}
    assert json.loads(capsys.readouterr().out) == [expected]
    assert asked == {"pyperf": 1}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--peer", "asv"], 2, "peers: asv is away"),
        (["--a", "file:none.py"], 2, "peers: none.py: No such file or directory"),
        (["--b", "full-copy"], 1, "peers: pyperf: exit code 3: no"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_the_script_ends_in_one_line(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    assert peers.main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == message


def test_a_revision_without_the_arm_is_nothing_to_compare_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(_trial: Trial) -> None:
        raise NoBaselineError("arm 'batched' does not exist at revision v0")

    monkeypatch.setattr(peers, "check", refuse)
    assert peers.main([]) == 4
    assert "peers: arm 'batched' does not exist at revision v0" in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        peers.main(["--help"])
    assert "python benchmarks/peers.py --peer asv --cpu 1 --json\n" in capsys.readouterr().out
