"""``stepbench count`` through its entry point."""

import gc
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.count import passes
from harness.count.budget import PYTHON
from harness.count.work import FIGURES
from stepbench import count as command

from .conftest import Ran, Run, assert_refused, run_script

# A cell of two requests: 10, 11, 12 and 13 tokens in 3, 3, 3 and 4 blocks at the counted reports.
CELL = ("--cells", "2x8", "--tokens-per-block", "4")
NAME = "v2-2x8-block=4"
ARMS = (
    *("full-copy", "incremental", "page-growth", "page-range", "batched", "native-output"),
    "floor",
)


@pytest.fixture(autouse=True)
def quick_collections():
    """Counting collects garbage often; what other tests have left behind need not be looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def few_passes(monkeypatch: pytest.MonkeyPatch):
    """What these tests count is the same each time: a second pass shows it as well as nine do."""
    monkeypatch.setattr(passes, "_PROBES", 0)
    monkeypatch.setattr(passes, "_DOUBTED", 1)


@pytest.fixture
def count(run_here: Run) -> Callable[..., Ran]:
    """Counts the cell in this process."""
    return lambda *arguments: run_here("count", *CELL, "--jobs", "1", "-q", *arguments)


@pytest.fixture
def one_cell(monkeypatch: pytest.MonkeyPatch):
    """Makes the tiny cell all that there is where no cells are named."""
    from scenarios.scenario import SteadyDecode

    cell = SteadyDecode(requests=2, tokens=8, tokens_per_block=4)
    chosen = command.selected_scenarios
    monkeypatch.setattr(
        command,
        "selected_scenarios",
        lambda options: chosen(options) if options["cells"] else (cell,),
    )


def edit(change: Callable[[str], str], file: str = "budgets.toml") -> str:
    text = change(Path(file).read_text())
    Path(file).write_text(text)
    return text


def test_the_table_of_a_cell(count: Callable[..., Ran]):
    ran = count("--arms", "full-copy,batched,floor")

    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "Work per iteration, mean over 4 iterations, exact:"
    assert lines[2].startswith("| Requests | Tokens per request | Settings | Arm | Native calls |")
    assert lines[4].startswith("| 2 | 8 | block=4 | full-copy | 12 | 2 | 23 | 6.50 | ")
    assert lines[5].startswith("|  |  |  | batched | 9 | 4 | 2 | 0.50 | ")
    assert lines[6].startswith("|  |  |  | floor | 0 | 0 | 0 | 0 | ")
    assert ran.out.endswith(
        "Repeat with `stepbench count --cells 2x8 --tokens-per-block 4 --jobs 1 -q "
        "--arms full-copy,batched,floor`.\n"
    )
    assert list(Path().iterdir()) == []


def test_per_request_and_calls(count: Callable[..., Ran]):
    ran = count("--arms", "full-copy,batched", "--per-request", "--calls")

    assert ran.out.startswith("Work per request and iteration, ")
    assert "| 2 | 8 | block=4 | full-copy | 6 | 1 | 11.50 | 3.25 | " in ran.out
    assert f"| {NAME} | get_batch_updates() | 0 | 0.50 |\n" in ran.out
    assert "|  | get_tokens() | 1 | 0 |\n" in ran.out


@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_json_is_one_document_and_nothing_else(count: Callable[..., Ran], option: tuple[str, ...]):
    ran = count(*option)

    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert [(row["cell"], row["arm"]) for row in document["work"]] == [(NAME, arm) for arm in ARMS]
    assert document["work"][0]["per_iteration"]["tokens"] == 23
    assert document["work"][0]["per_iteration"]["arguments"] == 2
    assert document["work"][0]["calls_per_iteration"]["get_tokens()"] == 2


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_document_whatever_the_hashes_and_the_processes(
    monkeypatch: pytest.MonkeyPatch,
):
    cells = ("--cells", "1x8,2x8", "--tokens-per-block", "4", "--draft-tokens", "2")
    printed = []
    for seed, jobs in (("1", "1"), ("2", "2")):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        printed.append(run_script("count", *cells, "--jobs", jobs, "-q", "--json"))
    assert [ran.code for ran in printed] == [0, 0]
    first, second = (json.loads(one.out) for one in printed)
    # All but the command line that repeats it.
    assert first["metadata"].pop("command") != second["metadata"].pop("command")
    assert first == second
    assert len(json.loads(printed[0].out)["work"]) == 2 * len(ARMS)


def test_a_bar_that_is_drawn_meanwhile_is_not_counted(
    run_here: Run, count: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
):
    plain = count("--arms", "floor", "--json")
    monkeypatch.setenv("FORCE_COLOR", "1")  # As on a terminal.
    ran = run_here("count", *CELL, "--jobs", "1", "--arms", "floor", "--json")

    assert ran.code == 0
    assert "cells" in ran.err
    assert json.loads(ran.out)["work"] == json.loads(plain.out)["work"]


@pytest.mark.usefixtures("one_cell")
def test_a_budget_is_written_and_kept(run_here: Run):
    written = run_here("count", "--jobs", "1", "-q", "--update")

    assert written.code == 0
    assert written.err == "stepbench: budgets.toml: budgets of 7 arms and cells written\n"
    assert written.out.startswith("Work per iteration, ")
    budget = tomllib.loads(Path("budgets.toml").read_text())
    assert budget["seed"] == 0
    assert list(budget[NAME]) == list(ARMS)
    assert list(budget[NAME]["full-copy"]) == list(FIGURES)
    assert budget[NAME]["full-copy"]["tokens"] == 23
    assert list(budget[NAME]["full-copy"]["bytecodes"]) == [PYTHON]
    assert "retained_bytes" not in budget[NAME]["floor"]

    checked = run_here("count", "--jobs", "1", "-q", "--check")

    assert (checked.code, checked.err) == (0, "")
    assert checked.out == (
        f"Within budget: {len(ARMS) * len(FIGURES) - 1} figures of budgets.toml on Python "
        f"{PYTHON}.\n"
    )
    assert run_here("count", "--jobs", "1", "-q", "--update").code == 0
    assert tomllib.loads(Path("budgets.toml").read_text()) == budget


def test_an_excess_is_named_with_both_values(count: Callable[..., Ran]):
    count("--update")
    edit(lambda text: text.replace("tokens = 23\n", "tokens = 20\n"))

    ran = count("--check")

    assert (ran.code, ran.err) == (1, "")
    assert ran.out == (
        f"Over budget: {NAME}, full-copy: tokens 23 per iteration, budget 20 (+15.0%).\n"
    )


@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_a_check_as_json_is_one_document(count: Callable[..., Ran], option: tuple[str, ...]):
    count("--update")
    edit(lambda text: text.replace("tokens = 23\n", "tokens = 20.5\n"))

    ran = count("--check", *option)

    assert (ran.code, ran.err) == (1, "")
    document = json.loads(ran.out)
    assert document["excesses"] == [
        {"cell": NAME, "arm": "full-copy", "figure": "tokens", "budget": 20.5, "actual": 23}
    ]
    assert (document["missing"], document["below"]) == ([], 0)


def test_work_saved_is_told_and_no_finding(count: Callable[..., Ran]):
    count("--update")
    edit(lambda text: text.replace("tokens = 23\n", "tokens = 99\n"))

    ran = count("--check")

    assert ran.code == 0
    assert ran.out.splitlines()[1:] == ["1 figure below the budget: --update would lower it."]


@pytest.mark.usefixtures("one_cell")
def test_what_has_gone_missing_ends_in_4_where_all_is_meant(run_here: Run):
    run_here("count", "--jobs", "1", "-q", "--update")
    edit(lambda text: text + '\n["v2-gone".batched]\ntokens = 1\n')

    ran = run_here("count", "--jobs", "1", "-q", "--check")
    named = run_here("count", *CELL, "--jobs", "1", "-q", "--check", "--arms", "batched")

    assert ran.code == 4
    assert ran.out == "Nothing to compare with: v2-gone, batched: in the budget, but not counted.\n"
    assert (named.code, named.out.split(": ")[0]) == (0, "Within budget")


def test_a_new_arm_or_cell_without_a_budget_ends_in_4(count: Callable[..., Ran], run_here: Run):
    count("--update", "--arms", "full-copy,batched")

    arm = count("--check", "--arms", "batched,floor")
    cell = run_here("count", "--cells", "1x8", "--jobs", "1", "-q", "--check", "--arms", "floor")

    assert (arm.code, arm.out) == (4, f"Nothing to compare with: {NAME}, floor: no budget.\n")
    assert (cell.code, cell.out) == (4, "Nothing to compare with: v2-1x8, floor: no budget.\n")


def test_an_excess_weighs_more_than_what_is_missing(count: Callable[..., Ran]):
    count("--update", "--arms", "full-copy")
    edit(lambda text: text.replace("tokens = 23\n", "tokens = 1\n"))

    ran = count("--check", "--arms", "full-copy,floor")

    assert ran.code == 1
    assert [line.split(":")[0] for line in ran.out.splitlines()] == [
        "Over budget",
        "Nothing to compare with",
    ]


def test_another_python_has_no_budget_until_it_is_written(count: Callable[..., Ran]):
    count("--update", "--arms", "batched")
    theirs = edit(lambda text: text.replace(f'"{PYTHON}"', '"3.99"'))

    ran = count("--check", "--arms", "batched")

    assert ran.code == 4
    assert [re.findall(r"no budget of (\w+) for", line) for line in ran.out.splitlines()] == [
        ["bytecodes"],
        ["engine_bytecodes"],
        ["retained_bytes"],
    ]
    assert count("--update", "--arms", "batched").code == 0
    both = tomllib.loads(Path("budgets.toml").read_text())[NAME]["batched"]
    assert sorted(both["bytecodes"]) == sorted(["3.99", PYTHON])
    assert both["bytecodes"]["3.99"] == tomllib.loads(theirs)[NAME]["batched"]["bytecodes"]["3.99"]
    assert count("--check", "--arms", "batched").code == 0


@pytest.mark.usefixtures("one_cell")
def test_an_update_of_a_part_keeps_the_rest_and_one_of_all_does_not(run_here: Run):
    Path("budgets.toml").write_text('seed = 0\n["v2-other".batched]\ntokens = 7\n')

    run_here("count", *CELL, "--jobs", "1", "-q", "--update", "--arms", "floor")
    part = tomllib.loads(Path("budgets.toml").read_text())
    run_here("count", "--jobs", "1", "-q", "--update")
    whole = tomllib.loads(Path("budgets.toml").read_text())

    assert part["v2-other"] == {"batched": {"tokens": 7}}
    assert list(part[NAME]) == ["floor"]
    assert list(whole) == ["seed", NAME]


@pytest.mark.usefixtures("one_cell")
def test_a_budget_has_one_seed(run_here: Run):
    quiet = ("--jobs", "1", "-q")
    assert run_here("count", *quiet, "--update", "--seed", "5").code == 0
    before = Path("budgets.toml").read_bytes()

    line = "the budget was counted with seed 5, not 0"
    assert_refused(run_here("count", *quiet, "--check"), line)
    assert_refused(run_here("count", *CELL, *quiet, "--update", "--arms", "floor"), line)
    assert Path("budgets.toml").read_bytes() == before
    assert run_here("count", *quiet, "--check", "--seed", "5").code == 0
    assert run_here("count", *quiet, "--update").code == 0
    assert tomllib.loads(Path("budgets.toml").read_text())["seed"] == 0


@pytest.mark.parametrize("stem", ["a b", 'say "hi"', "it's.dotted", "größe 請求"])
def test_a_trace_of_any_name_has_a_budget(run_here: Run, stem: str):
    rows = "2023-11-16 18:15:46,12,30\n" * 40
    Path(f"{stem}.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    trace = ("--trace", f"{stem}.csv", "--max-batch", "3", "--tokens-per-block", "4")
    arms = ("--arms", "batched", "--jobs", "1", "-q")

    assert run_here("count", *trace, *arms, "--update").code == 0
    assert run_here("count", *trace, *arms, "--check").code == 0
    name = f"v2-trace={Path(stem + '.csv').stem}-batch=3-block=4"
    assert list(tomllib.loads(Path("budgets.toml").read_text())) == ["seed", name]


@pytest.mark.parametrize("option", ["--check", "--update"])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"seed = ", "not a TOML file"),
        (b"tokens = 3", "the seed is missing or no whole number"),
        (b"seed = 0\nv2-2x8 = 3", "v2-2x8: not a table of figures"),
        (b"seed = 0\n[v2-2x8.floor]\nspeed = 3", "v2-2x8, floor: unknown figure 'speed'"),
        (b"seed = 0\n[v2-2x8.floor]\nobjects = '3'", "v2-2x8, floor: objects is no number"),
        (b"seed = 0\n[v2-2x8.floor]\nobjects = inf", "v2-2x8, floor: objects is no"),
        (b"\xff", "it is not text"),
        (None, "Is a directory"),
    ],
)
def test_a_damaged_budget_is_refused(
    count: Callable[..., Ran], option: str, content: bytes | None, text: str
):
    if content is None:
        Path("b.toml").mkdir()
    else:
        Path("b.toml").write_bytes(content)

    assert_refused(count("--budget", "b.toml", option), "b.toml: ", text)

    assert content is None or Path("b.toml").read_bytes() == content


def test_there_must_be_a_budget_to_check(count: Callable[..., Ran]):
    assert_refused(count("--check"), "budgets.toml: no such budget file", code=4)


def test_check_and_update_exclude_each_other(count: Callable[..., Ran]):
    assert_refused(count("--check", "--update"), "--check and --update exclude each other")
    assert list(Path().iterdir()) == []


def test_a_budget_that_cannot_be_written(count: Callable[..., Ran]):
    ran = count("--update", "--budget", "gone/b.toml")
    assert_refused(ran, "gone/b.toml: cannot be written: No such file or directory")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--arms", "page-rang"], "did you mean 'page-range'?"),
        (["--arms", "floor,floor"], "arm 'floor' is named twice"),
        (["--arms", ""], "an entry is empty"),
        (["--seed", "-1"], "--seed"),
        (["--jobs", "0"], "--jobs takes"),
        (["--format", "csv"], "'csv'"),
        (["--json", "--format", "markdown"], "--json contradicts --format markdown"),
        (["--cells", "2x8,2x8"], "twice"),
        (["--cells", "100000x16777216"], "would not fit the memory"),
        (["--trace", "none.csv"], "none.csv"),
        (["--max-batch", "8"], "only with --trace"),
    ],
)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("count", *arguments), text)
    assert list(Path().iterdir()) == []
