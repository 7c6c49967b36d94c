"""``harness.speedup.file``: writing and resuming."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyperf
import pytest

from harness.speedup.file import FORMAT, MACHINE_FIELDS, ResultsWriter, load
from harness.speedup.plan import Plan
from stepbench_core.errors import InputError, NoBaselineError

from ..helpers import MACHINE, OTHER, TINY, make_benchmark, make_plan, write_results

PLAN = make_plan(scenarios=[TINY, OTHER])


def pyperf_command(*arguments: object) -> str:
    command = [sys.executable, "-m", "pyperf", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_file_is_complete_after_every_run(tmp_path: Path):
    file = tmp_path / "results.json"
    writer = ResultsWriter(file, PLAN, {"stepbench_version": "1.2"})
    jobs = PLAN.jobs()
    assert len(jobs) == 8

    for count, job in enumerate(jobs, start=1):
        writer.add(make_benchmark(job))

        suite = pyperf.BenchmarkSuite.load(str(file))
        assert sum(bench.get_nrun() for bench in suite) == count
        assert {job for job, _ in load(file).runs()} == set(jobs[:count])
        assert list(tmp_path.iterdir()) == [file]

    assert pyperf.BenchmarkSuite.load(str(file)).get_benchmark_names() == [
        *["v2-2x40/full-copy", "v2-2x40/incremental"],
        *["v2-3x40/full-copy", "v2-3x40/incremental"],
    ]


def test_what_was_written_is_read_back(tmp_path: Path):
    file = tmp_path / "results.json"
    writer = ResultsWriter(file, PLAN, {"stepbench_version": "1.2", "stepbench_dirty": 1})
    last, first = PLAN.jobs()[-1], PLAN.jobs()[0]
    writer.add(make_benchmark(last, [6.0, 5.0, 4.0, 3.0, 2.0, 1.5]))
    writer.add(make_benchmark(first))

    results = load(str(file))

    assert results.path == file
    assert results.plan == PLAN
    assert results.metadata["stepbench_format"] == FORMAT == 2
    assert results.metadata["stepbench_version"] == "1.2"
    assert results.metadata["stepbench_dirty"] == 1
    assert results.machine == tuple(str(MACHINE[field]) for field in MACHINE_FIELDS)
    # In the plan's order, whatever the file's.
    ((job_1, run_1), (job_2, run_2)) = results.runs()
    assert (job_1, job_2) == (first, last)
    assert run_1.values == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert run_2.values == (6.0, 5.0, 4.0, 3.0, 2.0, 1.5)
    assert run_1.warmups == ((1, 9.0), (1, 8.0))


def test_a_machine_that_does_not_say_what_it_is_is_unknown(tmp_path: Path):
    file = tmp_path / "results.json"
    write_results(file, PLAN, without="cpu_model_name")
    assert load(file).machine == ("elsewhere", "unknown", "4", "cpython", "3.11.7 (64-bit)")


def test_pyperf_s_own_commands_read_the_file(tmp_path: Path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    write_results(old, PLAN)
    write_results(new, PLAN, values=[2.0, 4.0, 6.0, 8.0, 10.0, 12.0])

    stats = pyperf_command("stats", old)
    assert stats.count("Total number of values: 12") == 4
    assert len(re.findall(r"Median \+- MAD: +3\.50 sec \+- 1\.50 sec", stats)) == 4
    assert pyperf_command("hist", old).count("v2-3x40/incremental") == 1
    assert pyperf_command("compare_to", old, new).count("2.00x slower") == 5


def test_a_resumed_file_keeps_its_runs(tmp_path: Path):
    file = tmp_path / "results.json"
    first, *others = PLAN.jobs()
    ResultsWriter(file, PLAN, {"stepbench_version": "1"}).add(make_benchmark(first, [7.0] * 6))

    writer = ResultsWriter(file, PLAN, {"stepbench_version": "2"}, load(file))
    for job in others:
        writer.add(make_benchmark(job))

    results = load(file)
    assert [job for job, _ in results.runs()] == PLAN.jobs()
    assert [run.values[0] for _, run in results.runs()] == [7.0] + [1.0] * 7
    versions = [run.get_metadata()["stepbench_version"] for _, run in results.runs()]
    assert versions == ["1"] + ["2"] * 7


@pytest.mark.parametrize(
    "changed",
    [
        {"python_executable": "/another/python"},
        {"platform": "Linux-after-an-update"},
        {"aslr": "Full randomization"},
    ],
    ids=str,
)
def test_a_run_that_does_not_fit_the_resumed_ones_is_one_clear_line(
    tmp_path: Path, changed: dict[str, str]
):
    # pyperf does not mix runs that differ in these, though they are no other machine to us.
    file = tmp_path / "results.json"
    before = {"python_executable": "/a/python", "platform": "Linux"}
    first, _, _, _, *others = PLAN.jobs()
    same = next(job for job in others if job.benchmark == first.benchmark)
    ResultsWriter(file, PLAN, {}).add(make_benchmark(first, **before))
    content = file.read_bytes()

    writer = ResultsWriter(file, PLAN, {}, load(file))
    with pytest.raises((InputError, NoBaselineError)) as caught:
        writer.add(make_benchmark(same, **(before | changed)))
    assert next(iter(changed)) in str(caught.value)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (OSError(28, "No space left on device"), InputError, "No space left on device"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
    ids=["full disk", "interrupt"],
)
def test_a_failing_write_leaves_the_old_file_alone(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: BaseException,
    raised: type[BaseException],
    message: str | None,
):
    def dump(_self: object, file: Any) -> None:  # noqa: ANN401
        file.write('{"half": ')
        raise error

    file = tmp_path / "results.json"
    first, second, *_ = PLAN.jobs()
    writer = ResultsWriter(file, PLAN, {})
    writer.add(make_benchmark(first))
    content = file.read_bytes()
    monkeypatch.setattr(pyperf.BenchmarkSuite, "dump", dump)

    with pytest.raises(raised) as caught:
        writer.add(make_benchmark(second))

    if message:
        assert str(caught.value) == f"{file}: cannot be written: {message}"
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


def test_who_reads_while_it_is_written_reads_one_or_the_other(tmp_path: Path):
    file = tmp_path / "results.json"
    first, second, *_ = PLAN.jobs()
    writer = ResultsWriter(file, PLAN, {})
    writer.add(make_benchmark(first))
    content = file.read_text()
    with file.open() as opened_before:
        writer.add(make_benchmark(second))
        assert opened_before.read() == content
    assert file.read_text() != content


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o002, 0o664)])
def test_the_file_is_as_readable_as_the_user_s_others(tmp_path: Path, umask: int, mode: int):
    file = tmp_path / "results.json"
    before = os.umask(umask)
    try:
        write_results(file, PLAN)
        assert os.umask(umask) == umask  # Left as it was.
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_the_plan_stands_in_the_file_as_it_is(tmp_path: Path):
    file = tmp_path / "results.json"
    write_results(file, PLAN)
    document = json.loads(file.read_text())
    assert Plan.from_json(document["metadata"]["stepbench_plan"]) == PLAN
