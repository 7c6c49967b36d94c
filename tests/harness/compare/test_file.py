"""The file of a duet: it holds all that the verdicts rest on, and is JSON that anything reads."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.arms.sources import ArmSource
from harness.compare.duet import CellResult, Duet
from harness.compare.figure import Kind
from harness.compare.file import load_duet, write_duet
from harness.compare.verdict import NOT_MEASURED, Process, Verdict
from harness.stats.estimates import Estimate
from harness.stats.means import Means, Reading
from scenarios.scenario import SteadyDecode, from_dict
from stepbench_core.errors import InputError

A = ArmSource("git:HEAD~1:batched", "batched", "0123456789ab:connector/batched.py", "# old\n")
B = ArmSource("batched", "batched", "connector/batched.py", "# caf\u00e9\n")
FIRST, SECOND = SteadyDecode(requests=2, tokens=64), SteadyDecode(requests=3, tokens=8)
DUET = Duet(
    A,
    B,
    (FIRST, SECOND),
    threshold=0.02,
    seed=3,
    cpus=(0, 1),
    provider="nanobind",
    gc=True,
    is_apart=True,
)

FINISHED = CellResult(
    FIRST,
    Verdict(
        Kind.SLOWER, "", Estimate(1.5, 1.4, 1.6), 0.003, 0.009, Estimate(2.5, 2.4, 2.6), parts=True
    ),
    # Two processes of four copies with two iterations each.
    [
        [[1e-3, 2e-3], [3e-3, 4e-3], [0.1, 0.2], [0.3, 0.4]],
        [[5e-3, 6e-3], [7e-3, 8e-3], [0.5, 0.6], [0.7, 0.8]],
    ],
    [[2, 0, 1, 3], [0, 1, 3, 2]],
    [[[0, 1, 2, 3], [3, 2, 1, 0]], [[1, 0, 2, 3], [1, 3, 2, 0]]],
    [
        Process(
            0.4,
            (0.001, 0.003),
            0.99,
            (1e-3, 2e-3),
            Means(
                Reading(0.9, (0.01,)),
                Reading(0.8, (0.02, 0.03)),
                (2e-3, 5e-3),
                (3e-3, 9e-3),
                (0, 1e-3),
            ),
        )
    ],
    [Process(0.5, (-0.002, 0.0), 0.98, (4e-3, 5e-3))],
    None,
    7.25,
    [0, 1],
    [None, [[0.0, 1e-3]] * 4],
    [[], ["worker"], [], ["pool-1", "worker"]],
)
FAILED = CellResult(
    SECOND,
    Verdict(Kind.INCONCLUSIVE, "cell v2-3x8, process 1: the worker exited with 3"),
    failure="cell v2-3x8, process 1: the worker exited with 3",
    took=0.5,
)


WHERE = {"where": "here", "command": "stepbench compare"}


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"), parse_constant=no_constant)


def test_everything_is_kept(tmp_path: Path):
    path = tmp_path / "x.json"

    write_duet(path, DUET, [FINISHED], {"revision": "0123", "where": "here"})

    assert read(path) == {
        "stepbench_duet_format": 7,
        "metadata": {"revision": "0123", "where": "here"},
        "a": {
            "spec": "git:HEAD~1:batched",
            "name": "batched",
            "filename": "0123456789ab:connector/batched.py",
            "text": "# old\n",
            "package": "connector",
            "origin": "",
        },
        "b": {
            "spec": "batched",
            "name": "batched",
            "filename": "connector/batched.py",
            "text": "# caf\u00e9\n",
            "package": "connector",
            "origin": "",
        },
        "threshold": 0.02,
        "comparisons": 2,
        "seconds": 10.0,
        "seed": 3,
        "cpus": [0, 1],
        "provider": "nanobind",
        "gc": True,
        "apart": True,
        "subject": None,
        "scenarios": [json.loads(json.dumps(cell.to_dict())) for cell in (FIRST, SECOND)],
        "cells": [
            {
                "scenario": json.loads(json.dumps(FIRST.to_dict())),
                "verdict": {
                    "kind": "slower",
                    "reason": "",
                    "ratio": {"value": 1.5, "low": 1.4, "high": 1.6},
                    "reach": 0.003,
                    "detectable": 0.009,
                    "mean": {"value": 2.5, "low": 2.4, "high": 2.6},
                    "parts": True,
                },
                "first_run": [
                    {
                        "effect": 0.4,
                        "controls": [0.001, 0.003],
                        "cpu_share": 0.99,
                        "seconds": [1e-3, 2e-3],
                        "means": {
                            "agreed": {"effect": 0.9, "controls": [0.01]},
                            "every": {"effect": 0.8, "controls": [0.02, 0.03]},
                            "seconds": [2e-3, 5e-3],
                            "tail": [3e-3, 9e-3],
                            "background": [0, 1e-3],
                        },
                        "is_restless": False,
                    }
                ],
                "second_run": [
                    {
                        "effect": 0.5,
                        "controls": [-0.002, 0.0],
                        "cpu_share": 0.98,
                        "seconds": [4e-3, 5e-3],
                        "means": None,
                        "is_restless": False,
                    }
                ],
                "samples": FINISHED.samples,
                "background": FINISHED.background,
                "alive": FINISHED.alive,
                "cores": [0, 1],
                "imports": FINISHED.imports,
                "orders": FINISHED.orders,
                "failure": None,
                "took": 7.25,
            }
        ],
    }


def test_a_scenario_can_be_read_back(tmp_path: Path):
    write_duet(tmp_path / "x.json", DUET, [FINISHED, FAILED], {})

    cells = read(tmp_path / "x.json")["cells"]
    assert [from_dict(cell["scenario"]) for cell in cells] == [FIRST, SECOND]


@pytest.mark.parametrize("result", [FAILED, CellResult(SECOND, NOT_MEASURED)])
def test_a_cell_without_a_figure_has_null_in_its_place(tmp_path: Path, result: CellResult):
    write_duet(tmp_path / "x.json", DUET, [result], {})

    (cell,) = read(tmp_path / "x.json")["cells"]
    assert cell["failure"] == result.failure
    assert cell["verdict"] == {
        "kind": "inconclusive",
        "reason": result.verdict.reason,
        "ratio": None,
        "reach": None,
        "detectable": None,
        "mean": None,
        "parts": False,
    }
    assert (cell["first_run"], cell["second_run"], cell["samples"]) == ([], [], [])


def test_the_file_before_is_replaced_at_once(tmp_path: Path):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], {})
    write_duet(path, DUET, [FINISHED, FINISHED], {})

    assert len(read(path)["cells"]) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_what_was_there_stays_if_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], {})
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"x\.json: cannot be written: No space left on device$"):
        write_duet(path, DUET, [FINISHED, FINISHED], {})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


def test_what_was_written_is_read_back(tmp_path: Path):
    path = tmp_path / "x.json"
    metadata = {"where": "here", "command": "stepbench compare"}
    write_duet(path, DUET, [FINISHED, FAILED], metadata)

    found = load_duet(path, read(path))

    # One comparison a cell is what the rule makes of it.
    assert found.duet == replace(DUET, comparisons=2)
    assert (found.path, found.metadata) == (path, metadata)
    finished, failed = found.results
    assert finished == FINISHED
    # What is no number is equal to nothing.
    assert math.isnan(failed.verdict.reach)
    assert math.isnan(failed.verdict.detectable)
    assert (failed.failure, failed.verdict.ratio) == (FAILED.failure, None)


@pytest.mark.parametrize(
    ("where", "instead"),
    [
        (("a",), {}),
        (("scenarios",), [{"kind": "steady"}]),
        (("threshold",), "0.5%"),
        (("cells",), []),
        (("cells",), None),
        (("metadata", "command"), None),
        (("comparisons",), "x"),
        (("seed",), "0"),
        (("cpus", 0), 1.5),
        (("provider",), None),
        (("a", "spec"), 5),
        (("cells", 0, "failure"), 1),
        (("metadata",), {}),
        (("cells", 0, "samples", 0), [[1e-3]]),
        (("cells", 0, "samples", 0, 0, 0), "1"),
        (("cells", 0, "samples", 0, 0, 0), math.inf),
        (("cells", 0, "verdict", "kind"), "red"),
        (("cells", 0, "verdict", "ratio"), {"value": 1.0}),
        (("cells", 0, "first_run", 0, "effect"), None),
        (("cells", 0, "first_run", 0, "seconds"), [1e-3]),
        (("cells", 0, "first_run", 0, "controls"), [0.1]),
        (("cells", 0, "took"), "long"),
        (("cells", 0, "cores", 0), "0"),
        (("cells", 0, "background"), []),
        (("cells", 0, "background", 1), [[0.0]]),
        (("cells", 0, "alive"), [[]]),
        (("cells", 0, "alive", 0), [1]),
        (("cells", 0, "first_run", 0, "means", "agreed"), None),
        (("cells", 0, "first_run", 0, "means", "tail"), [1e-3]),
        (("cells", 0, "verdict", "mean"), 2.5),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, where: tuple[str | int, ...], instead: object):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], WHERE)
    document: Any = read(path)
    inner = document
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = instead

    with pytest.raises(InputError, match=r"x\.json: damaged: "):
        load_duet(path, document)


def test_a_file_of_another_version_is_refused(tmp_path: Path):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], WHERE)

    with pytest.raises(InputError, match="format 4, this one reads 7"):
        load_duet(path, read(path) | {"stepbench_duet_format": 4})


def test_a_file_of_the_format_before_is_read_as_of_copies_that_share_a_process(tmp_path: Path):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], {"where": "here", "command": "x"})
    before = read(path) | {"stepbench_duet_format": 5}
    del before["apart"]

    assert load_duet(path, read(path)).duet.is_apart is True
    assert load_duet(path, before).duet.is_apart is False


def test_the_reach_of_a_control_is_read_by_the_name_that_it_had_before(tmp_path: Path):
    path = tmp_path / "x.json"
    write_duet(path, DUET, [FINISHED], WHERE)
    before = read(path) | {"stepbench_duet_format": 6}
    verdict = before["cells"][0]["verdict"]
    verdict["floor"] = verdict.pop("reach")

    assert load_duet(path, before).results[0].verdict == FINISHED.verdict
