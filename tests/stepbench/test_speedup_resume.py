"""Interrupted measurements: what is kept, what is left behind, how they are carried on with."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from harness.system.cores import lock_file

from .conftest import ONE, SCRIPT, Run, assert_refused, run_script, stored_runs

pytestmark = pytest.mark.thorough

SIX = ("--cells", "2x64", "--quick", "--processes", "6", "-o", "x.json")
# Its workers take minutes, so that they are surely there when the signal comes.
LONG = ("--cells", "32x4096", "--rounds", "1000", "-o", "x.json")


@contextlib.contextmanager
def _running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A measurement in a process group of its own, as a shell starts one."""
    process = subprocess.Popen(
        [SCRIPT, "speedup", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for(condition: Callable[[], object]) -> None:
    """Wait until something is true; half a minute is for a very busy machine."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("what was waited for did not come")


def _workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The worker processes that have begun to run our code."""
    children = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(psutil.NoSuchProcess):
        return [child for child in children if "harness.speedup.worker" in child.cmdline()]
    return []


def test_an_interrupted_measurement_is_carried_on_with(run_here: Run):
    with _running(*SIX) as process:
        _wait_for(Path("x.json").exists)
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches the whole group.
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    kept = stored_runs("x.json")
    before = re.findall(r'"values":(\[[^]]*\])', Path("x.json").read_text())
    assert 1 <= len(kept) < 12
    assert len(before) == len(kept)
    assert err.splitlines()[-1] == (
        f"stepbench: interrupted; {len(kept)} processes are kept in x.json; "
        "carry on with: stepbench speedup --resume x.json"
    )
    table = run_here("report", "x.json")
    assert table.code == 0
    assert "Incomplete: " in table.out

    _, _, hint = err.rpartition("carry on with: stepbench ")
    resumed = run_script(*shlex.split(hint))

    assert resumed.code == 0
    assert resumed.err.splitlines()[0] == "stepbench: 1 cell, 6 processes of each arm"
    runs = stored_runs("x.json")
    assert runs.keys() == {
        (f"v2-2x64/{arm}", number) for arm in ("full-copy", "incremental") for number in range(6)
    }
    assert {key: runs[key] for key in kept} == kept
    # Digit by digit, not only as the same numbers.
    after = re.findall(r'"values":(\[[^]]*\])', Path("x.json").read_text())
    assert set(before) <= set(after)
    assert len(after) == 12
    assert "Incomplete" not in resumed.out
    assert resumed.out == run_here("report", "x.json").out
    # The command that is told to be repeated is the one that asked for all of it.
    assert f"`stepbench speedup {' '.join(SIX)}`" in resumed.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_worker_is_left_behind(number: signal.Signals):
    with _running(*LONG) as process:
        _wait_for(lambda: _workers(process))
        workers = _workers(process)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == (
        "stepbench: interrupted; no process had finished, so there is nothing to keep"
    )
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
    assert list(Path().rglob("*")) == []


def test_sigterm_keeps_what_was_finished(run_here: Run):
    with _running(*SIX, "-q") as process:
        _wait_for(Path("x.json").exists)
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    # Quiet or not: how to carry on is worth a line.
    assert "stepbench speedup --resume x.json" in err
    assert 1 <= len(stored_runs("x.json")) < 12
    assert run_here("report", "x.json").code == 0


def test_the_core_is_free_again_after_an_interruption(run_here: Run):
    with _running(*LONG) as process:
        _wait_for(lambda: _workers(process))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert run_here("speedup", *ONE, "-q", "-o", "y.json").code == 0


def test_a_complete_file_is_printed_at_once(run_here: Run, results: str):
    before = Path(results).read_bytes()

    ran = run_here("speedup", "--resume", results, "--format", "csv", "-q")

    assert ran.code == 0
    assert ran.out == run_here("report", results, "--format", "csv").out
    assert Path(results).read_bytes() == before


def _change_metadata(path: str, **fields: str) -> None:
    document = json.loads(Path(path).read_text())
    document["metadata"].update(fields)
    Path(path).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hostname", "another-host"),
        ("cpu_model_name", "Another CPU"),
        ("python_version", "3.99.0 (64-bit)"),
    ],
)
def test_another_machine_does_not_carry_on(run_here: Run, results: str, field: str, value: str):
    _change_metadata(results, **{field: value})
    before = Path(results).read_bytes()

    ran = run_here("speedup", "--resume", results)

    assert_refused(ran, results, "another machine", f"{field} was {value}", code=4)
    assert Path(results).read_bytes() == before


def test_a_machine_with_more_memory_does_not_carry_on(run_here: Run, results: str):
    fields = json.loads(
        json.loads(Path(results).read_text())["metadata"]["stepbench_machine_fields"]
    )
    memory, fields["memory_gib"] = fields["memory_gib"], "3072"
    _change_metadata(
        results, stepbench_machine="12ab34cd56ef", stepbench_machine_fields=json.dumps(fields)
    )
    before = Path(results).read_bytes()

    ran = run_here("speedup", "--resume", results)

    assert_refused(ran, code=4)
    assert ran.err == (
        f"stepbench: error: {results}: measured on another machine than this one: memory_gib 3072 "
        f"against {memory}\n"
    )
    assert Path(results).read_bytes() == before
    # Its speedups may travel all the same.
    assert run_here("report", results).code == 0


def test_a_file_that_does_not_tell_its_machine_is_not_carried_on_with(run_here: Run, results: str):
    document = json.loads(Path(results).read_text())
    del document["metadata"]["stepbench_machine"]
    Path(results).write_text(json.dumps(document))

    ran = run_here("speedup", "--resume", results)

    assert_refused(ran, "cannot be known: x.json has no machine fingerprint", code=4)
    assert run_here("report", results).code == 0


def _drop_a_run(path: str) -> None:
    """Take the last process of an arm out of a file, as if it had not come to it."""
    document = json.loads(Path(path).read_text())
    del document["benchmarks"][1]["runs"][-1]
    Path(path).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("platform", "Linux-5.0.0-x86_64-with-glibc2.17"),  # A kernel update.
        ("python_executable", "/somewhere/else/bin/python"),  # Another virtual environment.
        ("aslr", "No randomization"),
    ],
)
def test_what_pyperf_would_not_join_ends_in_no_traceback(
    run_here: Run, results: str, field: str, value: str
):
    _drop_a_run(results)
    _change_metadata(results, **{field: value})
    before = stored_runs(results)

    ran = run_here("speedup", "--resume", results, "-q")

    # To carry on is fine, and so is to refuse as another machine.
    assert ran.code in (0, 4)
    after = stored_runs(results)
    assert {key: after[key] for key in before} == before


def test_a_busy_file_is_not_resumed(run_here: Run, results: str):
    _drop_a_run(results)

    with lock_file(Path(results)):
        ran = run_here("speedup", "--resume", results, "-q")

    assert_refused(ran, "x.json: another run is writing it")


def test_the_hint_can_be_pasted_where_the_name_has_blanks(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, stored_text: str
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepbench.speedup.measure", interrupt)
    Path("my results.json").write_text(stored_text)

    ran = run_here("speedup", "--resume", "my results.json")

    assert ran.code == 130
    _, _, hint = ran.err.rpartition("carry on with: ")
    assert shlex.split(hint) == ["stepbench", "speedup", "--resume", "my results.json"]


def test_other_conditions_of_the_same_machine_are_told(run_here: Run, results: str):
    document = json.loads(Path(results).read_text())
    document["metadata"]["boot_time"] = "2020-01-01 00:00:00"
    document["metadata"]["stepbench_versions"] = json.dumps({"numpy": "0.1"})
    Path(results).write_text(json.dumps(document))

    ran = run_here("speedup", "--resume", results, "-q")

    assert ran.code == 0
    words = "stepbench: Other conditions differ: booted 2020-01-01 00:00:00 -> "
    assert ran.err.startswith(words)
    assert "; numpy 0.1 -> unknown" in ran.err
