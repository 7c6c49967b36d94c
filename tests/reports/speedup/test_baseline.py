"""``reports.speedup.baseline`` on results files written by hand."""

import csv
import io
import json
import math

import pytest

from harness.speedup.file import Results
from harness.speedup.plan import Protocol
from harness.stats.estimates import Estimate
from reports.speedup.baseline import compare_files, unpaired_ratio, write_comparison
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import NoBaselineError

from ..conftest import MACHINE, Samples, WriteResults, make_plan

HERE = {
    "stepbench_machine": "12ab34cd56ef",
    "stepbench_machine_fields": '{"cores": "8", "memory_gib": "64"}',
    "stepbench_revision": "a" * 40,
}
SMALL, LARGE, NEW = (SteadyDecode(requests=2, tokens=tokens) for tokens in (64, 512, 4096))


def samples(*times: float, cells: int = 1, arms: tuple[str, ...] = ("full-copy", "incremental")):
    """The same processes for each arm of each cell."""
    return {
        (cell, arm, process): time
        for cell in range(cells)
        for arm in arms
        for process, time in enumerate(times)
    }


def test_each_arm_of_each_cell_stands_beside_its_baseline(write_results: WriteResults):
    plan = make_plan(SMALL, LARGE)
    before: Samples = samples(1e-3, 1e-3, 1e-3, cells=2)
    after = {
        key: time * (3 if key[:2] == (1, "incremental") else 2) for key, time in before.items()
    }

    found = compare_files(
        write_results(plan, after, name="new.json", metadata=HERE),
        write_results(plan, before, name="old.json", metadata=HERE),
    )

    assert [(each.cell.scenario, each.arm) for each in found.changes] == [
        (SMALL, "full-copy"),
        (SMALL, "incremental"),
        (LARGE, "full-copy"),
        (LARGE, "incremental"),
    ]
    assert {each.before.value for each in found.changes} == {1e-3}
    assert [round(each.after.value * 1e3, 6) for each in found.changes] == [2, 2, 2, 3]
    assert [round(each.ratio.value, 6) for each in found.changes] == [2, 2, 2, 3]
    assert (found.only_file, found.only_baseline, found.notes) == ((), (), ())
    assert found.machine == "12ab34cd56ef"


def test_welch_s_interval():
    """By hand: means 0 and 1, variances 1 and 4 over three and three processes.

    The error is the root of 1/3 + 4/3; the degrees are (5/3)^2 / ((1/9 + 16/9) / 2) = 2.94,
    rounded down to 2, whose quantile is 4.3027.
    """
    half = 4.302653 * math.sqrt(5 / 3)
    found = unpaired_ratio([2.0, 0.0, -2.0], [-1.0, -2.0, 0.0])
    assert found.value == pytest.approx(math.e)
    assert found.low == pytest.approx(math.exp(1 - half), rel=1e-5)
    assert found.high == pytest.approx(math.exp(1 + half), rel=1e-5)


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        ([0.0, 0.0], [0.0, 0.0], Estimate(1.0, 1.0, 1.0)),
        ([0.0], [0.0, 1.0, -1.0], Estimate(1.0, 0.0, math.inf)),
        ([0.0, 1.0, -1.0], [0.0], Estimate(1.0, 0.0, math.inf)),
    ],
)
def test_the_interval_without_a_spread_or_a_second_process(
    above: list[float], below: list[float], expected: Estimate
):
    assert unpaired_ratio(above, below) == expected


def test_processes_of_two_runs_are_no_pairs(write_results: WriteResults):
    # Paired, the ratio would be 1.1 without any doubt.
    before = samples(1e-3, 2e-3, 3e-3)
    after = samples(1.1e-3, 2.2e-3, 3.3e-3)
    plan = make_plan(SMALL)

    found = compare_files(
        write_results(plan, after, name="new.json", metadata=HERE),
        write_results(plan, before, name="old.json", metadata=HERE),
    )

    ratio = found.changes[0].ratio
    assert ratio.value == pytest.approx(1.1)
    assert ratio.low < 0.5
    assert ratio.high > 2


def test_what_one_file_alone_has_is_listed(write_results: WriteResults):
    arms = ("full-copy", "incremental", "batched")
    new = write_results(
        make_plan(SMALL, NEW, arms=arms),
        samples(1e-3, 1e-3, 1e-3, cells=2, arms=arms),
        name="new.json",
        metadata=HERE,
    )
    old = write_results(
        make_plan(LARGE, SMALL), samples(1e-3, 1e-3, 1e-3, cells=2), name="old.json", metadata=HERE
    )

    found = compare_files(new, old)

    assert [(each.cell.scenario, each.arm) for each in found.changes] == [
        (SMALL, "full-copy"),
        (SMALL, "incremental"),
    ]
    assert found.only_file == (
        "v2-2x64/batched",
        "v2-2x4096/full-copy",
        "v2-2x4096/incremental",
        "v2-2x4096/batched",
    )
    assert found.only_baseline == ("v2-2x512/full-copy", "v2-2x512/incremental")
    assert found.notes == (
        f"Only in {new.path}: v2-2x64/batched, v2-2x4096/full-copy, v2-2x4096/incremental, "
        "v2-2x4096/batched.",
        f"Only in {old.path}: v2-2x512/full-copy, v2-2x512/incremental.",
    )


def test_nothing_in_common_is_no_baseline(write_results: WriteResults):
    new = write_results(make_plan(SMALL), samples(1e-3, 1e-3, 1e-3), name="new.json", metadata=HERE)
    old = write_results(make_plan(LARGE), samples(1e-3, 1e-3, 1e-3), name="old.json", metadata=HERE)
    with pytest.raises(NoBaselineError) as caught:
        compare_files(new, old)
    assert str(caught.value) == f"{new.path} and {old.path} have no arm of a cell in common"


def test_another_machine_is_no_baseline_and_what_differs_is_named(write_results: WriteResults):
    there = {
        "stepbench_machine": "000000000000",
        "stepbench_machine_fields": '{"cores": "4", "memory_gib": "64"}',
    }
    times = samples(1e-3, 1e-3, 1e-3)
    new = write_results(make_plan(SMALL), times, name="new.json", metadata=HERE)
    old = write_results(make_plan(SMALL), times, name="old.json", metadata=there)
    with pytest.raises(NoBaselineError) as caught:
        compare_files(new, old)
    assert str(caught.value) == (
        f"{new.path}: measured on another machine than {old.path}: cores 8 against 4"
    )


def test_other_conditions_are_told_in_one_sentence(write_results: WriteResults):
    times = samples(1e-3, 1e-3, 1e-3)
    new = write_results(
        make_plan(SMALL, provider="nanobind", gc=True, seed=3, cpu=1),
        times,
        name="new.json",
        metadata=HERE | {"stepbench_dirty": 1},
    )
    old = write_results(
        make_plan(SMALL, provider="python", protocol=Protocol(3, 5, 1, 3)),
        times,
        name="old.json",
        metadata=HERE | {"stepbench_revision": "b" * 40},
        machine=MACHINE | {"python_version": "3.11.9 (64-bit)"},
    )

    assert compare_files(new, old).notes == (
        "Other conditions differ: provider python -> nanobind; revision bbbbbbbbbbbb -> "
        "aaaaaaaaaaaa with local changes; garbage collector off -> on; protocol 3 x (5 + 1 x 3) -> "
        "3 x (1 + 1 x 3); seed 0 -> 3; pinned core none -> 1; Python cpython 3.11.9 (64-bit) -> "
        "cpython 3.12.1 (64-bit).",
    )
    assert compare_files(new, new).notes == ()


def test_packages_sources_and_boots_are_conditions(write_results: WriteResults):
    times = samples(1e-3, 1e-3, 1e-3)

    def write(name: str, boot: str, numpy: str, source: str) -> Results:
        versions = {"stepbench_versions": json.dumps({"numpy": numpy})}
        plan = make_plan(SMALL, sources={"incremental": source * 64})
        machine = MACHINE | {"boot_time": boot}
        return write_results(plan, times, name=name, metadata=HERE | versions, machine=machine)

    new = write("new.json", "2026-12-01 02:17:54", "2.0", "a")
    # The time of the boot is worked out from a clock that is put right now and then.
    same = write("same.json", "2026-12-01 02:17:53", "2.0", "a")
    old = write("old.json", "2026-11-30 11:00:00", "1.26", "b")

    assert compare_files(new, same).notes == ()
    assert compare_files(new, old).notes == (
        "Other conditions differ: source of incremental bbbbbbbbbbbb -> aaaaaaaaaaaa; booted "
        "2026-11-30 11:00:00 -> 2026-12-01 02:17:54; numpy 1.26 -> 2.0.",
    )


def test_the_formats(write_results: WriteResults):
    plan = make_plan(SMALL, arms=("incremental",))
    new = write_results(plan, {(0, "incremental", 0): 3e-3}, name="new.json", metadata=HERE)
    old = write_results(
        plan,
        samples(1e-3, 2e-3, 4e-3, arms=("incremental",)),
        name="old.json",
        metadata=HERE,
    )
    found = compare_files(new, old)
    texts = {}
    for style in ("markdown", "terminal", "csv", "json"):
        file = io.StringIO()
        write_comparison(found, style, file)  # type: ignore[arg-type]
        texts[style] = file.getvalue()

    # The median of the baseline is 2 ms, and so is its geometric mean.
    assert (
        "| 2 | 64 | incremental | 2.00 ms | 3.00 ms | 1.500 (one process: no interval) |"
        in (texts["markdown"])
    )
    assert "1.500 (one process: no interval)" in texts["terminal"]
    (row,) = csv.DictReader(io.StringIO(texts["csv"]))
    assert (row["cell"], row["arm"], row["seconds_low"], row["ratio_low"]) == (
        "v2-2x64",
        "incremental",
        "",
        "",
    )
    assert float(row["ratio"]) == pytest.approx(1.5)
    document = json.loads(texts["json"], parse_constant=pytest.fail)
    (cell,) = document["cells"]
    assert cell["seconds"] == {"value": 3e-3, "low": None, "high": None}
    assert cell["baseline_seconds"]["low"] < 1e-3
    assert document["machine"] == "12ab34cd56ef"
    assert (document["file"], document["baseline"]) == (str(new.path), str(old.path))
    assert all("This is no verdict" in text for style, text in texts.items() if style != "csv")
