"""The file of ``stepbench overlap``: it holds all that the figures rest on, and comes back."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.forward.forward_time import ForwardTime
from harness.overlap.figures import figures
from harness.overlap.file import read_overlap, write_overlap
from scenarios.scenario import TraceReplay
from stepbench_core.errors import InputError

from ..overlap_runs import CELL, make_plan, make_run, make_segments

TRACE = TraceReplay(path="/x.csv")
PLAN = make_plan(
    CELL,
    TRACE,
    forward=ForwardTime(model="llama-3.1-70b", gpu="h200", gpus=4),
    other_host=0.25,
    swept=2**20,
    processes=2,
    iterations=3,
    seed=9,
    cpu=1,
)
SEGMENTS = make_segments([0.003, 0.001], 0.004)
ABOUT = {"gpu": "x", "layers": 32, "layers_held": 3, "state_before": {}, "state_after": {"a": "b"}}
RUNS = [
    make_run(CELL, [SEGMENTS, SEGMENTS], device=ABOUT),
    make_run(TRACE, [SEGMENTS], failure="cell x, process 2: hung"),
]
METADATA = {"where": "here.", "command": "stepbench overlap"}


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is no JSON")


def test_it_comes_back(tmp_path: Path):
    path = tmp_path / "x.json"

    write_overlap(path, PLAN, RUNS, METADATA)

    json.loads(path.read_text(), parse_constant=no_constant)
    found = read_overlap(path)
    assert (found.path, found.plan, found.metadata) == (path, PLAN, METADATA)
    assert list(found.runs) == RUNS
    assert list(found.cells) == [figures(PLAN, run) for run in RUNS]


def test_it_is_never_half_there(tmp_path: Path):
    path = tmp_path / "x.json"
    write_overlap(path, PLAN, RUNS, METADATA)
    before = path.read_text()

    with pytest.raises(ValueError, match="JSON compliant"):
        write_overlap(path, PLAN, RUNS, {"where": float("nan")})

    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="cannot be written"):
        write_overlap(tmp_path / "no" / "x.json", PLAN, RUNS, METADATA)


def written(path: Path) -> dict[str, Any]:
    write_overlap(path, PLAN, RUNS, METADATA)
    return json.loads(path.read_text())


DAMAGE = [
    {"metadata": {}},
    {"metadata": None},
    {"arms": [{"spec": "x"}]},
    {"arms": None},
    {"scenarios": [{"kind": "x"}]},
    {"forward": {"model": "gpt"}},
    {"forward": {"x": 1}},
    {"device": "abacus"},
    {"swept": True},
    {"swept": -1},
    {"other_host": "x"},
    {"processes": "x"},
    {"processes": 0},
    {"iterations": "x"},
    {"iterations": True},
    {"seed": -1},
    {"cpu": "0"},
    {"forward": {"seconds": None}},
    {"forward": {"seconds": "x"}},
    {"forward": {"seconds": -1}},
    {"forward": {"seconds": 1, "model": "llama-3.1-8b"}},
    {"forward": {"model": "llama-3.1-8b", "gpus": 0}},
    {"forward": {"model": "llama-3.1-8b", "gpus": "8"}},
    {"cells": []},
    {"cells": None},
    {"cells": [{}]},
    {"cells": [{"scenario": CELL.to_dict(), "processes": [{}], "failure": None}]},
    {"cells": [{"scenario": CELL.to_dict(), "processes": [], "failure": 1}]},
    {
        "cells": [
            {
                "scenario": CELL.to_dict(),
                "processes": [{"segments": SEGMENTS, "cpu_share": "x", "device": {}}],
                "failure": None,
            }
        ]
    },
    {"cells": [{"scenario": CELL.to_dict(), "processes": 1, "failure": None}]},
    {
        "cells": [
            {
                "scenario": CELL.to_dict(),
                "processes": [
                    {"segments": [{**SEGMENTS[0], "arm": 7}], "cpu_share": 1, "device": {}}
                ],
                "failure": None,
            }
        ]
    },
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: dict[str, Any]):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(written(path) | damage))

    with pytest.raises(InputError, match=r"x\.json: damaged: "):
        read_overlap(path)


@pytest.mark.parametrize(
    "about",
    [
        1,
        {"gpu": "x"},
        ABOUT | {"layers": "x"},
        ABOUT | {"layers_held": None},
        ABOUT | {"state_before": "x"},
        ABOUT | {"state_after": None},
    ],
)
def test_what_a_device_says_of_itself_is_checked(tmp_path: Path, about: Any):  # noqa: ANN401
    path = tmp_path / "x.json"
    document = written(path)
    document["cells"][0]["processes"][1]["device"] = about
    path.write_text(json.dumps(document))

    with pytest.raises(InputError, match=r"x\.json: damaged: "):
        read_overlap(path)


@pytest.mark.parametrize("missing", ["arms", "cells", "forward", "metadata", "seed"])
def test_a_file_without_something_is_refused(tmp_path: Path, missing: str):
    path = tmp_path / "x.json"
    document = written(path)
    del document[missing]
    path.write_text(json.dumps(document))

    with pytest.raises(
        InputError, match=rf"x\.json: damaged: object missing required field {missing}"
    ):
        read_overlap(path)


def test_other_files_are_refused(tmp_path: Path):
    path = tmp_path / "x.json"
    with pytest.raises(InputError, match="No such file"):
        read_overlap(path)
    for text, words in (
        ("{", "expected a results file of stepbench, in JSON"),
        ("[]", "not a file of `stepbench overlap`"),
        ("{}", "not a file of `stepbench overlap`"),
        ('{"stepbench_overlap_format": 1}', "written by another stepbench: format 1"),
        ('{"stepbench_overlap_format": true}', "written by another stepbench: format True"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            read_overlap(path)
