"""Figures of ``stepbench overlap`` for its report, of made-up processes."""

from harness.forward.forward_time import ForwardTime
from harness.overlap.figures import CellFigures, figures
from harness.overlap.run import OverlapPlan
from scenarios.scenario import SteadyDecode

from ..harness.overlap_runs import CELL, make_run, make_segments

ROOFLINE = ForwardTime(model="llama-3.1-8b", gpu="h100")


def two_processes(plan: OverlapPlan, scenario: SteadyDecode = CELL) -> CellFigures:
    """Paths of 6 and 1 ms in one process, of 6.2 and 1.1 in the other; a forward of 4."""
    return figures(
        plan,
        make_run(
            scenario,
            [
                make_segments([0.006, 0.001], 0.004),
                make_segments([0.0062, 0.0011], 0.004),
            ],
        ),
    )
