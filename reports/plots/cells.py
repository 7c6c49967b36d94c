"""How a plot names a cell."""

from scenarios.scenario import SteadyDecode, TraceReplay
from subjects.base import Cell


def label(scenario: SteadyDecode | TraceReplay | Cell) -> str:
    """Return a short name, such as ``64 x 8,192`` or ``64 x 8,192 V1 overlap``."""
    if not isinstance(scenario, SteadyDecode):
        return scenario.name
    words = [f"{scenario.requests} x {scenario.tokens:,}"]
    words += ["V1"] if scenario.manager == "v1" else []
    return " ".join([*words, *scenario.settings()])
