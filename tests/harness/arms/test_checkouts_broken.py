"""Modules of a checkout that cannot be imported, or are no arm."""

import sys

import pytest

from harness.arms.loading import CLASS
from stepbench_core.errors import InputError

from ..checkouts import Checkout
from ..connectors import AFTER, changed

CANNOT = "cannot be imported: "


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class (:\n", f"{CANNOT}SyntaxError: invalid syntax"),
        (AFTER + "<<<<<<< HEAD\n", f"{CANNOT}SyntaxError: "),
        ("raise RuntimeError('no device')\n", f"{CANNOT}RuntimeError: no device"),
        ("import sys\nsys.exit(0)\n", f"{CANNOT}SystemExit: 0"),
        (
            "from ..scheduler import x\nx()\n",
            "cannot be run here: uses tensorrt_llm._torch.pyexecutor.scheduler.x (line 2), for "
            "which there is no stand-in",
        ),
        (
            "import torch\n@torch.vmap()\ndef f(): ...\n",
            "cannot be run here: uses torch.vmap (line 2), for which there is no stand-in",
        ),
        (
            "import torch\nassert torch.__version__\n",
            "cannot be run here: uses torch.__version__ (line 2), for which there is no stand-in",
        ),
        ("import no.such\n1 / 0\n", f"{CANNOT}ZeroDivisionError: division by zero"),
        ("import torch\n", f"has no class {CLASS}"),
        (AFTER.replace(CLASS, "Other"), f"has no class {CLASS}"),
        (
            changed(AFTER, ("*, enable_attention_dp: bool = False", "size")),
            "cannot be made: TypeError: ",
        ),
        (
            changed(AFTER, ("        self.external_loads = {}\n\n", "        self.x = 1 / 0\n\n")),
            "cannot be made: ZeroDivisionError: division by zero",
        ),
        (
            changed(AFTER, ("    def build_scheduler_output", "    def build")),
            "has no method build_scheduler_output",
        ),
        (
            changed(
                AFTER,
                (
                    "scheduled_batch: ScheduledRequests, new_async_requests, kv_cache_manager",
                    "scheduled_batch: ScheduledRequests",
                ),
            ),
            "build_scheduler_output takes other arguments than batch, loads and manager",
        ),
        (
            changed(
                AFTER,
                (
                    "self, scheduled_batch: ScheduledRequests, new",
                    "self, *, scheduled_batch: ScheduledRequests, new",
                ),
            ),
            "build_scheduler_output takes other arguments than batch, loads and manager",
        ),
    ],
)
def test_a_broken_module_is_bad_input_in_one_line(engine: Checkout, text: str, why: str):
    arm = engine.add(text)
    names = set(sys.modules)

    with pytest.raises(InputError) as caught:
        arm(attention_dp=False)

    assert str(caught.value).startswith(f"{arm.source.spec}: {why}")
    assert "\n" not in str(caught.value)
    left = {name for name in set(sys.modules) - names if not name.startswith("stubs.surface.")}
    assert len(left) == (0 if "(line 2)" in why or "import" in why or "no class" in why else 1)
