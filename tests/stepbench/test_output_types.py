"""Outputs of other types than upstream's, and page indices as a mapping, through the commands."""

import importlib.util
from pathlib import Path

import pytest

from ..harness.connectors import AFTER, changed
from .conftest import Run

pytestmark = pytest.mark.thorough

_DATA = AFTER[AFTER.index("@dataclass\nclass RequestData") : AFTER.index("class Worker(ABC)")]
_SUBTRACTED = "            data.computed_position -= self.external_loads.get(req.request_id, 0)\n"
_NAMES = (
    *("request_id", "new_tokens", "new_block_ids", "computed_position", "num_scheduled_tokens"),
    *("block_hashes", "priorities", "cache_salt", "new_block_ids_by_layer_group"),
)


def of_type(head: str, base: str, default: str) -> str:
    """Return the module with other classes for what it reports."""
    fields = _DATA.replace("field(default_factory=list)", default)
    for name in ("RequestData", "SchedulerOutput"):
        fields = fields.replace(f"@dataclass\nclass {name}:", f"{head}class {name}{base}:")
    return changed(AFTER, (_DATA, fields))


def importing(text: str, line: str) -> str:
    return changed(text, ("import torch\n\n", f"import torch\n{line}\n\n"))


_REPLACED = (
    "            taken = self.external_loads.get(req.request_id, 0)\n"
    "            data = {}(data, computed_position=data.computed_position - taken)\n"
)
_SLOTS = f"""\
class RequestData:
    __slots__ = {_NAMES}

    def __init__(self, *values):
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)


class SchedulerOutput:
    __slots__ = "new_requests", "cached_requests", "attention_dp_rank"

    def __init__(self):
        self.new_requests, self.cached_requests, self.attention_dp_rank = [], [], None


"""
_NAMED = "NamedTuple('RequestData', [(name, object) for name in NAMES])"
_TUPLES = f"""\
NAMES = {_NAMES}
RequestData = {_NAMED}
class SchedulerOutput(NamedTuple):
    new_requests: list
    cached_requests: list
    attention_dp_rank: Optional[int] = None


"""
# As one public branch has it: the manager's answer, and what is reported.
_MAPPING = changed(
    AFTER,
    ("        hashes, groups = [], []\n", "        hashes, groups = [], {}\n"),
    (
        "            for number, pages in "
        "enumerate(manager.get_page_indices_by_layer_group(req)):\n"
        "                groups.append(pages[len(self.groups[number]):])\n"
        "                self.groups[number] += groups[-1]\n",
        "            by_group = manager.get_page_indices_by_layer_group(req)\n"
        "            for number, pages in by_group.items():\n"
        "                groups[number] = pages[len(self.groups[number]):]\n"
        "                self.groups[number] += groups[number]\n",
    ),
    ("groups[0] if len(groups) == 1", "next(iter(groups.values())) if len(groups) == 1"),
)

TYPES = {
    "msgspec": importing(
        of_type("", "(msgspec.Struct)", "msgspec.field(default_factory=list)"), "import msgspec"
    ),
    "attrs": importing(of_type("@attrs.define\n", "", "attrs.field(factory=list)"), "import attrs"),
    "slots": changed(AFTER, (_DATA, _SLOTS)),
    "named tuples": changed(
        importing(changed(AFTER, (_DATA, _TUPLES)), "from typing import NamedTuple"),
        ("        output = SchedulerOutput()\n", "        output = SchedulerOutput([], [])\n"),
        (_SUBTRACTED, _REPLACED.format("RequestData._replace")),
    ),
    "mapping": _MAPPING,
    "list read, mapping reported": changed(
        _MAPPING, ("in by_group.items()", "in enumerate(by_group)")
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_each_type_is_compared_and_counted(run_here: Run, tmp_path: Path, name: str):
    if name in ("msgspec", "attrs") and importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    path = tmp_path / "arm.py"
    path.write_text(TYPES[name])

    same = run_here("verify", "file:arm.py", "--runs", "8", "-q")
    counted = run_here("count", "--arms", "file:arm.py", "--cells", "2x64", "-q")
    path.write_text(changed(TYPES[name], ("1 + get_draft_token_length(req)", "1")))
    wrong = run_here("verify", "file:arm.py", "--runs", "8", "-q")

    assert (same.code, same.err) == (0, "")
    assert same.out.startswith("Same: `file:arm.py` ")
    assert "Not compared" not in same.out
    assert (counted.code, counted.err) == (0, "")
    assert wrong.code == 1
    assert ".num_scheduled_tokens:" in wrong.out


def test_a_group_under_another_number_is_a_difference(run_here: Run, tmp_path: Path):
    text = changed(
        _MAPPING,
        ("groups[number] = pages[", "groups[number + 1] = pages["),
        ("self.groups[number] += groups[number]", "self.groups[number] += groups[number + 1]"),
    )
    (tmp_path / "arm.py").write_text(text)

    ran = run_here("verify", "file:arm.py", "--runs", "8", "-q")

    assert ran.code == 1
    assert ".new_block_ids_by_layer_group:" in ran.out
