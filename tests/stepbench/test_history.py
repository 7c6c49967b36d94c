"""``stepbench history``, on a measured file and copies of it."""

import csv
import importlib.util
import io
import json
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyperf
import pytest

pytest.importorskip("pyarrow", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("fsspec", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("ruptures", reason="the history is an extra: pip install 'stepbench[history]'")

import fsspec
import pandas as pd

from .conftest import SCRIPT, Ran, Run, assert_refused, run_script

DAY = datetime(2026, 3, 4, 5, 6, 7)


def revision(day: int) -> str:
    return f"{day:012x}".ljust(40, "0")


def copy(source: str, target: str, day: int = 0, *, slower: float = 1.0, **fields: object) -> str:
    """Write a copy of another day, with longer times and other metadata (None: without)."""
    document = json.loads(Path(source).read_text())
    for name, value in {
        "stepbench_revision": revision(day),
        "stepbench_dirty": 0,
        **fields,
    }.items():
        document["metadata"].pop(name, None)
        if value is not None:
            document["metadata"][name] = value
    for benchmark in document["benchmarks"]:
        for run in benchmark["runs"]:
            run["values"] = [value * slower for value in run["values"]]
            run["metadata"]["date"] = str(DAY + timedelta(days=day))
    Path(target).write_text(json.dumps(document))
    return target


def _stored() -> list[str]:
    return sorted(path.name for path in Path("history").iterdir())


@pytest.fixture
def files(results: str) -> list[str]:
    """Results of 30 days; from the 20th on all takes 5 % longer."""
    noise = np.random.default_rng(0).normal(0.0, 0.004, 30)
    return [
        copy(
            results,
            f"day-{day}.json",
            day,
            slower=(1.05 if day >= 20 else 1.0) * float(np.exp(noise[day])),
        )
        for day in range(30)
    ]


@pytest.mark.thorough
def test_a_slowdown_is_found_by_the_commands_that_a_job_would_call(run_here: Run, files: list[str]):
    for file in files:
        assert run_here("history", "add", file).code == 0

    ran = run_here("history", "trend", "--json")

    assert (ran.code, ran.err) == (0, "")
    trends = json.loads(ran.out)["trends"]
    assert [(trend["cell"], trend["arm"]) for trend in trends] == [
        ("v2-2x64", "full-copy"),
        ("v2-2x64", "incremental"),
    ]
    for trend in trends:
        assert len(trend["runs"]) == 30
        (change,) = trend["changes"]
        assert (change["run"], change["revision"]) == (20, revision(20)[:12])
        assert change["revision_before"] == revision(19)[:12]
        assert change["ratio"]["value"] == pytest.approx(1.05, abs=0.005)
        assert change["p"] <= 0.001


@pytest.mark.thorough
def test_the_script_prints_the_same(run_here: Run, files: list[str]):
    run_here("history", "add", *files)

    ran = run_script("history", "trend", "--arm", "incremental")

    assert (ran.code, ran.err) == (0, "")
    assert ran == run_here("history", "trend", "--arm", "incremental")
    assert ran.out.startswith("30 runs in `history`; machine ")
    assert f"| v2-2x64 | incremental | 2026-03-24 | {revision(20)[:12]} | " in ran.out
    assert "full-copy" not in ran.out
    assert run_here("history", "trend", "--format", "csv").out.count("\n") == 3
    assert "Ratio" in run_here("history", "trend", "--format", "terminal").out


def test_another_host_is_another_condition_of_one_machine(run_here: Run, results: str):
    for day, host in enumerate(("a", "b")):
        assert (
            run_here("history", "add", copy(results, f"{host}.json", day, hostname=host)).code == 0
        )

    ran = run_here("history", "trend")

    assert ran.code == 0
    assert re.search(r"Other conditions differ within machine \w+: host a -> b\.", ran.out)


def test_adding_says_what_was_added_and_twice_is_once(run_here: Run, results: str):
    file = copy(results, "a.json")

    Path("b.json").write_text(Path(file).read_text())
    first = run_here("history", "add", file, file)
    again = run_here("history", "add", file, "b.json")

    (name,) = _stored()
    assert name.startswith("20260304T050607-")
    assert name.endswith(".parquet")
    assert first.out.splitlines() == [
        f"a.json: added as history/{name}",
        f"a.json: was there already: history/{name}",
    ]
    assert (first.code, first.err) == (0, "")
    assert again == Ran(
        0,
        f"a.json: was there already: history/{name}\nb.json: was there already: history/{name}\n",
        "",
    )
    told = run_here("history", "add", file, "--json")
    assert json.loads(told.out) == [{"results": "a.json", "file": f"history/{name}", "new": False}]


def test_a_run_that_was_carried_on_with_is_told(run_here: Run, results: str):
    run_here("history", "add", copy(results, "a.json"))

    ran = run_here("history", "add", copy(results, "b.json", slower=1.1))

    assert ran.code == 0
    assert len(_stored()) == 2
    assert ran.err.startswith("stepbench: b.json: history/20260304T050607-")
    assert "began in the same second" in ran.err


def test_files_that_cannot_be_used_are_named_and_the_others_added(run_here: Run, results: str):
    Path("half.json").write_text(Path(results).read_text()[:1_000])
    pyperf.Benchmark([pyperf.Run([1.0], metadata={"name": "x"})]).dump("foreign.json")

    ran = run_here("history", "add", "half.json", results, "foreign.json", "missing.json")

    assert ran.code == 2
    assert ran.out.startswith(f"{results}: added as history/")
    assert ran.out.count("\n") == 1
    lines = ran.err.splitlines()
    assert [line.split(": ")[2] for line in lines] == ["half.json", "foreign.json", "missing.json"]
    assert all(line.startswith("stepbench: error: ") for line in lines)


def test_runs_are_shown_oldest_first(run_here: Run, results: str):
    other = {"stepbench_machine": "0123456789ab"}
    for day in (2, 0, 1):
        run_here("history", "add", copy(results, f"{day}.json", day, **(other if day else {})))

    ran = run_here("history", "show")
    records = list(csv.DictReader(io.StringIO(run_here("history", "show", "--format", "csv").out)))

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "| Date | Machine | Revision | Cells | Arms | File |"
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        f"| 2026-03-0{day} 05:06" for day in (4, 5, 6)
    ]
    assert all(" | 1 | full-copy, incremental | 2026030" in line for line in lines[2:])
    assert [record["machine"] for record in records][1:] == ["0123456789ab"] * 2
    assert records[0]["machine"] != "0123456789ab"
    assert len(json.loads(run_here("history", "show", "--json").out)["runs"]) == 3


def test_two_machines_are_two_lines(run_here: Run, results: str):
    for day in range(4):
        fields = {"stepbench_machine": "0123456789ab"} if day % 2 else {}
        run_here(
            "history", "add", copy(results, f"{day}.json", day, slower=1.0 + day % 2, **fields)
        )

    ran = run_here("history", "trend", "--arm", "incremental")

    assert ran.code == 0
    lines = [line for line in ran.out.splitlines() if line.startswith("| v2-2x64 ")]
    assert len(lines) == 2
    assert all(" | 2 | 2026-03-0" in line for line in lines)
    assert "| Cell | Arm | Machine | Runs |" in ran.out
    assert "No change point." in ran.out


@pytest.mark.thorough
def test_without_a_fingerprint_a_run_is_kept_but_in_no_trend(run_here: Run, results: str):
    added = run_here("history", "add", copy(results, "a.json", stepbench_machine=None))
    (name,) = _stored()

    assert added.code == 0
    assert added.err == "stepbench: a.json: has no machine fingerprint, so it will be in no trend\n"
    assert_refused(run_here("history", "trend"), "no run of an arm '*'", name, code=4)
    run_here("history", "add", copy(results, "b.json", 1))
    ran = run_here("history", "trend")
    assert f"Without a machine fingerprint, and so in no trend: {name}." in ran.out
    assert run_here("history", "trend", "--format", "csv").err == (
        f"stepbench: Without a machine fingerprint, and so in no trend: {name}.\n"
    )
    assert "| unknown |" in run_here("history", "show").out


def test_a_damaged_file_is_named_and_the_rest_is_shown(run_here: Run, results: str):
    run_here("history", "add", copy(results, "a.json"), copy(results, "b.json", 1))
    first, second = _stored()
    data = Path("history", first).read_bytes()
    Path("history", first).write_bytes(data[: len(data) // 2])
    pd.DataFrame({"a": [1]}).to_parquet("history/foreign.parquet")

    for arguments in (("show",), ("trend",), ("export",), ("trend", "--json")):
        ran = run_here("history", *arguments)
        assert ran.code == 0
        assert second in ran.out or arguments == ("trend",)
        damaged, foreign = ran.err.splitlines()
        assert damaged.startswith(f"stepbench: history/{first}: skipped: damaged: ")
        assert foreign == (
            "stepbench: history/foreign.parquet: skipped: not a file of `stepbench history`"
        )


def test_a_history_of_damaged_files_alone_is_none(run_here: Run):
    Path("history").mkdir()
    Path("history/x.parquet").write_text("")

    ran = run_here("history", "show")

    assert (ran.code, ran.out) == (4, "")
    assert "history/x.parquet: skipped: damaged: " in ran.err
    assert "stepbench: error: history: no file in it can be read" in ran.err


@pytest.mark.parametrize("arguments", [("show",), ("trend",), ("export",)])
def test_no_history_is_nothing_to_compare_with(run_here: Run, arguments: tuple[str, ...]):
    assert_refused(run_here("history", *arguments), "history: no history: no such folder", code=4)
    Path("empty").mkdir()
    ran = run_here("history", *arguments, "--from", "empty")
    assert_refused(ran, "empty: no history", code=4)


def test_a_cell_that_is_not_there_is_nothing_to_compare_with(run_here: Run, results: str):
    run_here("history", "add", results)

    ran = run_here("history", "trend", "--cell", "v3-*")

    assert_refused(ran, "history: no run of an arm '*' in a cell 'v3-*'", code=4)


def test_another_address(run_here: Run, results: str):
    system = fsspec.filesystem("memory")
    system.store.clear()
    address = "memory://bucket/history"

    assert_refused(run_here("history", "show", "--from", address), "no history", code=4)
    added = run_here("history", "add", results, "--to", address)
    shown = run_here("history", "show", "--from", address, "--json")
    trend = run_here("history", "trend", "--from", address)

    assert added.out.startswith(f"{results}: added as {address}/2")
    assert (added.code, shown.code, trend.code) == (0, 0, 0)
    (run,) = json.loads(shown.out)["runs"]
    assert added.out == f"{results}: added as {address}/{run['file']}\n"
    assert f"1 run in `{address}`" in trend.out
    assert not Path("history").exists()
    system.store.clear()


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("nonsense://bucket", "nonsense://bucket: Protocol not known: nonsense"),
        ("/proc/history", "/proc/history/2"),
        ("x.json", "x.json: a file, not a folder"),
        ("x.json/history", "Not a directory"),
    ],
)
def test_where_nothing_can_be_added_is_one_clear_line(
    run_here: Run, results: str, address: str, text: str
):
    assert_refused(run_here("history", "add", results, "--to", address), text)


def test_an_export_has_every_sample(run_here: Run, results: str):
    run_here("history", "add", results)

    ran = run_here("history", "export", "--samples", "-o", "out/all.parquet")

    assert (ran.code, ran.out) == (0, "")
    frame = pd.read_parquet("out/all.parquet")
    assert ran.err == f"stepbench: {len(frame):,} rows written to out/all.parquet\n"
    for benchmark in pyperf.BenchmarkSuite.load(results):
        cell, arm = benchmark.get_name().split("/")
        for run in benchmark.get_runs():
            own = frame[
                (frame["cell"] == cell)
                & (frame["arm"] == arm)
                & (frame["process"] == run.get_metadata()["stepbench_process"])
            ]
            assert tuple(own["seconds"]) == run.values
    assert_refused(
        run_here("history", "export", "-o", "out/all.parquet"), "exists; --force overwrites it"
    )
    assert run_here("history", "export", "-o", "out/all.parquet", "--force").code == 0


def test_an_export_goes_to_stdout_as_csv_or_json(run_here: Run, results: str):
    run_here("history", "add", results)

    text, document = run_here("history", "export"), run_here("history", "export", "--json")
    written = run_here("history", "export", "-o", "figures.json")

    records = list(csv.DictReader(io.StringIO(text.out)))
    assert [record["arm"] for record in records] == ["full-copy", "incremental"]
    rows = json.loads(document.out)
    assert [row["seconds"] for row in rows] == [float(record["seconds"]) for record in records]
    assert written.code == 0
    assert json.loads(Path("figures.json").read_text()) == rows


def test_parquet_comes_out_of_the_script_as_it_is(run_here: Run, results: str):
    run_here("history", "add", results)

    done = subprocess.run(
        [SCRIPT, "history", "export", "--format", "parquet"], capture_output=True, check=True
    )

    assert len(pd.read_parquet(io.BytesIO(done.stdout))) == 2


def test_parquet_is_not_for_a_terminal(
    run_here: Run, results: str, monkeypatch: pytest.MonkeyPatch
):
    run_here("history", "add", results)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    assert_refused(run_here("history", "export", "--format", "parquet"), "-o FILE")


@pytest.mark.thorough
def test_a_plot_is_drawn_beside_the_table(run_here: Run, files: list[str]):
    run_here("history", "add", *files)

    ran = run_here("history", "trend", "--plot", "plots/trend.svg")

    assert (ran.code, ran.err) == (0, "")
    assert "Change points:" in ran.out
    assert Path("plots/trend.svg").read_text().startswith("<?xml")
    run_here("history", "trend", "--plot", "trend.png")
    assert Path("trend.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["trend", "--plot", "trend.jpeg"], "trend.jpeg: a plot is a .svg or .png file"),
        (["trend", "--plot", "trend"], "trend: a plot is a .svg or .png file"),
        (["trend", "--json", "--format", "csv"], "--json contradicts --format csv"),
        (["export", "--json", "--format", "csv"], "--json contradicts --format csv"),
        (["export", "-o", "history"], "history: a folder, not a file"),
        (["add"], "FILES"),
        (["sho"], "sho"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run_here: Run, results: str, arguments: list[str], text: str
):
    run_here("history", "add", results)

    assert_refused(run_here("history", *arguments), text)


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (["add", "x.json"], "pyarrow"),
        (["show"], "pyarrow"),
        (["export"], "fsspec"),
        (["trend"], "ruptures"),
    ],
)
def test_what_is_not_installed_is_named_with_how_to_get_it(
    run_here: Run, results: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], missing: str
):
    assert results == "x.json"
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )

    assert_refused(
        run_here("history", *arguments),
        f"this needs {missing}, not installed here: pip install -e '.[history]' in the clone",
    )


def test_without_a_subcommand_the_help_is_shown(run_here: Run):
    ran = run_here("history")

    assert (ran.code, ran.err) == (0, "")
    assert ran == run_here("history", "--help")
    for name in ("add", "show", "trend", "export"):
        assert f"\n  {name} " in ran.out


@pytest.mark.parametrize("name", ["add", "show", "trend", "export"])
def test_every_subcommand_has_examples(run_here: Run, name: str):
    ran = run_here("history", name, "--help")

    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert len([line for line in lines if line.startswith(f"stepbench history {name}")]) >= 2
