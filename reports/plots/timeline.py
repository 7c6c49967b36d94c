"""Iteration after iteration of one process, with the boundaries of blocks."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.speedup.file import Results
from scenarios.scenario import SteadyDecode, TraceReplay

from .cells import label
from .style import (
    MOST_PANELS,
    Plot,
    Theme,
    beyond,
    in_words,
    legend_below,
    log_if_wide,
    look,
    panels,
)

_HEIGHT = 2.1


def plot(results: Results, name: str) -> Plot | None:
    """Return the plot of the first process of each cell and arm."""
    cells = _first_processes(results)
    if not cells:
        return None
    arms = results.plan.arms

    def draw(theme: Theme) -> Figure:
        shown = list(cells)[:MOST_PANELS]
        figure, all_axes = panels(len(shown), _HEIGHT)
        for axes, scenario in zip(all_axes, shown, strict=True):
            boundaries: list[int] = []
            for arm, (seconds, first) in cells[scenario].items():
                style = look(theme, arms.index(arm))
                axes.plot(
                    [1e3 * value for value in seconds],
                    color=style.color,
                    linestyle=style.line,
                    linewidth=1,
                    label=arm,
                )
                boundaries = boundary_iterations(scenario, first, len(seconds))
            for iteration in boundaries:
                axes.axvline(iteration, color=theme.text, linestyle=":", linewidth=1)
            log_if_wide(
                axes, "y", [1e3 * x for values, _ in cells[scenario].values() for x in values]
            )
            axes.set(ylabel="ms")
            axes.set_title(label(scenario), loc="left")
            axes.grid(visible=False, axis="x")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        all_axes[-1].set(xlabel="iteration")
        legend_below(figure, all_axes)
        return figure

    return Plot(
        name,
        "Iterations of one process",
        f"Time of each timed iteration of the first process of {in_words(arms)}, a panel a cell. "
        "Dotted: iterations in which all requests get a new block, where that is known."
        + beyond(len(cells)),
        draw,
    )


def boundary_iterations(
    scenario: SteadyDecode | TraceReplay, first: float, count: int
) -> list[int]:
    """Return the timed iterations, from 0, in which all requests get a new block.

    An empty list where they do not get it together, or where that depends on what was accepted.

    Args:
        scenario: the cell.
        first: tokens per request in the first timed iteration.
        count: how many iterations there are.
    """
    if not isinstance(scenario, SteadyDecode) or scenario.boundaries != "aligned":
        return []
    if scenario.draft_tokens or first != int(first):
        return []
    # The iteration's blocks hold all tokens; under overlap also that of the forward before.
    held = int(first) + scenario.overlap
    block = scenario.tokens_per_block
    return [iteration for iteration in range(count) if (held + iteration - 1) % block == 0]


def _first_processes(
    results: Results,
) -> Mapping[SteadyDecode | TraceReplay, dict[str, tuple[tuple[float, ...], float]]]:
    found: dict[SteadyDecode | TraceReplay, dict[str, tuple[tuple[float, ...], float]]] = {}
    for job, run in results.runs():
        own = found.setdefault(job.scenario, {})
        if job.arm not in own:  # Jobs come process by process.
            own[job.arm] = (run.values, run.get_metadata()["stepbench_tokens_first"])
    return found
