"""How the usual tools' runs are sized, and how what they say is read."""

import json
from collections.abc import Callable
from pathlib import Path

import peers_asv
import peers_pyperf
import peers_pytest
import pytest
from peers_trial import Cost

from stepbench_core.errors import WorkerError

PYPERF = "Mean +- std dev: [a] 1.00 ms +- 0.00 ms -> [b] {}\n{}\n"


@pytest.mark.parametrize(
    ("change", "test", "slower"),
    [
        ("1.50 ms +- 0.00 ms: 1.50x slower", "Significant (t=-1043.61)", True),
        ("1.01 ms +- 0.00 ms: 1.01x slower", "Significant (t=-3.10)", True),
        ("0.50 ms +- 0.00 ms: 1.50x faster", "Significant (t=1043.61)", False),
        ("1.50 ms +- 0.00 ms: 1.50x slower", "Not significant!", False),
    ],
)
def test_pyperf_alarms_by_its_test_alone(change: str, test: str, slower: bool):
    assert peers_pyperf.says_slower(PYPERF.format(change, test)) is slower


def test_pyperf_s_values_are_read(tmp_path: Path):
    run = {"metadata": {"name": "step", "loops": 1, "unit": "second"}, "values": [0.001, 0.003]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"version": "1.0", "benchmarks": [{"runs": [run, run]}]}))

    assert list(peers_pyperf.read_values(path)) == [0.001, 0.003, 0.001, 0.003]


REGRESSED = """\
test_steps.py .                                                          [100%]
Saved benchmark data in: stored/Linux-CPython-3.11-64bit/0002_b.json

--------------------------------------------------------------------------------
Performance has regressed:
\ttest_call (0001_a) - Field 'mean' has failed PercentageRegressionCheck: 18.569 > 5.000000000
\ttest_call (0001_a) - Field 'min' has failed PercentageRegressionCheck: 11.025 > 5.000000000
--------------------------------------------------------------------------------
"""
PASSED = """\
Name (time in us)           Min                    Max                Mean
test_call (NOW)        323.5020 (1.0)      15,061.9700 (1.0)      896.5861 (1.05)
test_call (0001_a)     324.4130 (1.00)     29,754.2490 (1.98)     853.5595 (1.0)
============================== 1 passed in 5.52s ===============================
"""


def test_pytest_benchmark_alarms_by_each_statistic():
    assert peers_pytest.failed_statistics(REGRESSED) == {"mean", "min"}
    assert peers_pytest.failed_statistics(PASSED) == set()


def test_pytest_benchmark_s_saved_run_is_read(tmp_path: Path):
    folder = tmp_path / "Linux-CPython-3.11-64bit"
    folder.mkdir()
    stats = {"min": 0.001, "max": 0.009, "mean": 0.003, "median": 0.002, "rounds": 5}
    for name, factor in (("0001_a", 1), ("0002_b", 2)):
        scaled = {key: value * factor for key, value in stats.items()}
        (folder / f"{name}.json").write_text(json.dumps({"benchmarks": [{"stats": scaled}]}))

    found = peers_pytest.read_statistics(tmp_path, "b")

    assert found == {"mean": 0.006, "median": 0.004, "min": 0.002}
    with pytest.raises(WorkerError, match=r"^pytest-benchmark: run c is not saved$"):
        peers_pytest.read_statistics(tmp_path, "c")


TABLE = """\
| Change   | Before [cc2370f9] <main~1> | After [eea88103] <main> | Ratio | Benchmark |
|----------|----------------------------|-------------------------|-------|-----------|
| {}        | 349±4μs                    | 353±4μs                 |  1.01 | steps.Steps.time_call |
"""


def test_asv_alarms_where_it_says_so():
    changed = "\nSOME BENCHMARKS HAVE CHANGED SIGNIFICANTLY.\nPERFORMANCE {}.\n"
    assert peers_asv.says_decreased(TABLE.format("+") + changed.format("DECREASED"))
    assert not peers_asv.says_decreased(TABLE.format("-") + changed.format("INCREASED"))
    assert not peers_asv.says_decreased("\nBENCHMARKS NOT SIGNIFICANTLY CHANGED.\n")

    assert peers_asv.says_slower(TABLE.format("+"))
    assert not peers_asv.says_slower(TABLE.format("-"))
    assert not peers_asv.says_slower("")


def test_asv_s_samples_are_read(tmp_path: Path):
    columns = ["result", "params", "version", "samples", "profile"]
    row = [[0.002], [], "1a2b", [[0.001, 0.002, 0.003]]]
    results = {"result_columns": columns, "results": {"steps.Steps.time_call": row}}
    (tmp_path / "0123abcd-this-python-py3.11.json").write_text(json.dumps(results))

    assert peers_asv.read_samples(tmp_path, "0123abcdef") == [0.001, 0.002, 0.003]
    with pytest.raises(WorkerError, match=r"^asv: no samples of commit fedcba98$"):
        peers_asv.read_samples(tmp_path, "fedcba9876")


@pytest.mark.parametrize(
    "read",
    [peers_pyperf.says_slower, peers_pytest.failed_statistics, peers_asv.says_decreased],
)
@pytest.mark.parametrize(
    ("output", "reason"),
    [("", "no output"), ("1 passed in 0.1s\n", "1 passed in 0.1s")],
)
def test_what_says_nothing_is_no_all_clear(read: Callable[[str], object], output: str, reason: str):
    with pytest.raises(WorkerError, match=f"^.*: not understood: {reason}$"):
        read(output)


def test_runs_fill_their_time():
    cost = Cost(process=0.15, iteration=0.002)
    # 10 processes of 0.46 s, of which 0.2 s start it; 130 calls make 4 values of 32.
    expected = ["--processes=10", "--values=3", "--warmups=1", "--loops=32"]
    assert peers_pyperf.size(5.0, cost) == expected
    assert peers_pytest.rounds_of(5.0, cost) == 2_175
    # Two rounds of both arms: 8.5 s / 4, and 0.55 s start each.
    assert peers_asv.seconds_of_round(10.0, cost) == pytest.approx(1.575)


def test_runs_that_fit_no_time_are_as_small_as_can_be():
    cost = Cost(process=2.0, iteration=0.1)
    expected = ["--processes=2", "--values=3", "--warmups=1", "--loops=1"]
    assert peers_pyperf.size(1.0, cost) == expected
    assert peers_pytest.rounds_of(1.0, cost) == 2
    assert peers_asv.seconds_of_round(1.0, cost) == 0.01
