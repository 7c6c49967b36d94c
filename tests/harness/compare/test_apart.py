"""A duet whose copies have processes of their own, on a tiny cell, really run."""

import json
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness.arms.sources import ArmSource, find_source
from harness.compare.duet import Duet
from harness.compare.figure import Kind
from harness.compare.run import compare_cell
from harness.system.cores import allowed_cpus
from harness.system.worker_process import hash_seed, run_child
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import LostWorkerError, NotRunnableError

from .test_worker import KEYS, read, shape, subject, ticking

pytestmark = pytest.mark.usefixtures("no_child_left")

CELL = SteadyDecode(requests=2, tokens=40)


def lead(*specs: str, **changed: object) -> dict[str, Any]:
    """Run a group with these copies and return its result."""
    job = {
        "what": "cell x, process 1",
        "sources": [asdict(find_source(spec)) for spec in specs],
        "scenario": CELL.to_dict(),
        "seed": "0",
        "hash_seed": hash_seed(0, 0),
        "cpu": None,
        "provider": "python",
        "warmups": 10,
        "least": 16,
        "most": 16,
        "seconds": 1e9,
        "gc": False,
        "limit": 30.0,
        **changed,
    }
    command = [sys.executable, "-P", "-m", "harness.compare.apart_leader"]
    return json.loads(run_child("cell x", command, hash_seed(0, 0), json.dumps(job), 60))


def duet(a: ArmSource, b: ArmSource) -> Duet:
    return Duet(a, b, (CELL,), seconds=0.1, is_apart=True)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    monkeypatch.setenv("STEPBENCH_SUBJECTS", str(folder))
    return folder


def test_a_group_tells_what_a_process_of_a_duet_tells():
    result = lead("full-copy", "incremental", "full-copy", "incremental")

    assert result.keys() == KEYS
    assert shape(result) == [16] * 4
    assert 0 < result["cpu_share"] < 1.5
    assert (result["background"], result["alive"]) == (None, [[]] * 4)
    assert result["is_restless"] is False


def test_each_copy_has_a_process_and_a_world_of_its_own_and_sees_the_same(notes: Path):
    cpu = allowed_cpus()[-1]
    lead(*[subject("looks")] * 4, cpu=cpu, most=16)

    each = []
    files = sorted(notes.glob("*.jsonl"))
    for file in files:
        alone = notes / "alone"
        alone.mkdir()
        file.rename(alone / file.name)
        imports, calls = read(alone)
        alone.rmdir()
        assert len(imports) == 1
        assert imports[0]["hash_seed"] == str(hash_seed(0, 0))
        each.append([only for (only,) in calls])
    assert len(each) == 4
    for steps in zip(*each, strict=True):
        for what in ("tokens", "call"):
            assert all(step[what] == steps[0][what] for step in steps)
    assert len({tuple(calls[0]["objects"]) for calls in each}) > 1
    everything = [step for calls in each for step in calls]
    assert len(everything) == 4 * 26
    assert {(step["collector"], step["frozen"]) for step in everything} == {(False, True)}
    assert {tuple(step["cpus"]) for step in everything} == {(cpu,)}


def test_turns_are_single_steps_in_random_and_balanced_order():
    orders = lead(*["batched"] * 4)["orders"]

    turns = [orders[i : i + 4] for i in range(0, 16, 4)]
    for turn in turns:
        assert all(sorted(place) == [0, 1, 2, 3] for place in zip(*turn, strict=True))
        assert len({pair for order in turn for pair in pairwise(order)}) == 12
    assert len({tuple(map(tuple, turn)) for turn in turns}) > 1


def test_samples_are_those_of_their_copy_in_whatever_order_they_were_set_up():
    orders = set()
    for seed in ("1", "2"):
        result = lead(sources=ticking(1, 2, 4, 8), seed=seed)
        assert result["seconds"] == [[float(step)] * 16 for step in (1, 2, 4, 8)]
        orders.add(tuple(result["imports"]))
    assert len(orders) == 2


@pytest.mark.parametrize(
    ("steps", "kind", "ratio"),
    [
        ((1000, 1000), Kind.NO_DIFFERENCE, 1.0),
        pytest.param((1000, 1030), Kind.SLOWER, 1.03, marks=pytest.mark.thorough),
    ],
)
def test_arms_that_are_known_to_differ_by_so_much(steps: tuple[int, int], kind: Kind, ratio: float):
    a, b = (ArmSource(**source) for source in ticking(*steps))

    result = compare_cell(duet(a, b), CELL)

    assert result.verdict.kind == kind
    assert result.verdict.ratio is not None
    assert result.verdict.ratio.value == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("crash", "copy 1 of {spec}: the worker failed: RuntimeError: the subject broke"),
        ("leaves", "the worker returned no result"),
    ],
)
def test_a_copy_that_fails_is_named_and_makes_the_cell_inconclusive(name: str, why: str):
    broken = replace(find_source(subject(name)), spec="broken")

    result = compare_cell(duet(find_source("incremental"), broken), CELL)

    assert result.failure is not None
    assert result.failure.startswith("cell v2-2x40, process 1")
    assert why.format(spec="broken") in result.failure
    assert (result.verdict.kind, result.samples) == (Kind.INCONCLUSIVE, [])


def test_a_copy_that_hangs_is_stopped():
    result = lead("incremental", subject("hang"), *["incremental"] * 2, limit=1.0)

    assert result == {
        "failed": f"cell x, process 1, copy 1 of {subject('hang')}: the worker hung: "
        "no result after 1 s"
    }


def test_a_copy_that_is_killed_from_outside_says_nothing_about_its_arm():
    source = find_source(subject("crash"))
    text = source.text.replace(
        'raise RuntimeError("the subject broke")',
        "__import__('os').kill(__import__('os').getpid(), 9)",
    )
    assert text != source.text

    with pytest.raises(LostWorkerError, match=r"copy 1 of .*: the worker was killed by SIGKILL"):
        compare_cell(duet(find_source("incremental"), replace(source, text=text)), CELL)


def test_what_is_not_here_is_refused_as_it_is_elsewhere():
    source = find_source("incremental")
    text = source.text + "\nimport not_there_at_all\n"

    with pytest.raises((NotRunnableError, LostWorkerError), match="not_there_at_all"):
        compare_cell(duet(source, replace(source, text=text)), CELL)
