"""``compare`` and ``verify`` with arms of a checkout that the test makes."""

import json
import re
import sys
from pathlib import Path

import pytest

from .checkouts import (
    AFTER,
    BASE,
    BEFORE,
    DIFFERS,
    NEW_OUTPUT,
    PLACE,
    RAISES,
    WORK,
    Checkout,
    changed,
    from_base,
    from_work_tree,
    line_of,
)
from .compare_workers import Workers, strictly
from .conftest import Run

pytestmark = pytest.mark.thorough

DUET = ("--cells", "2x64", "--cpu", "none", "-q", "-o", "x.json")


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def test_compare_says_where_both_arms_are_from(run_here: Run, checkout: Checkout, workers: Workers):
    workers.effects["v2-2x64"] = -0.02
    before = checkout.state()

    ran = run_here("compare", BASE, WORK, *DUET)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"`{WORK}` is faster than `{BASE}` (1 cell: 1 faster).\n\n")
    # Not as TensorRT-LLM@v1.2.0 would be on GitHub, an address to write to.
    assert f"| Requests | Tokens per request | `{BASE}` | `{WORK}` | Ratio " in ran.out
    assert (
        "; outputs verified in a few random runs first; "
        f"{from_base(checkout)}; {from_work_tree(checkout, 'unchanged', AFTER)}. Seed 0."
    ) in ran.out
    assert {tuple(arm["text"] for arm in job["sources"]) for job in workers.jobs} == {
        (BEFORE, AFTER, BEFORE, AFTER)
    }
    assert checkout.state() == before


def test_compare_says_that_the_module_of_the_work_tree_changed(
    run_here: Run, checkout: Checkout, workers: Workers
):
    text = AFTER + "# A note.\n"
    checkout.write(text)

    ran = run_here("compare", BASE, WORK, *DUET)

    assert f"; {from_work_tree(checkout, 'changed', text)}. Seed 0." in ran.out
    assert workers.jobs[0]["sources"][1]["text"] == text


def test_compare_does_not_time_revisions_that_differ(
    run_here: Run, checkout: Checkout, workers: Workers
):
    checkout.write(DIFFERS)

    ran = run_here("compare", BASE, WORK, *DUET)

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{WORK}` departs from `{BASE}` in run ")
    assert f"\n{from_work_tree(checkout, 'changed', DIFFERS)}.\n" in ran.out
    assert workers.jobs == []
    assert not Path("x.json").exists()


def test_compare_with_real_workers(run_here: Run, checkout: Checkout):
    before = checkout.state()

    ran = run_here(
        *("compare", BASE, WORK, "--cells", "1x8", "--cpu", "none", "--seconds", "0.1"),
        *("--threshold", "50%", "--json", "-q", "-o", "x.json"),
    )

    document = strictly(ran.out)
    assert (document["a"], document["b"], ran.err) == (BASE, WORK, "")
    # Inconclusive where something else has the core.
    verdicts = {0: ("no difference", "faster"), 3: ("inconclusive",)}
    assert document["verdict"] in verdicts[ran.code]
    (cell,) = strictly(Path("x.json").read_text())["cells"]
    assert [[len(arm) for arm in process] for process in cell["samples"]] == [[152] * 4] * 6
    assert checkout.state() == before


def test_verify_says_same_and_of_what(run_here: Run, checkout: Checkout):
    run_here("list")
    before, modules = checkout.state(), set(sys.modules)

    ran = run_here("verify", WORK, "--against", BASE, "--runs", "6", "--jobs", "1", "-q")

    assert (ran.code, ran.err) == (0, "")
    first, *rest = ran.out.splitlines()
    same = f"Same: `{WORK}` gave the outputs of `{BASE}`, field by field, in 6 random runs with "
    assert first.startswith(same)
    assert rest == [
        f"{from_base(checkout)}.",
        f"{from_work_tree(checkout, 'unchanged', AFTER)}.",
    ]
    assert checkout.state() == before
    # Nothing under a name that others import.
    added = {name.partition(".")[0] for name in set(sys.modules) - modules}
    added -= {name for name in added if name.startswith("_stepbench_source_")}
    assert added <= {*sys.stdlib_module_names, "harness", "reports", "stepbench", "stubs"}


def test_verify_in_other_processes_prints_the_same(run_here: Run, checkout: Checkout):
    assert checkout.head
    here, there = (
        run_here("verify", WORK, "--against", BASE, "--runs", "30", "--jobs", jobs, "-q")
        for jobs in ("1", "2")
    )

    assert here == there
    assert here.code == 0


def test_verify_agrees_with_the_arms_of_this_project(run_here: Run, checkout: Checkout):
    assert checkout.head
    ran = run_here("verify", BASE, WORK, "page-range", "--runs", "10", "--jobs", "1", "-q")

    assert ran.code == 0
    assert ran.out.startswith(f"Same: `{BASE}`, `{WORK}`, `page-range` gave the outputs of `full-")


def test_verify_shows_the_operations_that_lead_to_a_difference(run_here: Run, checkout: Checkout):
    checkout.write(DIFFERS)
    arguments = ("verify", WORK, "--against", BASE, "--jobs", "1", "-q")

    ran = run_here(*arguments, "--runs", "30")

    lines = ran.out.splitlines()
    assert ran.code == 1
    assert lines[0].startswith(f"Different: `{WORK}` departs from `{BASE}` in run ")
    assert lines[2].startswith("Shortest operation list (")
    # A request has draft tokens from the beginning, or is given some.
    operations = [line.strip().split(". ")[-1] for line in lines]
    assert any(re.match(r"draft\(|join\(\d+, \d+, [1-3],", operation) for operation in operations)
    (field,) = [line for line in lines if line.startswith("After report ")]
    assert field.endswith(".num_scheduled_tokens:")
    assert not any("Traceback" in line for line in lines)
    # What it says to repeat gives it again.
    (repeat,) = [line for line in lines if line.startswith("Repeat with ")]
    again = run_here(*repeat.split("`")[1].split()[1:], "--jobs", "1", "-q", "--json")
    difference = json.loads(again.out)["difference"]
    assert (again.code, difference["arm"], difference["traceback"]) == (1, WORK, None)
    assert difference["field"] in field


def test_verify_shows_what_the_measured_code_raised(run_here: Run, checkout: Checkout):
    checkout.write(RAISES)
    file = Path("engine", PLACE)

    ran = run_here("verify", WORK, "--against", BASE, "--runs", "5", "--jobs", "1", "-q")

    assert (ran.code, ran.err) == (1, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"Different: `{WORK}` departs from `{BASE}` in run 0 of seed 0."
    begin = next(index for index, line in enumerate(lines) if line.startswith("After report "))
    assert lines[begin - 1].endswith(". report()")
    assert lines[begin].endswith(", field exception:")
    assert lines[begin + 2] == f"  {WORK}:      IndexError('past | the end')"
    called = line_of(RAISES, ".report(req, manager)", 2)
    raised = line_of(RAISES, "raise IndexError")
    trace = [line.strip() for line in lines[begin + 3 : -3]]
    # From the arm's own code on, and nothing of what calls it.
    assert trace[:2] == [
        "Traceback (most recent call last):",
        f'File "{file}", line {called}, in build_scheduler_output',
    ]
    assert trace[-3:] == [
        f'File "{file}", line {raised}, in report',
        "raise IndexError('past | the end')",
        "IndexError: past | the end",
    ]


def test_verify_shows_what_the_arm_raised_that_should_be_right(run_here: Run, checkout: Checkout):
    checkout.commit(RAISES)
    checkout.write(AFTER)
    against = f"{WORK}@HEAD"

    ran = run_here("verify", WORK, "--against", against, "--runs", "5", "--jobs", "1", "-q")

    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith(
        f"Failed: `{against}`, which should be right, raised an exception in run 0 of seed 0.\n"
    )
    assert "\n    IndexError: past | the end\n" in ran.out


def test_an_older_revision_is_compared_in_what_it_has(run_here: Run, checkout: Checkout):
    checkout.commit_older()
    checkout.write(AFTER)
    older = f"{WORK}@HEAD"

    ran = run_here("verify", WORK, "--against", older, "--runs", "20", "--jobs", "1", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Same: `{WORK}` gave the outputs of `{older}`, ")
    assert (
        "\nNot compared, since one side lacks them: attention_dp_rank, block_hashes, cache_salt, "
        "computed_position, new_block_ids_by_layer_group, num_scheduled_tokens, priorities.\n"
    ) in ran.out
    left_out = [line for line in ran.out.splitlines() if line.startswith("Left out of ")]
    assert [line.split(": ")[1] for line in left_out] == [
        "what needs attention data parallelism, which an arm lacks.",
        "what needs knowledge of requests being loaded, which an arm lacks.",
        "what needs reset_request, which an arm lacks.",
        "what needs several layer groups, which an arm lacks.",
        "what needs the V2 KV cache manager, which an arm lacks.",
    ]
    document = json.loads(
        run_here("verify", WORK, "--against", older, "--run", "0", "-q", "--json").out
    )
    assert document["same"] is True
    assert set(document["origins"]) == {WORK, older}


def test_two_arms_of_one_checkout_share_no_state(run_here: Run, checkout: Checkout):
    """Both count their calls in a variable of the module, and report it."""
    counted = "        output.attention_dp_rank = len(CALLS)\n        return output\n"
    counting = changed(AFTER, NEW_OUTPUT, "        CALLS.append(0)\n" + NEW_OUTPUT)
    counting = changed(counting, "        return output\n", counted)
    checkout.commit("CALLS = []\n\n\n" + counting)
    checkout.write("CALLS = []\n\n\n\n" + counting)

    ran = run_here("verify", WORK, "--against", f"{WORK}@HEAD", "--runs", "3", "--jobs", "1", "-q")

    assert ran.out.startswith("Same: ")
    assert ran.code == 0
