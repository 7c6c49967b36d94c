"""``harness.speedup.file.load``: whatever the file, a result or one clear line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyperf
import pytest

from harness.speedup.file import FORMAT, ResultsWriter, load
from stepbench_core.errors import InputError

from ..helpers import make_benchmark, make_plan, write_results

PLAN = make_plan()
Document = dict[str, Any]


def error_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    write_results(path, PLAN)
    return path


@pytest.fixture
def change(file: Path) -> Callable[[Callable[[Document], object]], Path]:
    """Change the good file's document with a function; return the file."""

    def apply(edit: Callable[[Document], object]) -> Path:
        document = json.loads(file.read_text())
        edit(document)
        file.write_text(json.dumps(document))
        return file

    return apply


def test_a_missing_file(tmp_path: Path):
    assert error_of(tmp_path / "missing.json") == "No such file or directory"


def test_a_folder(tmp_path: Path):
    assert error_of(tmp_path) == "Is a directory"


def test_a_binary_file(tmp_path: Path):
    path = tmp_path / "core"
    path.write_bytes(b"\x7fELF\xff\xfe\x00")
    assert error_of(path) == "it is not text, or not in UTF-8"


def test_a_file_that_was_cut_short(file: Path):
    text = file.read_text().rstrip()
    for part in range(20):
        file.write_text(text[: len(text) * part // 20])
        assert error_of(file).startswith("expected a results file of stepbench, in JSON: ")
    file.write_text(text[:-1])
    assert error_of(file).startswith("expected a results file of stepbench, in JSON: ")


@pytest.mark.parametrize(
    "document",
    [
        *[{}, [], 1, None, "text", True, {"version": "1.0"}, {"version": 99, "benchmarks": []}],
        *[{"version": "1.0", "benchmarks": benchmarks} for benchmarks in ([], {}, None, [1], [{}])],
        {"version": "1.0", "benchmarks": [{"runs": []}]},
        {"version": "1.0", "benchmarks": [{"runs": [{"values": ["fast"]}]}]},
        {"version": "1.0", "benchmarks": [{"runs": [{"values": [1.0]}]}]},  # No name.
    ],
    ids=lambda document: json.dumps(document)[:60],
)
def test_foreign_json(tmp_path: Path, document: Any):  # noqa: ANN401
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps(document))
    assert error_of(path).startswith("expected a results file of stepbench, found ")


def test_json_that_is_nested_beyond_reason(tmp_path: Path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    assert error_of(path).endswith(", in JSON: nested too deeply")


def test_a_pyperf_file_of_someone_else(tmp_path: Path):
    path = tmp_path / "pyperf.json"
    run = pyperf.Run([1.0], metadata={"name": "startup"}, collect_metadata=False)
    pyperf.Benchmark([run]).dump(str(path))
    assert error_of(path) == "a pyperf file, but not one that stepbench wrote"


def test_a_pyperf_file_mixed_with_someone_else_s(file: Path, tmp_path: Path):
    run = pyperf.Run([1.0], metadata={"name": "startup"}, collect_metadata=False)
    suite = pyperf.BenchmarkSuite.load(str(file))
    suite.add_benchmark(pyperf.Benchmark([run]))
    mixed = tmp_path / "mixed.json"
    suite.dump(str(mixed))
    assert error_of(mixed) == "a pyperf file, but not one that stepbench wrote"


def test_a_file_of_a_later_version(change: Callable[..., Path]):
    path = change(lambda document: document["metadata"].update(stepbench_format=FORMAT + 1))
    assert error_of(path) == "written by a later stepbench: format 3, this one reads 2"


def test_a_file_without_its_plan(change: Callable[..., Path]):
    path = change(lambda document: document["metadata"].pop("stepbench_plan"))
    assert error_of(path) == "damaged: no 'stepbench_plan'"


@pytest.mark.parametrize("text", ["{", "null", "{}", "no plan"])
def test_a_file_with_a_damaged_plan(change: Callable[..., Path], text: str):
    path = change(lambda document: document["metadata"].update(stepbench_plan=text))
    assert error_of(path).startswith("damaged: not a plan of this version: ")


def test_a_plan_that_could_not_be_carried_out(change: Callable[..., Path]):
    def edit(document: Document) -> None:
        plan = json.loads(document["metadata"]["stepbench_plan"])
        plan["protocol"]["processes"] = "two"
        document["metadata"]["stepbench_plan"] = json.dumps(plan)

    assert error_of(change(edit)).startswith("damaged: ")


@pytest.mark.parametrize(
    "name",
    ["process", "requests_mean", "tokens_first", "tokens_last", "tokens_mean", "load_start"],
)
def test_a_run_without_our_metadata(tmp_path: Path, name: str):
    path = tmp_path / "results.json"
    write_results(path, PLAN, without=f"stepbench_{name}")
    assert error_of(path).startswith("damaged: ")


@pytest.mark.parametrize(
    "name", ["requests_mean", "tokens_first", "tokens_last", "tokens_mean", "load_start"]
)
def test_a_run_with_words_for_numbers(tmp_path: Path, name: str):
    # Read without a word, it would end in a traceback once the table is made.
    path = tmp_path / "results.json"
    write_results(path, PLAN, **{f"stepbench_{name}": "many"})
    assert error_of(path).startswith("damaged: ")


@pytest.mark.parametrize("count", [1, 5, 7])
def test_a_run_with_another_number_of_values_than_planned(tmp_path: Path, count: int):
    path = tmp_path / "results.json"
    write_results(path, PLAN, values=[1.0] * count)
    assert error_of(path) == "damaged: its runs are not those of its plan"


def test_one_short_run_among_good_ones(change: Callable[..., Path]):
    path = change(lambda document: document["benchmarks"][1]["runs"][1]["values"].pop())
    assert error_of(path) == "damaged: its runs are not those of its plan"


def test_no_run_of_the_plan(change: Callable[..., Path]):
    def rename(document: Document) -> None:
        for benchmark in document["benchmarks"]:
            benchmark["metadata"]["name"] += "-renamed"

    assert error_of(change(rename)) == "damaged: its runs are not those of its plan"


def test_an_arm_that_is_gone_does_not_make_old_results_unreadable(tmp_path: Path):
    path = tmp_path / "results.json"
    plan = make_plan("full-copy", "an-arm-of-old")
    write_results(path, plan)
    results = load(path)
    assert results.plan.arms == ("full-copy", "an-arm-of-old")
    assert [job.arm for job, _ in results.runs()] == ["full-copy", "an-arm-of-old"] * 2


def test_an_unfinished_file_is_read(tmp_path: Path):
    path = tmp_path / "results.json"
    job = PLAN.jobs()[2]
    ResultsWriter(path, PLAN, {}).add(make_benchmark(job))
    assert [job for job, _ in load(path).runs()] == [job]


def test_the_samples_of_a_duet_are_named_as_what_they_are(tmp_path: Path):
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({"stepbench_duet_format": 1, "cells": []}))
    assert error_of(path) == "samples of `stepbench compare`, which have no speedup table"
