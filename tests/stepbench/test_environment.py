"""What arms read of the environment is kept, told, compared and repeated."""

import json
import subprocess
from pathlib import Path

import pyperf
import pytest

from .conftest import ONE, SCRIPT, Run, assert_refused
from .environment_arms import write_arm

pytestmark = pytest.mark.thorough

CELL = ("--cells", "1x8", "-q")
HEADERS = {
    "subscript": "import os\nFAST = os.environ['FOO'] == '1'",
    "get": "import os as system\nFAST = system.environ.get('FOO')",
    "getenv": "from os import getenv\nFAST = getenv('FOO', '0') == '1'",
    "in": "from os import environ\nFAST = 'FOO' in environ",
    "bytes": "import os.path\nFAST = os.environb.get(b'FOO')",
    "loop": "import os\nFAST = [value for name, value in os.environ.items() if name == 'FOO']",
    "copy": "import os\nFAST = os.environ.copy().get('FOO')",
    "dict": "import os\nFAST = {**os.environ}.get('FOO')",
    "prefix": "import os\nFAST = {name for name in os.environ if name.startswith('FOO')}",
    "star": "from os import *\nFAST = getenv('FOO')",
    "dynamic": "os = __import__('os')\nFAST = os.getenv('FOO')",
    "decorator": (
        "import os\ndef switched(function, on=os.environ.get('FOO')):\n    return function\n"
        "@switched\ndef helper():\n    return None"
    ),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    """One variable is set, and others are not."""
    monkeypatch.setenv("FOO", "1")
    for name in ("BAR", "OTHER"):
        monkeypatch.delenv(name, raising=False)


def count(run_here: Run, *arms: str) -> str:
    ran = run_here("count", "--arms", ",".join(arms), *CELL)
    assert ran.code == 0, ran.err
    return ran.out


def test_every_way_of_reading_is_seen(run_here: Run):
    arms = [write_arm(way, header) for way, header in HEADERS.items()]

    lines = count(run_here, *arms)

    for way, arm in zip(HEADERS, arms, strict=True):
        _, _, told = lines.partition(f"`{arm}`: {way}.py, sha256 ")
        assert told[12:].startswith(", reads FOO=1"), way
    assert f"Repeat with `FOO=1 stepbench count --arms {','.join(arms)} --cells 1x8 -q`." in lines


def test_a_read_in_the_measured_call_and_one_of_a_variable_that_is_not_set(run_here: Run):
    arm = write_arm("arm", "import os", "os.environ.get('FOO'), os.getenv('BAR')")

    out = count(run_here, arm)

    assert "reads FOO=1, BAR (unset)." in out
    assert "`env -u BAR FOO=1 stepbench count " in out


def test_what_others_read_or_the_arm_itself_has_set_is_not_told(run_here: Run):
    header = (
        "import os, tempfile\nos.environ['OTHER'] = 'x'\nOTHER = os.environ['OTHER']\n"
        "tempfile.gettempdir()\nos.path.expandvars('$HOME')"
    )

    assert "reads" not in count(run_here, write_arm("arm", header)).rpartition("`: arm.py")[2]


def test_of_a_secret_a_digest_is_kept(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MY_API_KEY", "hunter2")
    arm = write_arm("arm", "import os\nos.environ.get('MY_API_KEY')")

    out = count(run_here, arm)
    document = run_here("count", "--arms", arm, *CELL, "--json").out

    assert "reads MY_API_KEY (set, its value is not kept)." in out
    assert f"Repeat with `stepbench count --arms {arm}" in out
    assert "hunter2" not in out + document
    (kept,) = json.loads(json.loads(document)["metadata"]["stepbench_environment"]).values()
    assert len(kept["hidden"]["MY_API_KEY"]) == 12


def test_the_repeat_line_is_one_of_a_shell(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FOO", "a 'b' $c")
    arm = write_arm("arm", "import os\nassert os.environ['FOO'] == \"a 'b' $c\"")

    document = json.loads(run_here("count", "--arms", arm, *CELL, "--json").out)

    command = document["metadata"]["command"].replace("stepbench", SCRIPT, 1)
    monkeypatch.delenv("FOO")
    # Without the variable the arm could not be imported.
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["work"] == document["work"]


@pytest.mark.parametrize("command", ["verify", "compare", "overlap", "speedup"])
def test_each_command_keeps_it(run_here: Run, command: str):
    arm = write_arm("arm", HEADERS["get"])
    arguments = {
        "verify": ("verify", arm, "--runs", "1", "--jobs", "1", "--json", "-q"),
        "compare": ("compare", arm, arm, *CELL, "--seconds", "0.1", "--cpu", "none"),
        "overlap": ("overlap", "--arms", arm, *CELL, "--forward-ms", "1", "--processes", "1"),
        "speedup": ("speedup", *ONE[:-1], arm, "-q"),
    }[command]
    if command != "verify":
        arguments += ("-o", "x.json")

    ran = run_here(*arguments)

    assert ran.code in (0, 3), ran.err
    assert "reads FOO=1" in ran.out
    assert f"`{arm}`: arm.py, sha256 " in ran.out or command == "verify"
    if command == "speedup":
        metadata = dict(pyperf.BenchmarkSuite.load("x.json").get_metadata())
    else:
        text = ran.out if command == "verify" else Path("x.json").read_text()
        metadata = json.loads(text)["metadata"]
        assert metadata["command"].startswith(f"FOO=1 stepbench {command} ")
    assert json.loads(metadata["stepbench_environment"])[arm]["values"] == {"FOO": "1"}


def test_an_arm_of_this_project_is_not_loaded_once_more_for_nothing(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("stepbench.surroundings.observe", None)

    assert "reads" not in count(run_here, "incremental").rpartition("Repeat")[2]


# An arm that raises unless it sees its own value, at import and in each call.
STRICT = (
    "import os\nOWN = os.environ['FOO']\ndef check():\n"
    "    if not OWN == os.environ['FOO'] == os.getenv('FOO') == os.environb[b'FOO'].decode():\n"
    "        raise RuntimeError(f'{OWN} became {os.environ[\"FOO\"]}')\n"
    "    return {'0': 0, '1': 2_000}[OWN]"
)


def test_two_arms_in_one_process_see_their_own(run_here: Run):
    arm = write_arm("arm", STRICT, "sum(range(check()))")

    out = count(run_here, f"FOO=0 {arm}", f"FOO=1 {arm}")
    ran = run_here("verify", f"FOO=0 {arm}", "--against", f"FOO=1 {arm}", "--runs", "2", "-q")

    assert f"`FOO=0 {arm}`: arm.py" in out
    assert "reads FOO=0." in out
    # What the process has of it is neither's, and not needed to repeat it.
    assert f"Repeat with `stepbench count --arms 'FOO=0 {arm},FOO=1 {arm}'" in out
    assert ran.code == 0, ran.out


def test_a_switch_is_timed_against_itself_off(run_here: Run):
    arm = write_arm("arm", STRICT, "sum(range(check()))")
    duet = ("compare", f"FOO=0 {arm}", f"FOO=1 {arm}", *CELL, "--seconds", "0.1", "--cpu", "none")

    ran = run_here(*duet, "-o", "x.json")

    assert ran.code in (0, 1, 3)
    assert ran.err == ""
    assert f"`FOO=0 {arm}` | `FOO=1 {arm}` |" in ran.out
    assert "Both arms are the same code" not in ran.out
    again = run_here("report", "x.json").out
    assert f"`FOO=1 {arm}`: arm.py" in again


def test_a_worker_of_one_arm_alone_hands_its_variables_to_child_processes(run_here: Run):
    header = (
        "import os, subprocess\n"
        "SEEN = subprocess.run(['sh', '-c', 'echo $FOO'], capture_output=True, text=True).stdout"
    )
    # Where it is not timed a process of several arms has its own value.
    check = "if 'pyperf' in sys.modules: assert SEEN.strip() == os.environ['FOO'], SEEN"
    arm = write_arm("arm", f"import sys\n{header}", check)
    arms = f"FOO='a,b c' {arm},FOO= {arm},{arm}"

    ran = run_here("speedup", *ONE[:-1], arms, "--no-verify", "-q", "-o", "x.json")

    assert (ran.code, ran.err) == (0, "")
    assert f"`FOO='a,b c' {arm}`" in ran.out


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("FOO=1", "no arm follows its variables"),
        ("FOO='a {arm}", "a quote in the value of FOO is not closed"),
        ("FOO=1 FOO=2 {arm}", "FOO stands twice"),
        ("PYTHONHASHSEED=1 {arm}", "PYTHONHASHSEED is read when a process starts"),
        ("LD_PRELOAD=x.so {arm}", "LD_PRELOAD is read when a process starts"),
        ("FOO=1 incremntal", "unknown arm 'incremntal': did you mean 'incremental'?"),
        ("FOO=1 floor", "unknown arm 'floor'"),
    ],
)
def test_variables_that_cannot_be(run_here: Run, arm: str, words: str):
    own = arm.replace("{arm}", write_arm("arm", ""))
    assert_refused(run_here("compare", own, "incremental", *CELL), words)
    assert_refused(run_here("speedup", "--arms", own, *CELL), words)
    assert_refused(run_here("verify", own), words)
    assert_refused(run_here("list", "--arm", own), words)


def test_a_secret_is_no_part_of_a_name(run_here: Run):
    ran = run_here("count", "--arms", "HF_TOKEN=hunter2 incremental", *CELL)

    assert_refused(ran, "HF_TOKEN", "looks like a secret")
    assert "hunter2" not in ran.err


def test_a_comma_in_a_list_wants_quotes(run_here: Run):
    arm = write_arm("arm", HEADERS["get"])

    assert "reads FOO=a,b." in count(run_here, f"FOO='a,b' {arm}", "incremental")
    refused = run_here("count", "--arms", f"FOO=a,b {arm}", *CELL)
    assert_refused(refused, "arm 'FOO=a': no arm follows its variables; quote a value that holds")


def test_a_variable_that_the_arm_does_not_read_is_told(run_here: Run):
    out = count(run_here, "NOTHING=1 incremental")

    assert "`NOTHING=1 incremental` | " in out
    assert ", is not seen to read NOTHING." in out


def test_a_measurement_is_not_carried_on_with_in_another_environment(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    arm = write_arm("arm", HEADERS["get"])
    first = run_here("speedup", *ONE[:-1], arm, "-q", "-o", "x.json")
    monkeypatch.setenv("FOO", "2")

    ran = run_here("speedup", "--resume", "x.json", "-q")

    assert first.code == 0
    assert "Repeat with `FOO=1 stepbench speedup " in first.out
    words = f"the arms read another environment than then: FOO of {arm} 1 -> 2"
    assert_refused(ran, words, code=4)


def test_times_in_another_environment_are_compared_and_that_is_told(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    arm = write_arm("arm", HEADERS["getenv"])
    for value, file in (("1", "a.json"), ("2", "b.json")):
        monkeypatch.setenv("FOO", value)
        assert run_here("speedup", *ONE[:-1], arm, "-q", "-o", file).code == 0

    ran = run_here("report", "b.json", "--baseline", "a.json")

    assert ran.code == 0
    assert f"Other conditions differ: FOO of {arm} 1 -> 2." in ran.out
    assert f"`{arm}` reads FOO=2." in ran.out


def test_an_arm_that_breaks_is_told_by_what_it_breaks(run_here: Run):
    sound = write_arm("sound", HEADERS["get"])
    arm = write_arm("arm", "import os\nFOO = os.environ['FOO']", "os._exit(3)")

    ran = run_here("verify", sound, arm, "--runs", "1", "-q")

    assert (ran.code, ran.out) == (1, "")
    assert "a process of play_runs was killed or died" in ran.err
