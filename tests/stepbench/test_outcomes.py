"""What cannot be run here is neither the same nor different: through the commands, each once."""

import json
from pathlib import Path

import pytest

from ..harness.connectors import AFTER, changed
from .conftest import Run, assert_refused

pytestmark = pytest.mark.thorough

BODY = "        length = req.get_num_tokens(0)\n"
IMPORT = "import torch\n\n"
TINY = ("--cells", "1x8", "--cpu", "none", "-q")


def arm(tmp_path: Path, code: str, imports: str = "", text: str = AFTER) -> str:
    """Return the name of an arm whose per-request part begins with some code."""
    path = tmp_path / "arm.py"
    body = "".join(f"        {line}\n" for line in code.splitlines())
    path.write_text(changed(text, (BODY, body + BODY), (IMPORT, f"import torch\n{imports}\n")))
    return "file:arm.py"


def line_of(tmp_path: Path, words: str) -> int:
    lines = (tmp_path / "arm.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if words in line)


@pytest.mark.parametrize(
    ("code", "imports"),
    [
        # The public case, in its four parts.
        ("with nvtx_range('x'):\n    pass", "from tensorrt_llm._utils import nvtx_range\n"),
        (
            "if nvtx is not None:\n    raise ValueError",
            "try:\n    import nvtx\nexcept ImportError:\n    nvtx = None\n",
        ),
        ("logger.info_once('a', key='a')\nlogger.debug_once('b', key=req)", ""),
        (
            "assert isinstance(manager, (V2, KVCacheManager))\nassert isinstance(req, LlmRequest)",
            "from tensorrt_llm._torch.pyexecutor.resource_manager import KVCacheManager\n"
            "from tensorrt_llm._torch.pyexecutor.kv_cache_manager_v2 import KVCacheManagerV2 as V2"
            "\n",
        ),
        # And of their kinds.
        (
            "COUNTER.labels('a').inc()\nwith torch.no_grad(), COUNTER.time():\n    twice(1)",
            "import prometheus_client\nCOUNTER = prometheus_client.Counter('a', 'b', ['c'])\n"
            "@torch.compile\n@torch.inference_mode()\ndef twice(n): return 2 * n\n",
        ),
        (
            "if TOOL is not None:\n    raise ValueError\ntry:\n    torch.cuda.synchronize()\n"
            "except Exception:\n    pass",
            "import contextlib, importlib.util\nTOOL = None\nwith contextlib.suppress(ImportError):"
            "\n    import no_such_tool as TOOL\nassert not importlib.util.find_spec('no_such_tool')"
            "\n",
        ),
    ],
)
def test_what_may_do_nothing_or_be_absent_is_no_difference(
    run_here: Run, tmp_path: Path, code: str, imports: str
):
    ran = run_here("verify", arm(tmp_path, code, imports), "--runs", "6", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Same: `file:arm.py` ")


@pytest.mark.parametrize(
    ("code", "imports", "uses"),
    [
        ("torch.zeros(3)", "", "torch.zeros"),
        ("req.py_request_id", "", "LlmRequest.py_request_id"),
        # Caught where the module is imported, of which the call then makes something else.
        (
            "if not ON:\n    raise ValueError",
            "import torch\ntry:\n    ON = torch.cuda.is_available()\n"
            "except Exception:\n    ON = False\n",
            "torch.cuda.is_available",
        ),
        # In a thread, and where an arm that catches it goes another way and comes to differ.
        (
            "t = threading.Thread(target=lambda: torch.ones(3)); t.start(); t.join()",
            "import threading\n",
            "torch.ones",
        ),
        (
            "try:\n    manager.get_num_free_blocks()\n    torch.zeros(3)\n"
            "except Exception as error:\n    raise RuntimeError('x') from None",
            "",
            "KVCacheManager.get_num_free_blocks",
        ),
        (
            "try:\n    torch.zeros(3)\nexcept Exception:\n    self.tokens.append(1)",
            "",
            "torch.zeros",
        ),
    ],
)
def test_what_nothing_stands_in_for_is_a_third_outcome(
    run_here: Run, tmp_path: Path, code: str, imports: str, uses: str
):
    name = arm(tmp_path, code, imports)
    line = line_of(tmp_path, f".{uses.partition('.')[2]}")

    ran = run_here("verify", name, "--runs", "6", "-q")

    words = f"{name}: cannot be run here: uses {uses} (line {line}), for which there is no stand-in"
    assert_refused(ran, words, f"; see arm.py:{line}")


@pytest.mark.parametrize(
    ("code", "imports", "uses"),
    [
        # From a module that brings nothing; and in a thread that does nothing else.
        (
            "frobnicate(3)",
            "from tensorrt_llm.nowhere.at_all import *\n",
            "tensorrt_llm.nowhere.at_all.frobnicate",
        ),
        (
            "t = threading.Thread(target=frobnicate, args=(3,)); t.start(); t.join()",
            "import threading\nfrom tensorrt_llm.x import frobnicate\n",
            "tensorrt_llm.x.frobnicate",
        ),
    ],
)
def test_so_is_what_no_line_of_the_arm_names_in_full(
    run_here: Run, tmp_path: Path, code: str, imports: str, uses: str
):
    name = arm(tmp_path, code, imports)

    ran = run_here("verify", name, "--runs", "6", "-q")

    assert_refused(ran, f"{name}: cannot be run here: uses {uses}")


@pytest.mark.parametrize(
    "code", ["self.tokenz", "RequestData.nothing", "None.request_id", "req.get_tokens(0).items()"]
)
def test_a_slip_in_what_is_the_arms_own_is_still_a_difference(
    run_here: Run, tmp_path: Path, code: str
):
    ran = run_here("verify", arm(tmp_path, code), "--runs", "1", "-q")

    assert ran.code == 1
    assert ran.out.startswith("Different: `file:arm.py` departs from `full-copy` ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("speedup", "--arms", "incremental,file:arm.py", "--quick", *TINY),
        ("speedup", "--arms", "file:arm.py", "--quick", "--no-verify", *TINY),
        ("compare", "incremental", "file:arm.py", *TINY),
        ("compare", "incremental", "file:arm.py", "--no-verify", *TINY),
        ("count", "--arms", "file:arm.py", "--cells", "1x8", "-q"),
        ("overlap", "--arms", "incremental,file:arm.py", *TINY),
        ("overlap", "--arms", "file:arm.py", "--no-verify", *TINY),
    ],
)
def test_no_command_takes_it_for_a_finding(
    run_here: Run, tmp_path: Path, arguments: tuple[str, ...]
):
    arm(tmp_path, "torch.zeros(3)")

    ran = run_here(*arguments)

    line = line_of(tmp_path, "torch.zeros")
    assert_refused(ran, f"file:arm.py: cannot be run here: uses torch.zeros (line {line}), for")


def test_a_count_sees_what_a_thread_dies_of(run_here: Run, tmp_path: Path):
    code = "t = threading.Thread(target=lambda: torch.ones(3)); t.start(); t.join()"
    arm(tmp_path, code, "import threading\n")

    ran = run_here("count", "--arms", "file:arm.py", "--cells", "1x8", "-q")

    assert_refused(ran, "file:arm.py: cannot be run here: uses torch.ones (line ")


def test_it_is_an_outcome_in_json_and_no_cross_in_a_comment(run_here: Run, tmp_path: Path):
    arm(tmp_path, "torch.zeros(3)")

    ran = run_here("verify", "file:arm.py", "--runs", "1", "-q", "--json")
    Path("found.json").write_text(ran.out)
    comment = run_here("report", "found.json", "--format", "comment").out
    same = json.loads(run_here("verify", "incremental", "--runs", "1", "-q", "--json").out)

    assert (ran.code, same["outcome"]) == (2, "same")
    document = json.loads(ran.out)
    assert (document["outcome"], document["same"]) == ("cannot be run here", None)
    assert document["missing"] == {
        "arm": "file:arm.py",
        "uses": "torch.zeros",
        "file": "arm.py",
        "line": line_of(tmp_path, "torch.zeros"),
        "library": None,
        "message": ran.err.removeprefix("stepbench: error: ").rstrip("\n"),
    }
    assert comment.splitlines()[1].startswith("**❔ file:arm.py: cannot be run here: uses torch.z")
    assert "❌" not in comment
    assert "departs" not in comment
    assert run_here("report", "found.json", "--format", "html", "-o", "x.html", "-q").code == 0


def test_a_library_that_is_not_there_is_named(run_here: Run, tmp_path: Path):
    text = changed(AFTER, ("@dataclass\nclass SchedulerOutput:", "@define\nclass SchedulerOutput:"))
    arm(tmp_path, "pass", "from no_such_library import define\n", text)

    ran = run_here("verify", "file:arm.py", "--runs", "1", "-q")

    words = "needs no_such_library, which is not installed: pip install no_such_library; see arm.py"
    assert_refused(ran, words)


def test_what_would_be_missing_is_listed_beforehand(run_here: Run, tmp_path: Path):
    code = (
        "with torch.no_grad():\n    torch.zeros(req.py_request_id)\nmanager.get_num_free_blocks()"
    )
    arm(tmp_path, code, "from tensorrt_llm._utils import nvtx_range\n")
    line = line_of(tmp_path, "torch.zeros")

    text = run_here("list", "--arm", "file:arm.py").out
    document = json.loads(run_here("list", "--arm", "file:arm.py", "--json").out)

    assert "Imports, no-op:\n  tensorrt_llm._utils.nvtx_range (line " in text
    assert f"Used, no-op:\n  torch.no_grad (line {line - 1})\n" in text
    # Not `mpi_rank`, which stands in code that no call of the harness reaches.
    assert text.partition("cannot be run here:\n")[2] == (
        f"  torch.zeros (line {line})\n  LlmRequest.py_request_id (line {line})\n"
        f"  KVCacheManager.get_num_free_blocks (line {line + 1})\n"
    )
    assert document["uses_without_stand_in"][0] == {"name": "torch.zeros", "lines": [line]}
