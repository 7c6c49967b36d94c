"""``stepbench verify --mutants`` through its entry point."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.arms.revision import ROOT

from .conftest import Run, assert_refused

pytestmark = pytest.mark.thorough

pytest.importorskip("cosmic_ray")

# An arm whose module is small: all that it does is what ``incremental`` does, but for one method.
SMALL = """\
from connector.incremental import KvCacheConnectorSchedulerOutputManager as Right


class KvCacheConnectorSchedulerOutputManager(Right):
    def reset_request(self, request_id: int) -> None:
        self.requests.pop(request_id, None)
        self.external_loads.pop(request_id, None)
        if request_id is None:
            request_id = 1
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.py"
    path.write_text(SMALL)
    return f"file:{path}"


def test_survivors_are_listed_with_their_line_and_the_score(run_here: Run, small: str):
    ran = run_here("verify", "--mutants", small, "--runs", "3", "--jobs", "2", "-q")

    assert ran.code == 1
    lines = ran.out.splitlines()
    assert f"mutants of `{small}`, each in up to 3 random runs of seed 0: " in lines[0]
    assert lines[1].startswith("Score: ")
    # What stands behind the condition is never reached, so that no run can tell.
    (row,) = [line for line in lines if "`request_id = 2`" in line]
    assert f"{Path(small.removeprefix('file:')).name}:9`" in row
    assert "| NumberReplacer | `request_id = 1` | `request_id = 2` |" in row
    assert not any("self.requests.pop" in line for line in lines)


def test_one_mutant_is_repeated_and_told_apart(run_here: Run, small: str):
    document = json.loads(
        run_here("verify", "--mutants", small, "--runs", "3", "--jobs", "1", "-q", "--json").out
    )
    killed = next(one for one in document["mutants"] if one["before"].startswith("self.requests"))
    alive = next(one for one in document["mutants"] if one["fate"] == "survived")
    assert killed["fate"] == "killed"
    assert document["score"] == document["killed"] / document["can_be_killed"]

    for one, code, word in ((killed, 0, "Killed: run 0, report "), (alive, 1, "Survived.")):
        ran = run_here(
            *("verify", "--mutants", small, "--mutant", str(one["number"]), "--runs", "3", "-q")
        )
        assert ran.code == code
        assert f"  - {one['before']}\n  + {one['after']}\n{word}" in ran.out


def test_an_endless_loop_and_a_source_that_cannot_be_imported_are_told_as_such(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "loop.py"
    path.write_text(
        "from connector.incremental import KvCacheConnectorSchedulerOutputManager as Right\n\n"
        "Base = Right\n\n\n"
        "class KvCacheConnectorSchedulerOutputManager(Base):\n"
        "    def reset_request(self, request_id: int) -> None:\n"
        "        while request_id in self.requests:\n"
        "            del self.requests[request_id]\n"
        "        self.external_loads.pop(request_id, None)\n"
    )
    monkeypatch.setattr("harness.verify.mutants.play.__defaults__", (1.0,))

    ran = run_here("verify", "--mutants", f"file:{path}", "--runs", "1", "--jobs", "2", "--json")

    fates = {one["before"]: (one["fate"], one["why"]) for one in json.loads(ran.out)["mutants"]}
    assert fates["del self.requests[request_id]"] == (
        "killed by the time limit",
        "10 runs took more than 1 s",
    )
    assert fates["Base = Right"][0] == "invalid"
    assert "NameError" in fates["Base = Right"][1]


def test_mutants_of_an_arm_of_this_project_are_on_record(run_here: Run):
    text = run_here("verify", "--mutants", "batched", "--mutant", "3", "--runs", "5", "-q").out
    assert "RemoveStatement, line 33" in text
    assert "Equivalent: an object with a dictionary reports the same" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--mutants", "batchd"], "did you mean 'batched'?"),
        (["--mutants", "batched", "incremental"], "--mutants takes its own arm alone"),
        (["--mutants", "batched", "--self-test"], "--mutants takes its own arm alone"),
        (["--mutant", "3"], "--mutant needs --mutants"),
        (["--mutants", "full-copy", "--mutant", "9999"], "no mutant 9999"),
        (["--mutants", "file:nowhere.py"], "nowhere.py: No such file"),
    ],
)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("verify", *arguments), text)


def test_an_arm_that_is_wrong_itself_is_no_measure(run_here: Run, tmp_path: Path):
    path = tmp_path / "random.py"
    path.write_text(SMALL.replace("self.requests.pop(request_id, None)", "raise KeyError"))

    assert_refused(run_here("verify", "--mutants", f"file:{path}"), "KeyError()")


def test_without_the_library_one_line_says_what_to_install(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    assert_refused(
        run_here("verify", "--mutants", "batched"),
        "this needs cosmic_ray, not installed here: pip install -e '.[mutants]'",
    )


def test_an_interruption_prints_what_was_found_so_far():
    command = (*("verify", "--mutants", "page-growth", "--runs", "100000", "--jobs", "2", "-q"),)
    # In a session of its own, where a terminal's Ctrl-C would reach it, whatever started the tests.
    with subprocess.Popen(
        [sys.executable, "-m", "stepbench", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        # The two that play mutants; what checks the arm before is one.
        while len(psutil.Process(process.pid).children()) < 2 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "interrupted after " in err
    assert "mutants of `page-growth`, each in up to 100,000 random runs of seed 0: " in out
