"""Checkouts that cannot be used, and odd names of those that can."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from .checkouts import AFTER, PLACE, WORK, Checkout, changed
from .compare_workers import Workers, strictly
from .conftest import Run, assert_refused

pytestmark = pytest.mark.thorough

CELLS = ("--cells", "2x64", "-q")
NOWHERE = (
    "none of tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py, "
    "tensorrt_llm/_torch/pyexecutor/kv_cache_connector.py, "
    "tensorrt_llm/_torch/pyexecutor/connector.py"
)
COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "compare": lambda arm: ("compare", "page-range", arm, *CELLS),
    "compare, as the base": lambda arm: ("compare", arm, "page-range", *CELLS),
    "speedup": lambda arm: ("speedup", "--arms", f"page-range,{arm}", *CELLS),
    "verify": lambda arm: ("verify", arm, "-q"),
    "verify, against": lambda arm: ("verify", "page-range", "--against", arm, "-q"),
    "count": lambda arm: ("count", "--arms", arm, *CELLS),
    "list": lambda arm: ("list", "--arm", arm),
}


@pytest.fixture(params=COMMANDS)
def refuse(request: pytest.FixtureRequest, run_here: Run) -> Callable[[str, str], None]:
    """Checks that a command refuses an arm in one line, with these words and nothing else."""

    def check(arm: str, words: str) -> None:
        ran = run_here(*COMMANDS[request.param](arm))
        assert_refused(ran)
        assert ran.err == f"stepbench: error: {words}\n"
        assert [path.name for path in Path().iterdir() if path.suffix == ".json"] == []

    return check


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("trtllm:nowhere", "nowhere is no folder"),
        ("trtllm:nowhere@base", "nowhere is no folder"),
        ("trtllm:engine@v9", "no git revision 'v9' in engine"),
        ("trtllm:engine@HEAD~9", "no git revision 'HEAD~9' in engine"),
        ("trtllm:.", f"{NOWHERE} in ."),
        ("trtllm:.@HEAD", ". is no git checkout"),
        ("trtllm:engine/tensorrt_llm", f"{NOWHERE} in engine/tensorrt_llm"),
    ],
)
def test_there_is_no_such_thing(refuse: Callable[[str, str], None], arm: str, words: str):
    refuse(arm, f"arm '{arm}': {words}")


@pytest.mark.usefixtures("checkout")
def test_a_revision_without_the_module(checkout: Checkout, refuse: Callable[[str, str], None]):
    (checkout.folder / PLACE).unlink()
    checkout.commit("", "README.md")

    refuse(f"{WORK}@HEAD", f"arm '{WORK}@HEAD': {NOWHERE} at revision HEAD")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class (:\n", "cannot be imported: SyntaxError: invalid syntax ({file}, line 1)"),
        ("x = 1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero"),
        ("x = 1\n", "has no class KvCacheConnectorSchedulerOutputManager"),
        (
            "import torch\n\nx = torch.zeros(3)\n",
            "cannot be run here: uses torch.zeros (line 3), for which there is no stand-in; see "
            f"engine/{PLACE}:3",
        ),
        ("raise SystemExit(0)\n", "cannot be imported: SystemExit: 0"),
    ],
)
def test_a_module_that_is_no_arm(
    checkout: Checkout, refuse: Callable[[str, str], None], text: str, words: str
):
    checkout.write(text)

    refuse(WORK, f"{WORK}: {words.format(file=Path(PLACE).name)}")


@pytest.mark.usefixtures("checkout")
def test_a_name_that_would_break_a_table_or_a_terminal(refuse: Callable[[str, str], None]):
    refuse("trtllm:a\nb", "arm 'trtllm:a\\nb' holds a character that cannot be printed")
    refuse("trtllm:a\x1b[2Jb", "arm 'trtllm:a\\x1b[2Jb' holds a character that cannot be printed")


def test_an_arm_of_a_checkout_is_named_once(run_here: Run, checkout: Checkout):
    assert checkout.head
    for command in (
        ("speedup", "--arms", f"{WORK},{WORK}"),
        ("count", "--arms", f"{WORK},{WORK}"),
        ("verify", WORK, WORK),
    ):
        assert_refused(run_here(*command), f"arm '{WORK}' is named twice")


@pytest.fixture
def odd(checkout: Checkout) -> tuple[str, str]:
    """Base and work tree of a checkout whose folder has all that markup could take for its own."""
    name = "a|b `c` <i>d [red]e *f* _g_ ~h@i.jk"
    checkout.folder.rename(name)
    return f"trtllm:{name}@base", f"trtllm:{name}"


def test_an_odd_name_in_the_table_of_a_comparison(
    run_here: Run, odd: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    Workers(monkeypatch)

    ran = run_here("compare", *odd, *CELLS, "--cpu", "none", "-o", "x.json")

    base, work = odd
    escaped = [f"`` {name} ``".replace("|", "\\|") for name in odd]
    assert ran.code == 0
    assert f"| Requests | Tokens per request | {escaped[0]} | {escaped[1]} | Ratio " in ran.out
    assert f"; `` {work} ``: work tree of commit " in ran.out
    document = strictly(run_here("compare", *odd, *CELLS, "--no-verify", "--json").out)
    assert (document["a"], document["b"]) == (base, work)


def test_an_odd_name_in_the_speedup_table(run_here: Run, odd: tuple[str, str]):
    base, work = odd
    measure = ("speedup", "--arms", f"{base},{work}", *CELLS, "--quick", "--processes", "1")
    assert run_here(*measure, "--cpu", "none", "-o", "x.json").code == 0

    printed = {
        style: run_here("report", "x.json", "--format", style).out
        for style in ("markdown", "terminal", "csv", "json")
    }

    assert f"| `` {base} `` | `` {work} `` |".replace("a|b", "a\\|b") in printed["markdown"]
    assert f" `` {work} ``: work tree of commit " in printed["markdown"]
    # As it is, and not in red.
    heading = printed["terminal"].splitlines()[2]
    assert base in heading
    assert f",{base}," in printed["csv"]
    assert json.loads(printed["json"])["results"][0]["arms"] == [base, work]


def test_what_it_says_to_repeat_can_be_pasted(run_here: Run, odd: tuple[str, str]):
    folder = Path(odd[1].removeprefix("trtllm:"))
    (folder / PLACE).write_text(changed(AFTER, "1 + get_draft_token_length(req)", "7"))

    ran = run_here("verify", odd[1], "--against", odd[0], "--runs", "5", "--jobs", "1", "-q")

    (line,) = [line for line in ran.out.splitlines() if line.startswith("Repeat with ")]
    words = shlex.split(line.removeprefix("Repeat with ").strip("`. "))
    assert words[:5] == ["stepbench", "verify", odd[1], "--against", odd[0]]
    assert run_here(*words[1:], "--jobs", "1", "-q").code == 1
