"""How a plot names a cell."""

from scenarios.scenario import SteadyDecode, TraceReplay


def label(scenario: SteadyDecode | TraceReplay) -> str:
    """Return a short name, such as ``64 x 8,192`` or ``64 x 8,192 V1 overlap``."""
    if not isinstance(scenario, SteadyDecode):
        return scenario.name
    words = [f"{scenario.requests} x {scenario.tokens:,}"]
    words += ["V1"] if scenario.manager == "v1" else []
    return " ".join([*words, *scenario.settings()])
