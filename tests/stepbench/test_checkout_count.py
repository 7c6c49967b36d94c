"""``count`` and ``list`` with arms of a checkout that the test makes."""

import hashlib
import json
from pathlib import Path

import pytest

from scenarios.scenario import SteadyDecode
from stepbench import count as count_command

from .checkouts import (
    AFTER,
    BASE,
    NEW_OUTPUT,
    OLDER_PLACE,
    PLACE,
    RAISES,
    WORK,
    Checkout,
    changed,
    from_base,
    from_work_tree,
    line_of,
)
from .compare_workers import strictly
from .conftest import Run, assert_refused

pytestmark = pytest.mark.thorough

SMALL = ("--cells", "2x8", "--tokens-per-block", "4", "--jobs", "1", "-q")


def test_cells_that_an_older_revision_cannot_run_are_left_out(
    run_here: Run, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
):
    checkout.commit_older()
    cells = [
        SteadyDecode(requests=2, tokens=8, tokens_per_block=4, manager=manager)
        for manager in ("v2", "v1")
    ]
    monkeypatch.setattr(count_command, "selected_scenarios", lambda _options: tuple(cells))

    ran = run_here("count", "--arms", f"{WORK},full-copy", "--jobs", "1", "-q", "--json")

    assert ran.code == 0
    assert ran.err == (
        f"stepbench: left out v2-2x8-block=4: {WORK} lacks the V2 KV cache manager\n"
    )
    work = json.loads(ran.out)["work"]
    assert [(row["cell"], row["arm"]) for row in work] == [
        ("v1-2x8-block=4", WORK),
        ("v1-2x8-block=4", "full-copy"),
    ]


@pytest.mark.parametrize("command", ["count", "speedup", "compare"])
def test_no_cell_that_an_older_revision_can_run(run_here: Run, checkout: Checkout, command: str):
    checkout.commit_older()
    arms = (WORK, BASE) if command == "compare" else ("--arms", f"{WORK},{BASE}")

    ran = run_here(command, *arms, "--cells", "2x64", "-q")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"stepbench: left out v2-2x64: {WORK} lacks the V2 KV cache manager",
        "stepbench: error: no cell is left that all arms can run: "
        f"{WORK} lacks the V2 KV cache manager",
    ]
    assert [path.name for path in Path().iterdir()] == ["engine"]


def test_count_counts_what_both_revisions_copy(run_here: Run, checkout: Checkout):
    ran = run_here("count", "--arms", f"{BASE},{WORK},full-copy,incremental", *SMALL, "--json")

    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert document["origins"] == {
        BASE: from_base(checkout).partition(": ")[2],
        WORK: from_work_tree(checkout, "unchanged", AFTER).partition(": ")[2],
    }
    counts = {row["arm"]: row["per_iteration"] for row in document["work"]}
    assert list(counts) == [BASE, WORK, "full-copy", "incremental"]
    tokens = [row["tokens"] for row in counts.values()]
    assert tokens == [23, 2, 23, 2]
    assert len({row["page_indices"] for row in counts.values()}) == 1
    # The bytecodes are the checkout's own, and not those of an arm of this project.
    assert counts[BASE]["bytecodes"] != counts["full-copy"]["bytecodes"]


def test_the_table_of_what_is_counted_says_where_the_arms_are_from(
    run_here: Run, checkout: Checkout
):
    ran = run_here("count", "--arms", f"{BASE},{WORK}", *SMALL, "--format", "markdown")

    assert f"| 2 | 8 | block=4 | `{BASE}` | " in ran.out
    assert f"|  |  |  | `{WORK}` | " in ran.out
    origins = f"{from_base(checkout)}. {from_work_tree(checkout, 'unchanged', AFTER)}."
    assert f" (protocol 5). {origins} Repeat with `stepbench count --arms " in ran.out


@pytest.mark.parametrize("option", ["--check", "--update"])
def test_a_budget_holds_no_arm_of_a_checkout(run_here: Run, checkout: Checkout, option: str):
    assert checkout.head
    ran = run_here("count", "--arms", f"incremental,{WORK}", *SMALL, option)

    assert_refused(ran, "stepbench: error: a budget holds arms of this project alone")
    assert not Path("budgets.toml").exists()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_count_shows_what_the_measured_code_raised(run_here: Run, checkout: Checkout, jobs: str):
    checkout.write(RAISES)

    ran = run_here("count", "--arms", f"{BASE},{WORK}", "--cells", "2x64,2x8", "-q", "--jobs", jobs)

    assert (ran.code, ran.out) == (1, "")
    first, *_, last, error = ran.err.splitlines()
    assert first == "stepbench: Traceback (most recent call last):"
    where = (
        f'  File "{Path("engine", PLACE)}", line {line_of(RAISES, "raise IndexError")}, in report\n'
    )
    assert where in ran.err
    assert "/harness/" not in ran.err
    assert last == "IndexError: past | the end"
    assert error == (
        f"stepbench: error: cell v2-2x64, arm {WORK}, iteration 1: IndexError: past | the end"
    )


def test_what_the_measured_code_prints_is_no_part_of_the_result(run_here: Run, checkout: Checkout):
    text = changed(AFTER, NEW_OUTPUT, "        print('built')\n" + NEW_OUTPUT)
    checkout.write("print('imported')\n" + text)

    for command in (
        ("count", "--arms", WORK, *SMALL, "--json"),
        ("verify", WORK, "--runs", "2", "--jobs", "1", "-q", "--json"),
        ("list", "--arm", WORK, "--json"),
    ):
        ran = run_here(*command)
        assert ran.code == 0
        strictly(ran.out)
    # Each text of a module is loaded once.
    assert ran.err in ("", "imported\n")


def test_the_two_modules_may_lie_at_different_places(run_here: Run, checkout: Checkout):
    checkout.commit_older()

    document = json.loads(run_here("list", "--arm", WORK, "--json").out)

    assert document["file"] == f"engine/{OLDER_PLACE}"
    assert document["lacks"] == [
        *("attention data parallelism", "knowledge of requests being loaded", "reset_request"),
        *("several layer groups", "the V2 KV cache manager"),
    ]
    points = document["entry_points"]
    manager = "KvCacheConnectorSchedulerOutputManager"
    assert points[f"{manager}.build_scheduler_output"] == "(self, batch, manager)"
    assert points[f"{manager}.reset_request"] is None


def test_list_shows_what_a_module_is_made_of(run_here: Run, checkout: Checkout):
    before = checkout.state()

    ran = run_here("list", "--arm", WORK)

    where = "tensorrt_llm.bindings"
    manager = "KvCacheConnectorSchedulerOutputManager"
    digest = hashlib.sha256(AFTER.encode()).hexdigest()
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        WORK,
        f"  from engine/{PLACE}",
        f"  work tree of commit {checkout.head}, the module unchanged",
        f"  sha256 {digest}",
        "",
        "Imports, provided:",
        f"  {where}.LlmRequestState (line 7)",
        f"  {where}.internal.batch_manager.LlmRequest (line 8)",
        "  ..llm_request.get_draft_token_length (line 10)",
        "  ..kv_cache.kv_cache_manager_v2.KVCacheManagerV2 (line 41)",
        "",
        "Imports, placeholder:",
        "  torch (line 4)",
        "  tensorrt_llm._utils.mpi_rank (line 6)",
        "",
        "Found:",
        f"  {manager}(*, enable_attention_dp=False)",
        f"  {manager}.build_scheduler_output(self, batch, new_async_requests, manager)",
        f"  {manager}.record_new_matched_tokens(self, request, num_new_matched_tokens)",
        f"  {manager}.reset_request(self, request_id)",
        "  KvCacheConnectorSchedulerOutputRequest: missing",
    ]
    document = json.loads(run_here("list", "--arm", BASE, "--json").out)
    assert (document["arm"], document["origin"]) == (BASE, f"commit {checkout.base}")
    assert document["lacks"] == []
    assert document["imports"][0] == {"name": "torch", "line": 4, "answer": "placeholder"}
    assert checkout.state() == before
