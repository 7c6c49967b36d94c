"""What stands below the table of ``stepbench overlap``: findings, assumptions, where it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.overlap.exposure import Exposure, exposures, largest_departure
from harness.overlap.figures import LIMIT, CellFigures, OrderFigures
from harness.overlap.run import WARMUPS, OverlapPlan
from reports.render.numbers import format_time
from reports.render.words import code, counted
from reports.speedup.steps import left_to_others
from scenarios.scenario import SteadyDecode

# Beyond it the measured steps are not what the model says.
_FAR = 0.05
# Processes of the same cell and arm do the same work.
_FAR_APART = 1.25
# A loop that never sleeps has its core to itself.
_ALONE = 0.95
# NVML's reasons for clocks below the highest that hold nothing back: none, and an idle GPU.
_HARMLESS = 0x1


def notes(
    plan: OverlapPlan, cells: Sequence[CellFigures], devices: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Return the sentences that a reader must not miss."""
    found = _unrealistic(plan, cells)
    points = exposures(plan, cells)
    found += map(_exposure, points)
    if plan.device == "cuda":
        found.append(
            "From which context or batch on the path is exposed is not named: Host holds what the "
            "stand-ins do. What an engine would expose, the model says without that."
        )
    elif not points and all(isinstance(scenario, SteadyDecode) for scenario in plan.scenarios):
        found.append(
            "From which context or batch on the path is exposed, realistic cells tell that differ "
            "in it alone, such as `--requests 64 --tokens 512,2048,8192`."
        )
    found += _dear(cells)
    found += _background(cells)
    return [*found, *_saved(cells), *_agreement(cells), *_noise(cells), *_clocks(devices)]


def assumptions(plan: OverlapPlan) -> str:
    """Return the paragraph that says what the figures are, and what they are not."""
    between = engine = ""
    if plan.device == "cuda":
        # The sweep is one of the things for which a real GPU does not wait.
        between = f", and what the stand-ins do meanwhile{' and the sweep' if plan.swept else ''}"
        engine = (
            "Exposed is what the events measured; Exposed, engine is what the model makes of Host "
            "without that, as on an engine, and of the measured forward. "
        )
    saved = ""
    if len(plan.arms) > 1:
        base = code(plan.arms[0].spec)
        saved = f"Saved is how much shorter a step is than with {base}, of the same process. "
    steady = all(isinstance(scenario, SteadyDecode) for scenario in plan.scenarios)
    caches = "The host's caches are warm, as the loop leaves them."
    if plan.swept:
        caches = (
            f"Before each path {plan.swept / 2**20:,.0f} MiB were read and written, so that the "
            "host's caches hold little of what it needs."
        )
    return (
        f"Assumptions. Host is the path, {plan.other_host * 1e3:g} ms of other host work before "
        f"the launch (`--other-host-ms`), and the launch{between}. Forward: "
        f"{plan.forward.describe()}. Without overlap a step is Host and then Forward, and all of "
        "Host is exposed. With the overlap scheduler Host is hidden while the forward of the "
        "iteration before still runs, and what is longer than that is exposed: a forward of at "
        "least Host hides it all. Path, Host, Exposed and Hidden are those with overlap. "
        f"{engine}{saved}Not in it: sampling, the update of the requests, the connector's own "
        "work, and communication between GPUs; every layer attends to the whole context. These are "
        "times of a step: what a service gains by them depends on much else, and is not said here. "
        f"Measured in the executor's loop, with the real path in it, on {_device(plan)}: "
        f"{counted(plan.processes, 'process')} of a cell, in each of them all arms in both orders, "
        f"in random turn, {counted(WARMUPS, 'warm-up iteration')} and then {_counts(plan)}. A "
        f"process gives the {'median' if steady else 'mean'} of its iterations, and figures are "
        "means over processes, with 95 % intervals. The garbage collector is off. "
        f"{caches}"
    )


def whereabouts(
    plan: OverlapPlan, devices: Sequence[Mapping[str, Any]], metadata: Mapping[str, object]
) -> str:
    """Return the paragraph that names machine, code and command."""
    words = [str(metadata["where"])]
    for about in [about for about in devices if about][:1]:
        layers, held = about["layers"], about["layers_held"]
        own = "of their own" if held == layers else f"for {held} of them, used in turn"
        words.append(
            f"{about['gpu']}, PyTorch {about['torch']}, CUDA {about['cuda']}; the forward has all "
            f"{layers} layers, with matrices {own}."
        )
    command = code(str(metadata["command"]))
    return " ".join([*words, f"Seed {plan.seed}. Repeat with {command}."])


def _unrealistic(plan: OverlapPlan, cells: Sequence[CellFigures]) -> list[str]:
    """Return a sentence for each reason that cells cannot be for."""
    by_reason: dict[str, list[str]] = {}
    for cell in cells:
        reason = plan.forward.unrealistic(cell.scenario)
        if reason is not None:
            by_reason.setdefault(reason, []).append(cell.scenario.name)
    return [f"Not realistic: {', '.join(names)}: {why}." for why, names in by_reason.items()]


def _dear(cells: Sequence[CellFigures]) -> list[str]:
    """Say of which arms some steps are dear, as those of another arm are not."""
    return [
        f"Some steps of {code(arm.arm)} in {cell.scenario.name} are dear: its path takes "
        f"{format_time(arm.with_overlap.path.value)} in a typical step and "
        f"{format_time(arm.with_overlap.path_mean.value)} in the mean. The times of the table are "
        "those of typical steps."
        for cell in cells
        for arm in cell.dear
    ]


def _background(cells: Sequence[CellFigures]) -> list[str]:
    """Say which arms leave work to others; it counts as host time."""
    what = "which competes for the interpreter lock and is part of Host"
    found = [
        left_to_others(
            cell.scenario.name,
            arm.arm,
            arm.with_overlap.background.value,
            arm.with_overlap.path_mean.value,
            arm.alive,
            what,
        )
        for cell in cells
        for arm in cell.arms
    ]
    return [words for words in found if words is not None]


def _noise(cells: Sequence[CellFigures]) -> list[str]:
    spreads = [(arm.spread, cell.scenario.name, arm.arm) for cell in cells for arm in cell.arms]
    far = sorted((each for each in spreads if each[0] > _FAR_APART), reverse=True)
    notes = []
    share = min((cell.cpu_share for cell in cells), default=1.0)
    if share < _ALONE:
        notes.append(
            f"Busy core: a process got {share:.0%} of it. What it waited for the core is in the "
            "steps, and not in the model's."
        )
    if far:
        factor, name, arm = far[0]
        words = f"{name} with {code(arm)} by a factor of {factor:.2f}"
        others = f", and {len(far) - 1} more" if len(far) > 1 else ""
        notes.append(f"Noisy: processes of the same cell differ, {words}{others}.")
    return notes


def _exposure(found: Exposure) -> str:
    """Say where an arm is exposed and where hidden, of the cells in which that is clear."""
    first = found.cells[0]
    if found.size == "tokens":
        common, size = counted(first.requests, "request"), "tokens per request"
    else:
        common, size = f"{first.tokens:,} tokens per request", "requests"
    values = [cell.tokens if found.size == "tokens" else cell.requests for cell in found.cells]
    words = ", ".join([common, first.manager.upper(), *first.settings()])
    where = f"With {words}, overlap:"
    known = [state for state in dict.fromkeys(found.states) if state is not None]
    unclear = _listed(values, found.states, None)
    if not known:
        return f"{where} whether {code(found.arm)} is exposed at {unclear} {size} is not clear."
    if found.point is not None:
        what = f"{known[0]} up to about {found.point:,.0f} {size}, and {known[1]} from there on"
    elif len(known) == 1 and not unclear:
        what = f"{known[0]} at {values[0]:,} to {values[-1]:,} {size}"
    else:
        parts = [f"{state} at {_listed(values, found.states, state)}" for state in known]
        what = f"{' and '.join(parts)} {size}"
    doubt = f"; at {unclear} that is not clear" if unclear else ""
    return f"{where} {code(found.arm)} is {what}{doubt}."


def _listed(values: Sequence[int], states: Sequence[str | None], state: str | None) -> str:
    return ", ".join(
        f"{value:,}" for value, own in zip(values, states, strict=True) if own == state
    )


def _saved(cells: Sequence[CellFigures]) -> list[str]:
    """Say whether steps differ between arms by what the model predicts."""
    orders = [
        (cell.scenario.name, arm.arm, words, order)
        for cell in cells
        for arm in cell.arms
        for words, order in (("no overlap", arm.without_overlap), ("overlap", arm.with_overlap))
        if order.verdict is not None
    ]
    if not orders:
        return []
    verdicts = [order.verdict for *_, order in orders]
    departing = [each for each in orders if each[-1].verdict == "departs"]
    words = (
        f"What the model predicts to be saved was saved, within {LIMIT:.0%} of it, in "
        f"{verdicts.count('holds')} of {counted(len(orders), 'comparison')}; too noisy or too "
        f"little to say in {verdicts.count('inconclusive')}"
    )
    if not departing:
        return [f"{words}."]
    name, arm, order_words, order = max(departing, key=lambda each: _missed(each[-1]))
    return [
        f"{words}; not so in {len(departing)}, most in {name} with {code(arm)}, {order_words}: "
        f"off by {_missed(order):.0%}."
    ]


def _missed(order: OrderFigures) -> float:
    """Return by what share of what it predicts the model is off, of an order that departs."""
    if order.predicted_saved is None or order.unpredicted is None:
        return 0.0
    return abs(order.unpredicted.value / order.predicted_saved.value)


def _agreement(cells: Sequence[CellFigures]) -> list[str]:
    found = largest_departure(cells)
    if found is None:
        return []
    share, cell, arm, overlap = found
    words = (
        f"The measured steps depart from those of the model by at most {share:.1%} ({cell}, "
        f"{code(arm)}, {'overlap' if overlap else 'no overlap'})."
    )
    if share > _FAR:
        words += " That is much: the machine was busy, or the model misses something here."
    return [words]


def _clocks(devices: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what held the clocks of GPUs back, or that they could not be asked."""
    states = [
        device[when]
        for device in devices
        for when in ("state_before", "state_after")
        if when in device
    ]
    notes = ["Clock state not readable."] if not all(states) else []
    active = {str(state.get("clocks_event_reasons.active", "")) for state in states}
    reasons = sorted(filter(_holds_back, active))
    if reasons:
        words = ", ".join(reasons)
        notes.append(f"The GPU's clocks were held back; the reasons that NVML gives: {words}.")
    return notes


def _holds_back(reasons: str) -> bool:
    """Return whether a bit mask of NVML names a reason to hold clocks back."""
    try:
        return bool(int(reasons, 16) & ~_HARMLESS)
    except ValueError:  # Not known there.
        return False


def _counts(plan: OverlapPlan) -> str:
    counts = sorted({plan.iterations_of(scenario) for scenario in plan.scenarios})
    return " or ".join(f"{count:,}" for count in counts)


def _device(plan: OverlapPlan) -> str:
    if plan.device == "cuda":
        return "a real GPU, timed by its events"
    return (
        "a virtual GPU that is busy for the forward's time; its clock and the host's stand still "
        "while the stand-ins move on, and a launch costs next to nothing, unlike a real one"
    )
