"""What pytest-benchmark wrote of the cells, read as results of ours; or one clear line."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.speedup.file import check_same_machine, load
from harness.speedup.pytest_results import NOTES, TOOL, is_pytest_benchmark
from stepbench_core.errors import InputError

from ..helpers import OTHER, TINY, make_plan, write_results
from ..pytest_documents import VALUES, pytest_document

PLAN = make_plan(scenarios=(TINY, OTHER), processes=1)
Document = dict[str, Any]
# A test of somebody else's project, in the same run.
FOREIGN = {"name": "test_other", "extra_info": {"note": 1}, "stats": {"min": 0.1, "data": [0.1]}}


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bench.json"


def test_it_is_read_as_results_of_one_process(file: Path):
    results = load(write(file, pytest_document(PLAN)))

    assert results.path == file
    assert results.plan == PLAN
    assert [job for job, _ in results.runs()] == PLAN.jobs()
    assert all(run.values == VALUES for _, run in results.runs())
    assert results.metadata[TOOL] == "pytest-benchmark 5.3.1"


def test_but_for_the_tool_it_is_the_file_that_we_would_have_written(file: Path, tmp_path: Path):
    own = tmp_path / "own.json"
    write_results(own, PLAN)

    theirs, ours = load(write(file, pytest_document(PLAN))), load(own)

    assert theirs.machine == ours.machine
    for (_, their_run), (_, our_run) in zip(theirs.runs(), ours.runs(), strict=True):
        assert their_run.values == our_run.values
        without = {TOOL: "pytest-benchmark 5.3.1"}
        ignored = {"stepbench_version"}  # Of the hand-made file alone.
        assert their_run.get_metadata() == {
            **{k: v for k, v in our_run.get_metadata().items() if k not in ignored},
            **without,
        }


def test_other_tests_of_the_same_run_are_left_out(file: Path):
    document = pytest_document(PLAN)
    document["benchmarks"] = [FOREIGN, *document["benchmarks"], FOREIGN]

    assert len(load(write(file, document)).runs()) == 4


def test_some_of_the_cells_are_what_there_is(file: Path):
    document = pytest_document(PLAN)
    del document["benchmarks"][1:3]

    assert [job for job, _ in load(write(file, document)).runs()] == [
        PLAN.jobs()[0],
        PLAN.jobs()[3],
    ]


@pytest.mark.parametrize(
    "benchmarks",
    [
        *[[], None, 3, {}, "text", [None], [3], [{}], [FOREIGN]],
        *[[{"extra_info": info}] for info in (None, [NOTES], NOTES, {NOTES: None})],
    ],
    ids=repr,
)
def test_benchmarks_of_somebody_else(file: Path, benchmarks: object):
    document = pytest_document(PLAN) | {"benchmarks": benchmarks}

    expected = "a pytest-benchmark file, but not of tests/benchmarks/test_cells.py"
    assert error_of(write(file, document)) == expected


def test_a_file_that_was_cut_short(file: Path):
    text = json.dumps(pytest_document(PLAN))
    for part in range(20):
        file.write_text(text[: len(text) * part // 20])
        assert error_of(file).startswith("expected a results file of stepbench, in JSON: ")


def test_a_saved_run_without_its_samples(file: Path):
    document = pytest_document(PLAN)
    del document["benchmarks"][2]["stats"]["data"]

    assert error_of(write(file, document)) == (
        "pytest-benchmark kept no samples: it does with --benchmark-json, and with "
        "--benchmark-save-data beside --benchmark-save"
    )


def notes(document: Document, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["benchmarks"][index]["extra_info"][NOTES]
    return found


def stats(document: Document) -> dict[str, Any]:
    found: dict[str, Any] = document["benchmarks"][0]["stats"]
    return found


def of_all(document: Document, **fields: object) -> None:
    for index in range(len(document["benchmarks"])):
        notes(document, index).update(fields)


DAMAGE: dict[str, Callable[[Document], object]] = {
    "no version": lambda document: document.pop("version"),
    "no statistics": lambda document: document["benchmarks"][0].pop("stats"),
    "statistics that are a number": lambda document: document["benchmarks"][0].update(stats=3),
    "no samples": lambda document: stats(document).update(data=None),
    "a sample too few": lambda document: stats(document)["data"].pop(),
    "a sample too many": lambda document: stats(document)["data"].append(1.0),
    "words for samples": lambda document: stats(document).update(data=["fast"] * 6),
    "lists for samples": lambda document: stats(document).update(data=[[1.0]] * 6),
    "no time at all": lambda document: stats(document).update(data=[0.0] * 6),
    "negative times": lambda document: stats(document).update(data=[-1.0] * 6),
    "endless times": lambda document: stats(document).update(data=[math.inf] * 6),
    "no times": lambda document: stats(document).update(data=[math.nan] * 6),
    "times that are true": lambda document: stats(document).update(data=[True] * 6),
    "notes that are a list": lambda document: document["benchmarks"][0]["extra_info"].update(
        {NOTES: [1]}
    ),
    "notes that are empty": lambda document: notes(document).clear(),
    "a note that is a list": lambda document: notes(document).update(hostname=["a"]),
    "a note that is empty": lambda document: notes(document).update(hostname=""),
    "a note of two lines": lambda document: notes(document).update(hostname="a\nb"),
    "no name": lambda document: notes(document).pop("name"),
    "a name that is not planned": lambda document: notes(document).update(name="v2-9x9/floor"),
    "a name twice": lambda document: notes(document).update(name=notes(document, 1)["name"]),
    "no process": lambda document: notes(document).pop("stepbench_process"),
    "another process": lambda document: notes(document).update(stepbench_process=1),
    "no tokens": lambda document: notes(document).pop("stepbench_tokens_mean"),
    "words for tokens": lambda document: notes(document).update(stepbench_tokens_mean="many"),
    "a date that is none": lambda document: notes(document).update(date="yesterday"),
    "no format": lambda document: notes(document).pop("stepbench_format"),
    "no plan": lambda document: notes(document).pop("stepbench_plan"),
    "a plan that is none": lambda document: of_all(document, stepbench_plan="{}"),
    "two plans": lambda document: notes(document).update(stepbench_plan=make_plan().to_json()),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file(file: Path, kind: str):
    document = pytest_document(PLAN)
    DAMAGE[kind](document)

    no_json = "expected a results file of stepbench, in JSON: "
    begin = no_json if kind in ("endless times", "no times") else "damaged: "
    assert error_of(write(file, document)).startswith(begin)


def test_a_file_of_a_later_version(file: Path):
    document = pytest_document(PLAN)
    of_all(document, stepbench_format=3)

    expected = "written by a later stepbench: format 3, this one reads 2"
    assert error_of(write(file, document)) == expected


def test_nothing_is_carried_on_with_in_it(file: Path):
    results = load(write(file, pytest_document(PLAN)))

    with pytest.raises(InputError) as caught:
        check_same_machine(results)
    assert str(caught.value) == (
        f"{file}: written by pytest-benchmark 5.3.1: only a measurement of `stepbench speedup` "
        "can be carried on with"
    )


@pytest.mark.parametrize("document", [None, [], 3, "benchmarks machine_info", {"benchmarks": []}])
def test_other_documents_are_not_taken_for_one(document: object):
    assert not is_pytest_benchmark(document)


def test_runs_of_two_machines_are_not_put_into_one_table(tmp_path: Path):
    document = pytest_document(make_plan())
    document["benchmarks"][0]["extra_info"]["stepbench"]["hostname"] = "another"
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(document))

    with pytest.raises(InputError, match=r"bench\.json: it mixes runs of several machines"):
        load(file)
