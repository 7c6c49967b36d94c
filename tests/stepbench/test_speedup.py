import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyperf
import pytest

from harness.arms.revision import Revision
from stepbench import __version__, metadata

from .conftest import ONE, TINY, Run, run_script, stored_runs

JOBS = {(f"v2-2x64/{arm}", number) for arm in ("full-copy", "incremental") for number in (0, 1)}


def _metadata(path: str | Path) -> dict[str, object]:
    return dict(pyperf.BenchmarkSuite.load(str(path)).get_metadata())


def _plan(path: str | Path) -> dict[str, object]:
    return json.loads(str(_metadata(path)["stepbench_plan"]))


def test_a_measurement_from_start_to_end():
    ran = run_script("speedup", *TINY, "--rounds", "1")

    assert ran.code == 0
    # The result alone goes to stdout, and into a pipe it is Markdown.
    lines = ran.out.splitlines()
    assert lines[0] == (
        "| Requests | Tokens per request | full-copy | incremental | Speedup (95 % interval) |"
    )
    assert lines[1] == "| ---: | ---: | ---: | ---: | ---: |"
    number = r"\d+\.\d\d?"
    time = rf"{number} [um]s"
    assert re.match(rf"\| 2 \| 64 \| {time} \| {time} \| {number}x \({number} to .*\|$", lines[2])
    assert ran.out.count("\n| ") == 2
    assert lines[-1].endswith("`stepbench speedup --cells 2x64 --quick --processes 2 --rounds 1`.")
    # Progress and where the samples are go to stderr.
    (file,) = Path().rglob("*.json")
    assert re.fullmatch(r"results/speedup-\d{8}-\d{6}\.json", str(file))
    assert ran.err.splitlines()[0] == "stepbench: 1 cell, 2 processes of each arm"
    assert ran.err.splitlines()[-1] == (
        f"stepbench: samples kept in {file}; as Markdown: stepbench report {file} --format markdown"
    )
    runs = stored_runs(file)
    assert runs.keys() == JOBS
    assert {len(values) for values in runs.values()} == {15}
    assert run_script("report", str(file)).out == ran.out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["stats", "x.json"], "v2-2x64/incremental"),
        (["hist", "x.json"], "v2-2x64/full-copy"),
        (["compare_to", "x.json", "x.json"], "Benchmark hidden because not significant (2)"),
        (["check", "x.json"], "v2-2x64"),
    ],
)
def test_pyperfs_own_commands_read_the_results(results: str, arguments: list[str], text: str):
    assert results == "x.json"
    done = subprocess.run(
        [sys.executable, "-m", "pyperf", *arguments], capture_output=True, text=True, check=False
    )

    assert "Traceback" not in done.stderr
    assert text in done.stdout


def test_quiet_leaves_stderr_empty(run_here: Run):
    ran = run_here("speedup", *ONE, "-q", "-o", "x.json")

    assert (ran.code, ran.err) == (0, "")
    assert "| 1 | 8 |" in ran.out


def test_json_is_one_document_on_stdout(run_here: Run):
    ran = run_here("speedup", *ONE, "--json", "-o", "x.json")

    assert ran.code == 0
    (result,) = json.loads(ran.out)["results"]
    assert result["file"] == "x.json"
    assert result["cells"][0]["processes"] == {"incremental": 1}


def test_the_protocol_is_what_was_asked_for(run_here: Run):
    ran = run_here(
        *("speedup", "--cells", "1x8", "--processes", "1", "--rounds", "2"),
        *("--arms", "incremental", "--cpu", "none", "--gc", "on", "--seed", "7", "-o", "x.json"),
    )

    assert ran.code == 0
    plan = _plan("x.json")
    assert plan["protocol"] == {"processes": 1, "warmups": 10, "rounds": 2, "samples": 15}
    assert (plan["arms"], plan["cpu"], plan["gc"], plan["seed"]) == (["incremental"], None, True, 7)
    assert [len(values) for values in stored_runs("x.json").values()] == [30]
    metadata = _metadata("x.json")
    assert metadata["python_hash_seed"] == 1 + 7 * 1_000_003
    assert metadata.get("python_gc") != "disabled"
    for fact in ("not pinned", "garbage collector running", "Seed 7.", "2 rounds of 15"):
        assert fact in ran.out
    # A single arm has nothing to be compared with.
    assert "Speedup" not in ran.out.splitlines()[0]


def test_by_default_the_last_core_is_taken_and_the_collector_is_off(run_here: Run):
    last = max(os.sched_getaffinity(0))
    assert run_here("speedup", *ONE, "-o", "x.json").code == 0

    assert _plan("x.json")["cpu"] == last
    metadata = _metadata("x.json")
    assert metadata["cpu_affinity"] == str(last)
    assert metadata["python_gc"] == "disabled"


def test_the_core_asked_for_is_the_core_measured_on(run_here: Run):
    first = min(os.sched_getaffinity(0))
    assert run_here("speedup", *ONE, "--cpu", str(first), "-o", "x.json").code == 0

    assert _metadata("x.json")["cpu_affinity"] == str(first)


def test_force_overwrites_and_keeps_nothing_of_the_old_file(run_here: Run, results: str):
    assert stored_runs(results).keys() == JOBS

    ran = run_here("speedup", *ONE, "--force", "-o", results)

    assert ran.code == 0
    assert stored_runs(results).keys() == {("v2-1x8/incremental", 0)}


def test_nothing_but_the_results_file_is_left(run_here: Run):
    assert run_here("speedup", *ONE, "-o", "new/folder/x.json").code == 0

    assert [str(path) for path in Path().rglob("*") if path.is_file()] == ["new/folder/x.json"]
    assert Path("new/folder/x.json").stat().st_mode & 0o400


@pytest.mark.thorough
@pytest.mark.parametrize("manager", ["v1", "v2"])
@pytest.mark.parametrize("order", [(), ("--overlap",)])
def test_every_setting_runs(run_here: Run, manager: str, order: tuple[str, ...]):
    groups = ("--layer-groups", "full,window=40:sink=8", "--page-backend", "generator")

    ran = run_here(
        *("speedup", "--requests", "3", "--tokens", "1,100", "--quick", "--processes", "1"),
        *("--manager", manager, "--tokens-per-block", "8", "--boundaries", "staggered"),
        *("--draft-tokens", "2", *order, *(groups if manager == "v2" else ())),
        *("-o", "x.json", "--json", "-q"),
    )

    assert (ran.code, ran.err) == (0, "")
    cells = json.loads(ran.out)["results"][0]["cells"]
    assert [(c["scenario"]["requests"], c["scenario"]["tokens"]) for c in cells] == [
        (3, 1),
        (3, 100),
    ]
    assert len(stored_runs("x.json")) == 4
    for cell in cells:
        scenario = cell["scenario"]
        assert scenario["manager"] == manager
        assert (scenario["draft_tokens"], scenario["overlap"]) == (2, bool(order))
        assert scenario["boundaries"] == "staggered"
        assert cell["requests"] == scenario["requests"]
        assert cell["processes"] == {"full-copy": 1, "incremental": 1}
        # Steady decoding grows by one to three tokens in each of 18 iterations.
        assert scenario["tokens"] < cell["tokens_mean"] <= scenario["tokens"] + 3 * 18


def test_a_named_scenario_takes_settings(run_here: Run):
    ran = run_here(
        *("speedup", "--scenario", "overlap", "--tokens-per-block", "16", "--manager", "v1"),
        *("--quick", "--processes", "1", "--arms", "incremental", "-o", "x.json", "--json"),
    )

    assert ran.code == 0
    cells = json.loads(ran.out)["results"][0]["cells"]
    assert [cell["cell"] for cell in cells] == [
        "v1-64x2048-block=16-overlap",
        "v1-64x8192-block=16-overlap",
    ]


def test_the_manager_is_told_where_it_is_not_the_default(run_here: Run):
    first = run_here("speedup", *ONE, "-o", "a.json")
    second = run_here("speedup", *ONE, "--manager", "v1", "-o", "b.json")

    assert (first.code, second.code) == (0, 0)
    assert "Manager" not in first.out
    assert "| 1 | 8 | V1 |" in second.out


def test_without_a_checkout_the_revision_is_unknown(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    why = "git: not on the PATH"
    monkeypatch.setattr(metadata, "own_revision", lambda: Revision(None, why=why))

    ran = run_here("speedup", *ONE, "-o", "x.json")

    assert ran.code == 0
    assert f"stepbench {__version__}, revision unknown ({why});" in ran.out
