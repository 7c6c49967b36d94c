"""A checkout of an engine made by a test, with connector modules of ``connectors.py``."""

from pathlib import Path

from harness.arms.loading import ArmOfSource
from harness.arms.sources import find_source
from scenarios.operations import Operation, Setting
from stubs.kv_cache_v2 import LayerGroup

from .connectors import OLD_PLACE, PLACE
from .repositories import commit, init

REPORT = Operation("report")
V1 = Setting("v1", 4, (LayerGroup(),), "list", attention_dp=False, overlap=False)
V2 = Setting("v2", 4, (LayerGroup(),), "list", attention_dp=False, overlap=False)
# A prompt of 6 tokens, and one token in each of 6 iterations: two more pages.
STEADY = (
    *(Operation("join", (6, 0, 0, 0, 0, 0)), Operation("chunk", (0, 6)), REPORT),
    *(Operation("generate", (0, 1)), REPORT) * 6,
)


class Checkout:
    """A repository with one revision for each text; the last one is the work tree as well."""

    def __init__(self, root: Path) -> None:
        self.root = init(root)

    def add(self, text: str, place: str = PLACE) -> ArmOfSource:
        """Commit a text in place of the last one, and return what makes its arms."""
        for old in (PLACE, OLD_PLACE):
            (self.root / old).unlink(missing_ok=True)
        return self.at(commit(self.root, place, text))

    def at(self, revision: str) -> ArmOfSource:
        return self._arm(f"trtllm:{self.root}@{revision}")

    def work_tree(self) -> ArmOfSource:
        return self._arm(f"trtllm:{self.root}")

    def _arm(self, spec: str) -> ArmOfSource:
        return ArmOfSource(find_source(spec))


def everything(folder: Path) -> dict[str, bytes]:
    """All that is on disk below a folder, what git keeps included."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
