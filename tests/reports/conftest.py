"""Results files written by hand: the samples are chosen, nothing is measured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyperf
import pytest

from harness.speedup.file import Results, ResultsWriter, load
from harness.speedup.plan import Plan, Protocol
from harness.stats.estimates import Estimate
from reports.speedup.summary import Cell, Summary
from scenarios.scenario import SteadyDecode, TraceReplay

MACHINE = {
    "hostname": "box",
    "cpu_model_name": "Test CPU 9000",
    "cpu_count": 8,
    "python_implementation": "cpython",
    "python_version": "3.12.1 (64-bit)",
}

# (number of the cell, arm, process) -> its samples, or one number for all of them.
Samples = Mapping[tuple[int, str, int], float | Sequence[float]]
WriteResults = Callable[..., Results]


def make_plan(
    *scenarios: SteadyDecode | TraceReplay,
    arms: tuple[str, ...] = ("full-copy", "incremental"),
    protocol: Protocol | None = None,
    **fields: object,
) -> Plan:
    """A plan with processes of a single round of three samples."""
    return Plan(
        scenarios=scenarios or (SteadyDecode(requests=2, tokens=64),),
        arms=arms,
        protocol=protocol or Protocol(processes=3, warmups=1, rounds=1, samples=3),
        **fields,  # type: ignore[arg-type]
    )


@pytest.fixture
def write_results(tmp_path: Path) -> WriteResults:
    """Writes a results file and reads it back, as a command would."""
    return partial(results_in, tmp_path)


def results_in(
    folder: Path,
    plan: Plan,
    samples: Samples,
    *,
    name: str = "results.json",
    machine: Mapping[str, object] = MACHINE,
    metadata: Mapping[str, str | int | float] | None = None,
    runs: Mapping[tuple[int, str, int], Mapping[str, object]] | None = None,
) -> Results:
    """Write a results file into a folder and read it back."""
    writer = ResultsWriter(folder / name, plan, metadata or {})
    for key, values in samples.items():
        cell, arm, process = key
        noted = {
            **machine,
            "name": f"{plan.scenarios[cell].name}/{arm}",
            "date": f"2026-03-04 05:06:{process:02}",
            "duration": 1.0,
            "load_avg_1min": 0.5,
            "stepbench_process": process,
            "stepbench_requests_mean": 2.0,
            "stepbench_tokens_first": 64.0,
            "stepbench_tokens_last": 66.0,
            "stepbench_tokens_mean": 65.0,
            "stepbench_load_start": 0.25,
            **(runs or {}).get(key, {}),
        }
        if isinstance(values, float):
            values = [values] * plan.protocol.values  # noqa: PLW2901
        run = pyperf.Run(values, metadata=noted, collect_metadata=False)
        writer.add(pyperf.Benchmark([run]))
    return load(folder / name)


def make_cell(
    scenario: SteadyDecode | TraceReplay,
    seconds: Mapping[str, float],
    speedups: Mapping[str, tuple[float, float, float]],
    *,
    times_floor: Mapping[str, tuple[float, float, float]] | None = None,
    requests: float = 2.0,
    tokens: float = 65.0,
) -> Cell:
    """A cell of a summary, with times that have no interval of interest."""
    return Cell(
        scenario=scenario,
        requests=requests,
        tokens=tokens,
        seconds={arm: Estimate(value, value / 2, value * 2) for arm, value in seconds.items()},
        speedups={arm: Estimate(*values) for arm, values in speedups.items()},
        times_floor={arm: Estimate(*values) for arm, values in (times_floor or {}).items()},
        processes=dict.fromkeys(seconds, 3),
    )


def make_summary(
    *cells: Cell,
    arms: tuple[str, ...] = ("full-copy", "incremental"),
    file: str = "results.json",
    machine: tuple[str, ...] = ("box", "Test CPU 9000", "8", "cpython", "3.12.1 (64-bit)"),
    notes: tuple[str, ...] = (),
    provenance: str = "Measured somewhere. Repeat with `stepbench speedup`.",
) -> Summary:
    """A summary of ``cells``, or of one cell that is five times as fast."""
    usual = make_cell(
        SteadyDecode(requests=2, tokens=64),
        {"full-copy": 1e-3, "incremental": 2e-4},
        {"incremental": (5.0, 4.5, 5.5)},
    )
    return Summary(file, machine, "python", arms, cells or (usual,), notes, provenance)
