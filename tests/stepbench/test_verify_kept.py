"""``stepbench verify`` and arms that go on writing what they handed out, or miss an order."""

import json
import re
from pathlib import Path

import pytest

from harness.arms.revision import ROOT

from .conftest import Run

HASHES = "            block_hashes = kv_cache_manager.commit_and_get_block_hashes(req)\n"
IN_PLACE = (
    "            block_hashes = self.__dict__.setdefault('hashes', [])\n"
    "            block_hashes[:] = kv_cache_manager.commit_and_get_block_hashes(req)\n"
)
RESET = "        self.external_loads.pop(request_id, None)\n"
OUTPUT = "        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)\n"
RECORD = "        self.external_loads[request.request_id] = num_new_matched_tokens\n"


def arm(folder: Path, name: str, old: str, new: str) -> str:
    """Write an arm of this project with a mistake; return how it is named."""
    source = ROOT.joinpath("connector", f"{name}.py").read_text()
    assert old in source
    path = folder / "mine.py"
    path.write_text(source.replace(old, new))
    return f"file:{path}"


def test_a_list_that_an_arm_goes_on_writing_is_found_while_it_is_kept(
    run_here: Run, tmp_path: Path
):
    name = arm(tmp_path, "incremental", HASHES, IN_PLACE)

    ran = run_here("verify", name, "--runs", "20", "--jobs", "1", "-q")

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{name}` departs from `full-copy` in run 0 of seed 0")
    lines = ran.out.splitlines()
    (where,) = [line for line in lines if line.startswith("After report ")]
    found = re.fullmatch(
        r"After report (\d+), field \w+\[\d\]\.block_hashes, of the output of report (\d+):",
        where,
    )
    assert found is not None
    step, of_report = map(int, found.groups())
    assert of_report < step
    assert any(line.startswith("  should be: [") for line in lines)

    document = json.loads(
        run_here("verify", name, "--runs", "20", "--jobs", "1", "-q", "--json").out
    )
    assert document["difference"]["reported"] == of_report
    assert document["difference"]["step"] == step


@pytest.mark.parametrize(
    ("module", "old", "new", "field"),
    [
        (
            "incremental",
            OUTPUT,
            "        scheduler_output = self.__dict__.setdefault('output', SchedulerOutput())\n"
            "        scheduler_output.attention_dp_rank = self.attention_dp_rank\n"
            "        scheduler_output.new_requests = []\n"
            "        scheduler_output.cached_requests = []\n",
            "_requests",
        ),
        (
            "incremental",
            OUTPUT,
            f"{OUTPUT}        scheduler_output.new_requests = self.__dict__.setdefault('new', [])\n"
            "        scheduler_output.new_requests.clear()\n",
            "new_requests",
        ),
        (
            "page_growth",
            "[] for _ in range(kv_cache_manager.num_layer_groups)",
            "empty for empty in [[]] for _ in range(kv_cache_manager.num_layer_groups)",
            "new_block_ids_by_layer_group[1]",
        ),
        ("incremental", RESET, "", "computed_position"),
        (
            "incremental",
            RECORD,
            "        self.external_loads.setdefault(request.request_id, num_new_matched_tokens)\n",
            "computed_position",
        ),
        (
            "batched",
            "        self.external_loads.clear()\n",
            "        for item in data:\n"
            "            self.external_loads.pop(item.request_id, None)\n",
            "computed_position",
        ),
    ],
    ids=["output", "new requests", "groups", "reset", "recorded twice", "recorded, not reported"],
)
def test_others_of_the_kind_are_found(
    run_here: Run, tmp_path: Path, module: str, old: str, new: str, field: str
):
    name = arm(tmp_path, module, old, new)

    ran = run_here("verify", name, "--runs", "10", "--jobs", "1", "-q")

    assert ran.code == 1
    (where,) = [line for line in ran.out.splitlines() if line.startswith("After report ")]
    assert field in where


def test_a_reference_that_goes_on_writing_is_no_measure(run_here: Run, tmp_path: Path):
    name = arm(tmp_path, "incremental", HASHES, IN_PLACE)

    ran = run_here("verify", "full-copy", "--against", name, "--runs", "10", "--jobs", "1", "-q")

    assert ran.code == 1
    assert ran.out.startswith(
        f"Failed: `{name}`, which should be right, does not leave its outputs to their reader in "
        "run 0"
    )
