"""The command ``stepbench gate`` on changes of a copy of this repository, as CI calls it."""

import ast
import json
from pathlib import Path

import pytest

from .conftest import Ran
from .gate_copy import BASE, CELL, CONFIG, ROOT, Copy

# The copy is made once.
pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("gate")]

ARM = "connector/incremental.py"

# One request in fifty is looked at twice, which finds nothing new the second time.
LAST = "        self.external_loads = {}\n        return scheduler_output\n"
TWO_PERCENT = f"""\
        for req in scheduled_batch.generation_requests[::50]:
            if req.request_id in self.requests:
                self.requests[req.request_id].update_and_build_data(req, kv_cache_manager)
{LAST}"""

# The token copy that ``full-copy`` makes and ``incremental`` does not.
TOKEN_COPY = (
    "        num_tokens = req.get_num_tokens(0)\n",
    "        tokens = req.get_tokens(0)\n        num_tokens = len(tokens)\n",
    "req.get_tokens_range(0, len(self.tokens), num_tokens)",
    "tokens[len(self.tokens) :]",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy.of_this_repository(tmp_path_factory.mktemp("base") / "copy")


@pytest.fixture
def copy(base: Copy, tmp_path: Path) -> Copy:
    return base.again(tmp_path / "copy")


def rows(ran: Ran) -> dict[str, tuple[str, str]]:
    """Outcome and words of each step in the printed table."""
    lines = [line.strip("| ").split(" | ", 2) for line in ran.out.splitlines() if line[:2] == "| "]
    assert lines[0] == ["Step", "Outcome", "What was found"]
    return {step: (outcome, words) for step, outcome, words in lines[2:]}


def outcomes(ran: Ran) -> dict[str, str]:
    return {step: outcome for step, (outcome, _) in rows(ran).items()}


def act(copy: Copy, *lines: str) -> None:
    """Have the arm do something in each of its calls."""
    first = "        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)\n"
    code = "".join(f"        {line}\n" for line in lines)
    copy.edit(ARM, first, code + first)


def test_the_copy_runs_its_own_code(copy: Copy):
    ran = copy.python("-c", "import connector.incremental as arm; print(arm.__file__)")
    assert ran.out == f"{copy.root / ARM}\n"
    assert copy.root != ROOT


def test_nothing_changed_passes_and_is_not_timed(copy: Copy):
    ran = copy.gate()
    assert (ran.code, ran.out.splitlines()[0]) == (0, f"## Gate against `{BASE}`: passed")
    untimed = ("passed", f"its code is that of {BASE}: not timed")
    assert rows(ran) == {
        "equivalence": ("passed", "same outputs in 5 random runs"),
        "exact work": ("passed", "64 figures within their budget"),
        "growth": ("passed", "5 slopes within their limit"),
        "time of incremental": untimed,
        "time of batched": untimed,
    }


def test_a_comment_is_no_change_of_an_arm(copy: Copy):
    copy.edit(ARM, "\nfrom collections import", "\n# A comment.\nfrom collections import")
    ran = copy.gate()
    assert ran.code == 0
    assert rows(ran)["time of incremental"] == (
        "passed",
        f"its code is that of {BASE}: not timed",
    )


def test_what_makes_nothing_slower_is_timed_and_no_regression(copy: Copy):
    copy.edit(ARM, "\nfrom collections import", "\n_UNUSED = None\nfrom collections import")
    ran = copy.gate()
    # A busy machine may leave it open, but must not find anything.
    assert ran.code in (0, 3), ran.out
    name = f"time of incremental, {CELL}"
    assert outcomes(ran)[name] in ("passed", "inconclusive")
    assert set(outcomes(ran)) - {name} == {"equivalence", "exact work", "growth", "time of batched"}


def test_a_slowdown_of_two_percent_is_found(copy: Copy):
    copy.edit(ARM, LAST, TWO_PERCENT)
    # Whoever accepts the work has still to explain the time.
    copy.update()
    for _ in range(3):
        ran = copy.gate()
        if ran.code != 3:
            break
    assert ran.code == 1, ran.out
    # That it was accepted is there to be seen.
    outcome, words = rows(ran)["exact work"]
    assert (outcome, words.partition("; ")[0]) == ("passed", "64 figures within their budget")
    assert words.endswith(" budgets were raised")
    assert f"\n- raised: {CELL}, incremental: native_calls " in ran.out
    outcome, words = rows(ran)[f"time of incremental, {CELL}"]
    assert (outcome, words[:16]) == ("failed", "slower: ratio 1.")


def test_the_token_copy_is_found_before_any_timing(copy: Copy):
    copy.edit(ARM, *TOKEN_COPY)
    copy.edit("stepbench.toml", "runs = 5", "runs = 5\nseconds = 0.1")
    ran = copy.gate()
    assert ran.code == 1
    found = rows(ran)
    assert found["equivalence"][0] == "passed"
    assert found["exact work"][0] == "failed"
    assert (
        f"- over budget: {CELL}, incremental: tokens 26,475 per iteration, budget 50\n" in ran.out
    )
    assert ran.err.index("exact work: ") < ran.err.index("first run")


RENAMED = [
    ("stepbench.toml", ('["v2-50x512"]', '["v2-50x513"]'), "no such cell in scenario small: "),
    ("scenarios/catalogue.py", ("(128, 512)", "(128, 513)"), "no such cell in scenario small: "),
]


@pytest.mark.parametrize(("file", "change", "words"), RENAMED, ids=["configured", "catalogue"])
def test_a_renamed_cell_has_nothing_to_compare_with(
    copy: Copy, file: str, change: tuple[str, str], words: str
):
    copy.edit(file, *change)
    ran = copy.gate()
    assert ran.code == 4
    assert outcomes(ran) == {"cells": "nothing to compare with"}
    assert rows(ran)["cells"][1].startswith(words)


def test_a_cell_that_is_renamed_everywhere_has_no_budget(copy: Copy):
    for file, change, _ in RENAMED:
        copy.edit(file, *change)
    ran = copy.gate()
    assert ran.code == 4
    assert outcomes(ran)["exact work"] == "nothing to compare with"
    assert "- v2-50x513, incremental: no budget\n" in ran.out
    assert "- v2-50x512, incremental: in the budget, but not counted\n" in ran.out


def test_a_wrong_output_is_found_with_what_differs(copy: Copy):
    copy.edit(ARM, "1 + get_draft_token_length(req)", "2 + get_draft_token_length(req)")
    ran = copy.gate()
    assert ran.code == 1
    words = "incremental departs from full-copy"
    assert rows(ran) == {"equivalence": ("failed", words)}
    assert "cached_requests[0].num_scheduled_tokens" in ran.out


def test_a_base_that_does_not_exist_is_nothing_to_compare_with(copy: Copy):
    ran = copy.gate("--base", "no-such-revision")
    assert ran.code == 4
    words = "there is no git revision 'no-such-revision' here"
    assert rows(ran) == {"base": ("nothing to compare with", words)}


def edit_tokens(copy: Copy, by: int) -> None:
    text = (copy.root / "budgets.toml").read_text()
    head, table, rest = text.partition(f"[{CELL}.incremental]\n")
    assert rest.count("\ntokens = 50\n") >= 1
    copy.write(
        "budgets.toml", head + table + rest.replace("tokens = 50\n", f"tokens = {50 + by}\n", 1)
    )


def test_a_budget_that_was_raised_by_hand_is_no_budget(copy: Copy):
    edit_tokens(copy, 1)
    ran = copy.gate()
    assert ran.code == 4
    assert rows(ran)["exact work"] == (
        "nothing to compare with",
        f"budgets.toml differs from {BASE} and is not what a whole `stepbench count --update` "
        "writes: 1 figures are below it",
    )


def test_a_budget_that_was_lowered_by_hand_is_exceeded(copy: Copy):
    edit_tokens(copy, -1)
    ran = copy.gate()
    assert ran.code == 1
    assert f"- over budget: {CELL}, incremental: tokens 50 per iteration, budget 49\n" in ran.out


def test_an_arm_that_the_base_does_not_have_has_nothing_to_compare_with(copy: Copy):
    copy.write("connector/newer.py", (copy.root / ARM).read_text())
    line = '    "incremental": "connector.incremental",\n'
    copy.edit("harness/arms/registry.py", line, f'{line}    "newer": "connector.newer",\n')
    copy.write("stepbench.toml", CONFIG.replace('"batched"]', '"batched", "newer"]'))
    copy.update("newer")
    ran = copy.gate()
    assert ran.code == 4
    # The new budget is what was counted, and so none of the hand.
    assert outcomes(ran)["exact work"] == "passed"
    assert rows(ran)["time of newer"] == (
        "nothing to compare with",
        f"arm 'newer' does not exist at revision {BASE}",
    )


def test_an_arm_or_a_cell_that_is_checked_no_more_is_no_pass(copy: Copy):
    copy.write("stepbench.toml", CONFIG.replace('"incremental", "batched"', '"batched"'))
    ran = copy.gate()
    assert ran.code == 4
    assert rows(ran)["configuration"] == (
        "nothing to compare with",
        "no longer checked: arm incremental",
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os; os._exit(0)", "a process of play_runs was killed or died"),
        ("import ctypes; ctypes.string_at(0)", "a process of play_runs was killed or died"),
    ],
    ids=["exit", "segmentation fault"],
)
def test_an_arm_that_ends_its_process_is_a_regression(copy: Copy, line: str, words: str):
    act(copy, line)
    ran = copy.gate("--json")
    assert ran.code == 1
    (step,) = json.loads(ran.out)["steps"]
    assert (step["step"], step["outcome"]) == ("equivalence", "failed")
    assert step["summary"] == f"incremental: runs 0 to 4: {words}"


def test_an_arm_that_breaks_in_a_large_batch_alone_is_a_regression(copy: Copy):
    act(
        copy,
        "if len(scheduled_batch.generation_requests) == 50:",
        "    print('a word')",
        "    raise LookupError('too many requests')",
    )
    ran = copy.gate()
    assert (ran.code, outcomes(ran)) == (1, {"equivalence": "passed", "exact work": "failed"})
    assert rows(ran)["exact work"][1] == (
        "incremental: cell v2-50x128, arm incremental, iteration 1: LookupError: too many requests"
    )


def test_an_arm_that_never_comes_back_is_a_regression(copy: Copy):
    act(copy, "import time", "time.sleep(60)")
    code = "from stepbench import cli, gate; gate._LIMIT = 8; cli.main()"
    ran = copy.python("-c", code, "gate", "--jobs", "2", "-q")
    assert (ran.code, ran.err) == (1, "")
    words = "incremental: runs 0 to 4: a process of play_runs hung: no result in 8 s"
    assert rows(ran) == {"equivalence": ("failed", words)}


def test_an_arm_that_cannot_be_imported_is_a_regression(copy: Copy):
    copy.write(ARM, "def (\n")
    ran = copy.gate("-q")
    assert (ran.code, ran.err) == (1, "")
    assert rows(ran)["equivalence"][0] == "failed"
    words = "incremental: arm incremental: cannot be imported: SyntaxError: "
    assert rows(ran)["equivalence"][1].startswith(words)


def test_the_session_of_nox_runs_the_command_with_what_it_is_given():
    parsed = ast.parse((ROOT / "noxfile.py").read_text())
    functions = [node for node in parsed.body if isinstance(node, ast.FunctionDef)]
    (session,) = [function for function in functions if function.name == "gate"]
    assert [ast.unparse(decorator) for decorator in session.decorator_list] == ["nox.session"]
    assert ast.unparse(session.body[-1]) == "session.run('stepbench', 'gate', *session.posargs)"
