"""What is told of a verification; the findings are made up."""

import json
from dataclasses import replace

from harness.verify.episode import Difference
from harness.verify.runs import Failure, Verification
from reports.kinds.equivalence import (
    describe_setting,
    render_json,
    render_self_test,
    render_text,
    repeat_command,
)
from scenarios.operations import Operation, Setting
from stubs.kv_cache_v2 import LayerGroup

V1 = Setting("v1", 16, (LayerGroup(),), "list", attention_dp=False, overlap=False)
V2 = Setting(
    "v2", 4, (LayerGroup(), LayerGroup(6, 3)), "generator", attention_dp=True, overlap=True
)
FAILURE = Failure(
    17,
    V2,
    (Operation("join", (1, 0, 0, 0, 0, 0)), Operation("chunk", (0, 1)), Operation("report")),
    Difference("batched", 1, "new_requests[0].new_tokens", "[1000]", "[]"),
)
SAME = Verification(
    ("page-range", "batched"), "full-copy", 5, 1200, 45678, None, {"join": 1200, "sink": 60}
)
DIFFERENT = Verification(
    ("page-range", "batched"), "full-copy", 5, 18, 900, FAILURE, {"join": 9, "sink": 0}
)
SAME_TEXT = (
    "Same: `page-range`, `batched` gave the outputs of `full-copy`, field by field, in "
    "1,200 random runs with 45,678 reports (seed 5).\n"
)
REPEAT = "stepbench verify batched --against full-copy --seed 5 --run 17 --provider python"


def test_no_difference_is_a_sentence():
    assert render_text(SAME, coverage=False) == SAME_TEXT


def test_a_single_run_is_not_in_the_plural():
    single = Verification(("batched",), "incremental", 0, 1, 1, None, {})

    assert render_text(single, coverage=False) == (
        "Same: `batched` gave the outputs of `incremental`, field by field, in 1 random run "
        "with 1 report (seed 0).\n"
    )


def test_a_difference_comes_with_all_that_led_to_it():
    assert render_text(DIFFERENT, coverage=False).splitlines() == [
        "Different: `batched` departs from `full-copy` in run 17 of seed 5.",
        "Setting: manager v2, blocks of 4, layer groups full,window=6:sink=3, "
        "pages from a generator, attention DP, overlap",
        "Shortest operation list (3 operations):",
        "  1. join(1, 0, 0, 0, 0, 0)",
        "  2. chunk(0, 1)",
        "  3. report()",
        "After report 1, field new_requests[0].new_tokens:",
        "  full-copy: [1000]",
        "  batched:   []",
        f"Repeat with `{REPEAT}`.",
    ]


def test_the_coverage_is_a_table_with_shares():
    assert render_text(SAME, coverage=True) == SAME_TEXT + (
        "\n"
        "| Reached | Runs | Share |\n"
        "| :--- | ---: | ---: |\n"
        "| join | 1,200 | 100% |\n"
        "| sink | 60 | 5% |\n"
    )


def test_what_is_hardly_reached_is_told_as_an_error_of_the_model():
    few = Verification(("batched",), "full-copy", 0, 400, 9, None, {"join": 400, "sink": 19})

    assert render_text(few, coverage=False).splitlines()[1:] == [
        "Error of the model: 'sink' was reached in 19 of 400 runs, fewer than 5%."
    ]
    assert json.loads(render_json(few))["uncovered"] == ["sink"]


def test_json_without_a_difference():
    assert json.loads(render_json(SAME)) == {
        "stepbench_verification_format": 1,
        "arms": ["page-range", "batched"],
        "against": "full-copy",
        "origins": {},
        "metadata": {},
        "seed": 5,
        "runs": 1200,
        "reports": 45678,
        "provider": "python",
        "outcome": "same",
        "same": True,
        "coverage": {"join": 1200, "sink": 60},
        "uncovered": [],
        "not_played": {},
        "fields_left_out": [],
        "difference": None,
        "missing": None,
    }


def test_json_with_a_difference():
    document = json.loads(render_json(DIFFERENT))

    assert document["same"] is False
    assert document["uncovered"] == []
    assert document["difference"] == {
        "arm": "batched",
        "run": 17,
        "setting": "manager v2, blocks of 4, layer groups full,window=6:sink=3, "
        "pages from a generator, attention DP, overlap",
        "operations": ["join(1, 0, 0, 0, 0, 0)", "chunk(0, 1)", "report()"],
        "step": 1,
        "reported": None,
        "field": "new_requests[0].new_tokens",
        "expected": "[1000]",
        "actual": "[]",
        "traceback": None,
        "repeat": REPEAT,
    }


TRACE = """\
Traceback (most recent call last):
  File "abc:connector.py", line 7, in build_scheduler_output
    del self.requests[7]
KeyError: 7"""


def test_an_exception_comes_with_its_traceback():
    raised = Difference("batched", 1, "exception", "none", "KeyError(7)", TRACE)
    found = replace(DIFFERENT, failure=replace(FAILURE, difference=raised))

    assert render_text(found).splitlines()[6:] == [
        "After report 1, field exception:",
        "  full-copy: none",
        "  batched:   KeyError(7)",
        "    Traceback (most recent call last):",
        '      File "abc:connector.py", line 7, in build_scheduler_output',
        "        del self.requests[7]",
        "    KeyError: 7",
        f"Repeat with `{REPEAT}`.",
    ]
    assert json.loads(render_json(found))["difference"]["traceback"] == TRACE


def test_an_exception_of_the_reference_is_no_difference_of_another_arm():
    raised = Difference("full-copy", 1, "exception", "none", "KeyError(7)", "KeyError: 7")
    found = replace(DIFFERENT, failure=replace(FAILURE, difference=raised))

    lines = render_text(found).splitlines()
    assert lines[0] == (
        "Failed: `full-copy`, which should be right, raised an exception in run 17 of seed 5."
    )
    assert lines[6:] == [
        "After report 1, field exception:",
        "  full-copy: KeyError(7)",
        "    KeyError: 7",
        f"Repeat with `{REPEAT.replace('batched', 'full-copy')}`.",
    ]


def test_what_could_not_be_compared_or_played_is_said():
    found = replace(
        SAME,
        not_played={"reset_request": 1200, "attention data parallelism": 1},
        left_out=("block_hashes", "cache_salt"),
    )

    assert render_text(found) == SAME_TEXT + (
        "Not compared, since one side lacks them: block_hashes, cache_salt.\n"
        "Left out of 1 run: what needs attention data parallelism, which an arm lacks.\n"
        "Left out of 1,200 runs: what needs reset_request, which an arm lacks.\n"
    )
    document = json.loads(render_json(found))
    assert document["not_played"] == {"reset_request": 1200, "attention data parallelism": 1}
    assert document["fields_left_out"] == ["block_hashes", "cache_salt"]


def test_where_arms_are_from_is_said():
    origins = {"file:a.py": "a file by itself, sha256 0123456789ab"}

    assert render_text(SAME, origins) == (
        SAME_TEXT + "`file:a.py`: a file by itself, sha256 0123456789ab.\n"
    )
    assert json.loads(render_json(SAME, origins))["origins"] == origins


def test_the_repeat_command_can_be_pasted_into_a_shell():
    spec = "trtllm:~/Tensor RT@HEAD"
    found = replace(DIFFERENT, against=spec)

    assert repeat_command(found, FAILURE) == (
        "stepbench verify batched --against 'trtllm:~/Tensor RT@HEAD' --seed 5 --run 17 "
        "--provider python"
    )


def test_the_repeat_command_names_the_arm_at_fault_alone():
    assert repeat_command(DIFFERENT, FAILURE) == REPEAT


def test_a_v1_setting_has_no_layer_groups_to_tell():
    assert describe_setting(V1) == "manager v1, blocks of 16"


def test_the_self_test_marks_what_was_caught_too_rarely():
    assert render_self_test({"aliased lists": 298, "draft": 297}, 300, 298) == (
        "| Wrong arm | Caught | Too few |\n"
        "| :--- | ---: | :--- |\n"
        "| aliased lists | 298 of 300 |  |\n"
        "| draft | 297 of 300 | fewer than 298 |\n"
        "\n1 wrong arm of 2 caught too seldom.\n"
    )
    assert render_self_test({"aliased lists": 298, "draft": 300}, 300, 298).endswith(
        "\n\nAll 2 wrong arms were caught, each in at least 298 of 300 runs.\n"
    )
