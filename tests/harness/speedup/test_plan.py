import dataclasses
import json
import math
from typing import Any

import pytest

from harness.speedup.plan import (
    DEFAULT,
    QUICK,
    SETTLING,
    Job,
    Plan,
    Protocol,
    check_distinct,
    worker_seed,
)
from harness.speedup.stored_plan import read_plan
from scenarios.scenario import SteadyDecode, TraceReplay
from stepbench_core.errors import InputError
from stubs.kv_cache_v2 import LayerGroup

from ..helpers import OTHER, TINY, make_plan

GROUPED = SteadyDecode(
    requests=3,
    tokens=70,
    tokens_per_block=16,
    layer_groups=(LayerGroup(), LayerGroup(window=64, sink_tokens=4)),
    page_backend="generator",
    draft_tokens=3,
    overlap=True,
    boundaries="staggered",
)
REPLAY = TraceReplay(path="/traces/a 'b' \u00e9.csv", max_batch=4, max_num_tokens=500)
FULL_PLAN = Plan(
    scenarios=(GROUPED, REPLAY, SteadyDecode(requests=1, tokens=5, manager="v1")),
    arms=("incremental", "full-copy", "trtllm:~/T@v1"),
    protocol=Protocol(processes=5, warmups=1, rounds=2, samples=3),
    seed=42,
    cpu=1,
    gc=True,
    command="stepbench speedup --trace 'a\nb'",
    provider="python",
    sources={"trtllm:~/T@v1": "0123"},
    precision=0.03,
    seconds=45.5,
)


def test_protocols_count_their_iterations():
    assert dataclasses.astuple(DEFAULT) == (4, 10, 9, 15)
    assert (DEFAULT.values, DEFAULT.iterations) == (135, 145 + 9 * SETTLING)
    assert dataclasses.astuple(QUICK) == (3, 3, 1, 15)
    assert (QUICK.values, QUICK.iterations) == (15, 18 + SETTLING)


def test_jobs_of_a_cell_come_together_and_cells_in_turn():
    plan = make_plan("a", "b", "c", scenarios=[TINY, OTHER], processes=2)

    order = [(job.process, job.scenario.requests, job.arm) for job in plan.jobs()]

    assert order == [
        *[(0, 2, "a"), (0, 2, "b"), (0, 2, "c"), (0, 3, "a"), (0, 3, "b"), (0, 3, "c")],
        *[(1, 2, "a"), (1, 2, "b"), (1, 2, "c"), (1, 3, "a"), (1, 3, "b"), (1, 3, "c")],
    ]


def test_every_job_stands_in_the_plan_once():
    plan = make_plan(scenarios=[TINY, OTHER], processes=7)
    assert len(plan.jobs()) == len(set(plan.jobs())) == 2 * 2 * 7


def test_a_job_names_itself():
    job = Job(GROUPED, "incremental", 2)

    name = "v2-3x70-block=16-groups=full,window=64:sink=4-pages=generator-draft=3-overlap-staggered"
    assert job.benchmark == f"{name}/incremental"
    # People count processes from 1.
    assert str(job) == f"cell {name}, arm incremental, process 3"


def test_json_takes_the_whole_plan_there_and_back():
    text = FULL_PLAN.to_json()

    assert "\n" not in text
    assert Plan.from_json(text) == FULL_PLAN
    assert Plan.from_json(text).jobs() == FULL_PLAN.jobs()


def test_json_holds_every_setting_in_plain_values():
    values = json.loads(FULL_PLAN.to_json())

    assert set(values) == {field.name for field in dataclasses.fields(Plan)}
    assert values["arms"] == ["incremental", "full-copy", "trtllm:~/T@v1"]
    assert values["sources"] == {"trtllm:~/T@v1": "0123"}
    assert values["protocol"] == {"processes": 5, "warmups": 1, "rounds": 2, "samples": 3}
    assert values["scenarios"][0]["layer_groups"][1] == {"window": 64, "sink_tokens": 4}
    assert values["scenarios"][1]["kind"] == "TraceReplay"


def test_a_text_that_is_cut_short_is_no_plan():
    text = FULL_PLAN.to_json()
    for length in range(len(text)):
        with pytest.raises(InputError, match=r"^not a plan of this version: "):
            read_plan(text[:length])


@pytest.mark.parametrize("text", ["null", "1", "[]", "{}", '"plan"', '{"scenarios": [1]}'])
def test_foreign_json_is_no_plan(text: str):
    with pytest.raises(InputError, match=r"^not a plan of this version: "):
        read_plan(text)


def test_a_plan_from_before_arms_had_sources_or_a_precision_is_read():
    values = json.loads(make_plan().to_json())
    assert [values.pop(name) for name in ("sources", "precision", "seconds")] == [{}, None, 0.0]
    assert read_plan(json.dumps(values)) == make_plan()


def test_a_plan_of_another_version_is_refused():
    values = json.loads(FULL_PLAN.to_json())
    more, less = values | {"colour": "red"}, {k: v for k, v in values.items() if k != "arms"}
    for changed in (more, less):
        with pytest.raises(InputError, match=r"^not a plan of this version: .*(colour|arms)"):
            read_plan(json.dumps(changed))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scenarios", None),
        ("scenarios", [{}]),
        ("scenarios", [{"kind": "SteadyDecode", "layer_groups": 1}]),
        ("scenarios", [{"kind": "Unheard", "layer_groups": []}]),
        ("arms", None),
        ("protocol", None),
        ("protocol", [4, 10, 9, 15]),
        ("protocol", {"processes": 1, "turns": 2}),
    ],
)
def test_a_field_of_another_shape_is_refused(field: str, value: Any):  # noqa: ANN401
    values = json.loads(FULL_PLAN.to_json()) | {field: value}
    with pytest.raises(InputError, match=r"^not a (plan|scenario) of this version: "):
        read_plan(json.dumps(values))


# What is read must be usable: a damaged file may not end in a traceback later on.
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("arms", "incremental"),
        ("arms", [["incremental"]]),
        ("protocol", {"processes": "4", "warmups": 1, "rounds": 2, "samples": 3}),
        ("protocol", {"processes": 4, "warmups": None, "rounds": 2, "samples": 3}),
        ("protocol", {"processes": 4, "warmups": 1, "rounds": 2.5, "samples": 3}),
        ("seed", "one"),
        *[("precision", value) for value in (0, -0.1, True, "5%", math.nan, 10**400)],
        *[("seconds", value) for value in (None, -1, "90", math.inf)],
        *[("sources", value) for value in (None, [], "x", {"trtllm:a": 1}, {"trtllm:a": None})],
    ],
)
def test_a_field_that_could_not_be_carried_out_is_refused(
    field: str,
    value: Any,  # noqa: ANN401
):
    values = json.loads(FULL_PLAN.to_json()) | {field: value}
    with pytest.raises(InputError, match=r"^not a plan of this version: "):
        read_plan(json.dumps(values))


def test_the_input_seed_differs_between_processes_only():
    plan, other = make_plan(seed=3), make_plan(seed=4)

    seeds = [worker_seed(plan, process) for process in range(20)]

    assert len(set(seeds)) == 20
    assert seeds == [worker_seed(plan, process) for process in range(20)]
    assert not set(seeds) & {worker_seed(other, process) for process in range(20)}
    # 1 and 11 against 11 and 1: seed and process must not run together.
    assert worker_seed(make_plan(seed=1), 11) != worker_seed(make_plan(seed=11), 1)


def test_check_distinct_accepts_different_cells():
    check_distinct([TINY])
    check_distinct([TINY, OTHER, GROUPED, REPLAY])


@pytest.mark.parametrize(
    ("scenarios", "message"),
    [
        ([], "no cell is named"),
        ([TINY, OTHER, TINY], "cell v2-2x40 is named twice"),
        # Two traces of one name in different folders could not be told apart in the table.
        (
            [TraceReplay(path="/a/x.csv"), TraceReplay(path="/b/x.csv")],
            "cell v2-trace=x-batch=64 is named twice",
        ),
    ],
)
def test_check_distinct_names_what_is_wrong(scenarios: list[Any], message: str):
    with pytest.raises(InputError) as caught:
        check_distinct(scenarios)
    assert str(caught.value) == message
