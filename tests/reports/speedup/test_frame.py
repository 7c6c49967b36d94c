import math
from itertools import product

import pandas as pd
import pytest

from harness.speedup.plan import Protocol
from reports.speedup import frame
from scenarios.scenario import SteadyDecode

from ..conftest import WriteResults, make_plan

# Two rounds of three samples a process. Medians: (2, 20), (4, 40); (1, 10), (3, 30).
SAMPLES = {
    (0, "full-copy", 0): [3.0, 1.0, 2.0, 20.0, 10.0, 30.0],
    (0, "full-copy", 1): [4.0, 4.0, 9.0, 40.0, 50.0, 40.0],
    (0, "incremental", 0): [1.0, 1.0, 2.0, 5.0, 10.0, 15.0],
    (0, "incremental", 1): [3.0, 2.0, 7.0, 30.0, 31.0, 29.0],
}
TWO_ROUNDS = Protocol(processes=2, warmups=1, rounds=2, samples=3)


def test_a_sample_is_a_row(write_results: WriteResults):
    results = write_results(make_plan(protocol=TWO_ROUNDS), SAMPLES)

    samples = frame.samples_frame(results)

    assert list(samples.columns) == ["cell", "arm", "process", "round", "iteration", "seconds"]
    assert list(samples["arm"]) == (["full-copy"] * 6 + ["incremental"] * 6) * 2
    assert list(samples["process"]) == [0] * 12 + [1] * 12
    assert list(samples["round"]) == [0, 0, 0, 1, 1, 1] * 4
    assert list(samples["iteration"]) == [0, 1, 2, 3, 4, 5] * 4
    assert list(samples["seconds"][:6]) == [3.0, 1.0, 2.0, 20.0, 10.0, 30.0]
    assert list(samples["seconds"][18:]) == [3.0, 2.0, 7.0, 30.0, 31.0, 29.0]
    assert set(samples["cell"]) == {"v2-2x64"}
    assert list(samples.index) == list(range(24))


def test_rounds_of_the_protocol_are_consecutive_groups_of_fifteen(write_results: WriteResults):
    plan = make_plan(arms=("full-copy",), protocol=Protocol(processes=1, rounds=3))
    values = [float(number) for number in range(1, 46)]
    results = write_results(plan, {(0, "full-copy", 0): values})

    samples = frame.samples_frame(results)
    rounds = frame.round_medians(samples)

    assert list(samples["round"]) == [0] * 15 + [1] * 15 + [2] * 15
    # 1 to 15, 16 to 30, 31 to 45.
    assert list(rounds["seconds"]) == [8.0, 23.0, 38.0]
    assert list(rounds["round"]) == [0, 1, 2]


def test_round_medians_keep_cells_arms_and_processes_apart(write_results: WriteResults):
    plan = make_plan(
        SteadyDecode(requests=2, tokens=64),
        SteadyDecode(requests=1, tokens=32),
        protocol=Protocol(processes=2, warmups=1, rounds=1, samples=3),
    )
    jobs = list(product((0, 1), ("full-copy", "incremental"), (0, 1)))
    results = write_results(
        plan, {job: [number, number + 1.0, number + 2.0] for number, job in enumerate(jobs, 1)}
    )

    rounds = frame.round_medians(frame.samples_frame(results))

    assert len(rounds) == 8
    found = rounds.set_index(["cell", "arm", "process"])["seconds"].to_dict()
    assert found == {
        ("v2-2x64", "full-copy", 0): 2.0,
        ("v2-2x64", "full-copy", 1): 3.0,
        ("v2-2x64", "incremental", 0): 4.0,
        ("v2-2x64", "incremental", 1): 5.0,
        ("v2-1x32", "full-copy", 0): 6.0,
        ("v2-1x32", "full-copy", 1): 7.0,
        ("v2-1x32", "incremental", 0): 8.0,
        ("v2-1x32", "incremental", 1): 9.0,
    }


def test_a_figure_is_the_median_of_the_round_medians(write_results: WriteResults):
    results = write_results(make_plan(protocol=TWO_ROUNDS), SAMPLES)

    figures = frame.figures(frame.round_medians(frame.samples_frame(results)))

    # Of 2, 20, 4, 40 and of 1, 10, 3, 30; the medians of all samples would be 9.5 and 6.
    assert figures.to_dict() == {
        ("v2-2x64", "full-copy"): 12.0,
        ("v2-2x64", "incremental"): 6.5,
    }


def test_a_process_figure_is_the_median_of_its_own_rounds(write_results: WriteResults):
    results = write_results(make_plan(protocol=TWO_ROUNDS), SAMPLES)

    processes = frame.process_figures(frame.round_medians(frame.samples_frame(results)))

    assert list(processes.index.names) == ["cell", "process"]
    assert processes["full-copy"].to_dict() == {("v2-2x64", 0): 11.0, ("v2-2x64", 1): 22.0}
    assert processes["incremental"].to_dict() == {("v2-2x64", 0): 5.5, ("v2-2x64", 1): 16.5}


@pytest.fixture
def with_gaps(write_results: WriteResults) -> pd.DataFrame:
    """Process 1 has full-copy alone; process 2 has neither."""
    samples = {key: values for key, values in SAMPLES.items() if key != (0, "incremental", 1)}
    results = write_results(make_plan(protocol=TWO_ROUNDS), samples)
    return frame.process_figures(frame.round_medians(frame.samples_frame(results)))


def test_a_missing_process_is_a_gap_and_no_number(with_gaps: pd.DataFrame):
    assert list(with_gaps.index) == [("v2-2x64", 0), ("v2-2x64", 1)]
    assert with_gaps.loc[("v2-2x64", 1), "full-copy"] == 22.0
    assert math.isnan(with_gaps.loc[("v2-2x64", 1), "incremental"])


def test_complete_processes_are_those_with_every_arm_asked_for(with_gaps: pd.DataFrame):
    cells = frame.by_cell(with_gaps)
    both = frame.complete_processes(cells["v2-2x64"], ["incremental", "full-copy"])
    one = frame.complete_processes(cells["v2-2x64"], ["full-copy"])

    assert both.to_dict("list") == {"incremental": [5.5], "full-copy": [11.0]}
    assert one.to_dict("list") == {"full-copy": [11.0, 22.0]}
    assert list(cells) == ["v2-2x64"]


def test_a_number_of_the_runs_is_their_mean_by_cell(write_results: WriteResults):
    plan = make_plan(
        SteadyDecode(requests=2, tokens=64),
        SteadyDecode(requests=1, tokens=32),
        arms=("full-copy",),
        protocol=Protocol(processes=2, warmups=1, rounds=1, samples=3),
    )
    means = {
        (0, "full-copy", 0): 10.0,
        (0, "full-copy", 1): 14.0,
        (1, "full-copy", 0): 3.0,
        (1, "full-copy", 1): 4.0,
    }
    results = write_results(
        plan,
        dict.fromkeys(means, 1.0),
        runs={key: {"stepbench_tokens_mean": mean} for key, mean in means.items()},
    )

    found = frame.run_means(results, "stepbench_tokens_mean")

    assert found.to_dict() == {"v2-2x64": 12.0, "v2-1x32": 3.5}
    with pytest.raises(KeyError):
        frame.run_means(results, "stepbench_no_such_number")
