"""``speedup`` with arms of a checkout that the test makes, and carrying on with it."""

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from harness.speedup.plan import Plan

from .checkouts import (
    AFTER,
    BASE,
    BEFORE,
    DIFFERS,
    RAISES,
    WORK,
    Checkout,
    changed,
    from_base,
    from_work_tree,
    git,
)
from .conftest import Run, assert_refused, stored_runs

pytestmark = pytest.mark.thorough

ARMS = f"{BASE},{WORK},page-range"
CELL = ("--cells", "2x64", "--quick", "--cpu", "none", "-q", "-o", "x.json")
# A single process of each arm.
ONE = ("speedup", "--arms", f"{BASE},{WORK}", *CELL, "--processes", "1")


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("x.json").read_text())
    return found


def drop_the_last_arm() -> None:
    """Take an arm out of the file, as if it had not come to it."""
    document = stored()
    document["benchmarks"].pop()
    Path("x.json").write_text(json.dumps(document))


def test_the_table_of_two_revisions_and_an_arm_of_this_project(run_here: Run, checkout: Checkout):
    before = checkout.state()

    ran = run_here("speedup", "--arms", ARMS, *CELL, "--format", "markdown")

    assert (ran.code, ran.err) == (0, "")
    head, _, *rows = [line for line in ran.out.splitlines() if line.startswith("|")]
    assert head == "| Requests | Tokens per request | Arm | Time | Speedup (95 % interval) |"
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| 2", "64", f"`{BASE}`"],
        ["| ", "", f"`{WORK}`"],
        ["| ", "", "page-range"],
    ]
    assert rows[0].endswith(" us | 1 |")
    origins = f"{from_base(checkout)}. {from_work_tree(checkout, 'unchanged', AFTER)}."
    same = "Before that, the arms gave the same outputs in 20 random runs."
    assert f" MB. {origins} {same} Each arm of each cell ran in " in ran.out
    assert run_here("report", "x.json", "--format", "markdown").out == ran.out
    assert checkout.state() == before


def test_the_results_file_holds_what_the_arms_were(run_here: Run, checkout: Checkout):
    assert run_here(*ONE).code == 0

    metadata = stored()["metadata"]
    assert json.loads(metadata["stepbench_arms"]) == {
        BASE: from_base(checkout).partition(": ")[2],
        WORK: from_work_tree(checkout, "unchanged", AFTER).partition(": ")[2],
    }
    plan = Plan.from_json(metadata["stepbench_plan"])
    assert plan.arms == (BASE, WORK)
    assert plan.sources == {
        BASE: hashlib.sha256(BEFORE.encode()).hexdigest(),
        WORK: hashlib.sha256(AFTER.encode()).hexdigest(),
    }
    # It did take part by that name, and no arm of this project.
    names = {f"v2-2x64/{BASE}", f"v2-2x64/{WORK}"}
    assert {name for name, _ in stored_runs("x.json")} == names
    (cell,) = json.loads(run_here("report", "x.json", "--format", "json").out)["results"][0][
        "cells"
    ]
    assert list(cell["seconds"]) == [BASE, WORK]
    rows = csv.DictReader(io.StringIO(run_here("report", "x.json", "--format", "csv").out))
    assert [row["arm"] for row in rows] == [BASE, WORK]


def test_what_is_stored_can_be_reported_without_the_checkout(run_here: Run, checkout: Checkout):
    printed = run_here(*ONE).out
    checkout.folder.rename("elsewhere")

    assert run_here("report", "x.json").out == printed
    ran = run_here("speedup", "--resume", "x.json")
    assert_refused(ran, f"arm '{BASE}': engine is no folder")


def test_the_measured_code_is_that_of_the_revision(run_here: Run, checkout: Checkout):
    """A revision in which a worker of this arm can do nothing: the others are measured."""
    fails = "        import sys\n        sys.exit('of this revision')\n"
    build = "    def build_scheduler_output(self, batch, new_async_requests, manager)"
    body = f"{build} -> SchedulerOutput:\n"
    checkout.write(changed(AFTER, body, body + fails))

    ran = run_here(*ONE, "--no-verify", "--format", "markdown")

    assert ran.code == 1
    assert ran.err == (
        f"stepbench: cell v2-2x64, arm {WORK}, process 1: the worker failed: of this revision\n"
    )
    assert {name for name, _ in stored_runs("x.json")} == {f"v2-2x64/{BASE}"}
    assert " That the arms give the same outputs was not verified. " in ran.out


@pytest.mark.parametrize("text", [DIFFERS, RAISES], ids=["differs", "raises"])
def test_arms_that_differ_are_not_measured(run_here: Run, checkout: Checkout, text: str):
    checkout.write(text)

    ran = run_here(*ONE)

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{WORK}` departs from `{BASE}` in run ")
    assert ran.out.endswith(f"\n{from_work_tree(checkout, 'changed', text)}.\n")
    assert ran.err == "stepbench: the arms differ, so they are not measured; --no-verify insists\n"
    assert not Path("x.json").exists()


def test_a_changed_work_tree_is_not_carried_on_with(run_here: Run, checkout: Checkout):
    assert run_here(*ONE).code == 0
    drop_the_last_arm()
    before = Path("x.json").read_bytes()
    checkout.write(AFTER + "# A note.\n")

    ran = run_here("speedup", "--resume", "x.json", "-q")

    assert_refused(ran, code=4)
    assert ran.err == f"stepbench: error: x.json: the source of {WORK} has changed since\n"
    assert Path("x.json").read_bytes() == before


def test_a_revision_that_moved_is_not_carried_on_with(run_here: Run, checkout: Checkout):
    assert run_here(*ONE).code == 0
    drop_the_last_arm()
    git(checkout.folder, "tag", "--force", "base", "HEAD")

    ran = run_here("speedup", "--resume", "x.json", "-q")

    assert_refused(ran, f"x.json: the source of {BASE} has changed since\n", code=4)


def test_the_same_text_at_another_commit_is_carried_on_with(run_here: Run, checkout: Checkout):
    assert run_here(*ONE).code == 0
    drop_the_last_arm()
    (checkout.folder / "note.txt").write_text("")
    first, second = checkout.head, checkout.commit(AFTER)

    ran = run_here("speedup", "--resume", "x.json", "-q", "--format", "markdown")

    assert (ran.code, ran.err) == (0, "")
    assert len(stored_runs("x.json")) == 2
    for head in (first, second):
        assert f" `{WORK}`: work tree of commit {head}, the module unchanged, sha256 " in ran.out
    assert ran.out.count(f" {from_base(checkout)}.") == 1


def test_what_was_not_compared_is_said_below_the_table(run_here: Run, checkout: Checkout):
    checkout.commit_older()

    ran = run_here(
        *("speedup", "--arms", f"{WORK},full-copy", *CELL, "--processes", "1"),
        *("--manager", "v1", "--format", "markdown"),
    )

    assert (ran.code, ran.err) == (0, "")
    same = "Before that, the arms gave the same outputs in 20 random runs. "
    lacks = "Not compared, since one side lacks them: attention_dp_rank, block_hashes, cache_salt, "
    assert f" {same}{lacks}" in ran.out
    assert " Left out of 20 runs: what needs the V2 KV cache manager, which an arm " in ran.out
