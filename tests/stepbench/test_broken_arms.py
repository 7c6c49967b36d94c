"""Arms from elsewhere that misbehave in every way: one finding, one exit code, nothing left."""

import json
import os
from pathlib import Path

import pytest

from .conftest import Run, assert_refused, run_script

ARM = (Path(__file__).parents[2] / "connector/batched.py").read_text()
BUILD = "        scheduler_output = SchedulerOutput("

# What the arm does in each of its calls, and how the line on stderr ends or what is printed.
CALLS = {
    "returns nothing": ("return None", "departs from `batched`"),
    "returns text": ("return 'output'", "departs from `batched`"),
    "raises": ("raise LookupError('of two\\\\nlines')", "LookupError"),
    "generator exit": ("raise GeneratorExit('gone')", "GeneratorExit: gone\n"),
    "keyboard interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt\n"),
    "leaves": ("import os; os._exit(0)", "was killed or died\n"),
    "crashes": ("import os; os.abort()", "was killed or died\n"),
    "empties the manager": (
        "vars(kv_cache_manager).clear()",
        "the engine cannot go on: ",
    ),
}
# What it does when it is imported.
IMPORTS = {
    "raises": ("raise ValueError('no')", 2, "cannot be imported: ValueError: no\n"),
    "exits": ("import sys; sys.exit(0)", 2, "cannot be imported: SystemExit: 0\n"),
    "leaves": ("import os; os._exit(0)", 1, "a process of probe was killed or died\n"),
    "interrupts": ("raise KeyboardInterrupt", 1, "probe: KeyboardInterrupt\n"),
}


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    return tmp_path / "arm.py"


@pytest.mark.parametrize("case", CALLS)
def test_in_a_call(run_here: Run, arm: Path, case: str):
    line, words = CALLS[case]
    assert ARM.count(BUILD) == 1
    arm.write_text(ARM.replace(BUILD, f"        {line}\n{BUILD}"))

    ran = run_here("compare", "batched", f"file:{arm}", "--cells", "2x64", "--cpu", "none", "-q")

    assert ran.code == 1
    assert words in ran.err + ran.out
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("results").exists()


@pytest.mark.parametrize("case", IMPORTS)
@pytest.mark.parametrize("command", [("compare", "batched"), ("verify", "--runs", "1")])
def test_when_it_is_imported(run_here: Run, arm: Path, case: str, command: tuple[str, ...]):
    line, code, words = IMPORTS[case]
    arm.write_text(f"{line}\n{ARM}")

    ran = run_here(*command, f"file:{arm}", "-q")

    assert (ran.code, ran.out) == (code, "")
    assert ran.err.endswith(words)
    assert len(ran.err.splitlines()) == 1


def test_a_thread_that_it_leaves_does_not_keep_the_command(run_here: Run, arm: Path):
    arm.write_text(
        f"import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n{ARM}"
    )

    ran = run_here("verify", "--runs", "1", f"file:{arm}", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Same: `file:{arm}` gave the outputs of ")


def test_what_it_does_to_modules_stays_with_it(run_here: Run, arm: Path):
    arm.write_text(f"import json\njson.dumps = json.dump = None\n{ARM}")

    ran = run_here("verify", "--runs", "1", f"file:{arm}", "-q", "--json")

    assert (ran.code, ran.err) == (0, "")
    assert '"same": true' in ran.out


def test_an_output_that_goes_by_hashes_differs_again_when_it_is_repeated(
    arm: Path, monkeypatch: pytest.MonkeyPatch
):
    word = "next(iter({'alpha', 'beta', 'gamma', 'delta', 'omega'}))"
    last = "        return scheduler_output\n"
    assert ARM.count(last) == 1
    arm.write_text(
        ARM.replace(last, f"        scheduler_output.attention_dp_rank = {word}\n{last}")
    )
    found = []
    for seed in ("1", "2", "3"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        document = run_script("verify", f"file:{arm}", "--runs", "1", "-q", "--json")
        found.append(json.loads(document.out)["difference"]["actual"])
    assert len(set(found)) == 1


def test_a_pipe_or_a_device_is_no_arm(run_here: Run, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.py")
    for path in (tmp_path / "pipe.py", Path("/dev/zero")):
        ran = run_here("verify", f"file:{path}", "-q")
        assert_refused(ran, f"{path}: a pipe or a device, not a file")
