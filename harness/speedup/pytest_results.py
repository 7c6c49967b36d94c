"""Results that pytest-benchmark wrote of the cells, as the suite that a results file of ours holds.

Each test of ``tests/benchmarks/test_cells.py`` notes in its ``extra_info`` what a worker of ours
notes about its run: the plan, the cell, the arm, the machine. The samples are pytest-benchmark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyperf

from harness.system.files import damage
from harness.system.fingerprint import DIGEST
from stepbench_core.errors import InputError

# Where a test's ``extra_info`` has the notes, which are the metadata of a run.
NOTES = "stepbench"
# Name of the metadata that says who measured, where that was not one of our commands.
TOOL = "stepbench_tool"

_TESTS = "tests/benchmarks/test_cells.py"


def is_pytest_benchmark(document: object) -> bool:
    """Return whether a JSON document is one that pytest-benchmark writes."""
    return isinstance(document, dict) and document.keys() >= {"benchmarks", "machine_info"}


def load_suite(path: Path, document: Mapping[str, Any]) -> pyperf.BenchmarkSuite:
    """Return what pytest-benchmark measured of our cells: a benchmark with one run for each.

    Benchmarks of other tests in the document are left out. Whether the runs are those of their
    plan is not checked here.

    Args:
        path: where it was read.
        document: the document.

    Raises:
        InputError: it is damaged, holds no samples, or none of our cells.
    """
    found = document["benchmarks"]
    notes_of = [_notes(benchmark) for benchmark in found] if isinstance(found, list) else []
    if not any(notes is not None for notes in notes_of):
        raise InputError(f"{path}: a pytest-benchmark file, but not of {_TESTS}")
    try:
        tool = f"pytest-benchmark {document['version']}"
        runs = [
            _run(benchmark["stats"], {**notes, TOOL: tool})
            for benchmark, notes in zip(found, notes_of, strict=True)
            if notes is not None
        ]
        _check_one_place(runs)
        return pyperf.BenchmarkSuite([pyperf.Benchmark([run]) for run in runs])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: damaged: {damage(error)}") from None


def _check_one_place(runs: Sequence[pyperf.Run]) -> None:
    """Raise InputError if runs are of several machines or Pythons: one table cannot hold them."""
    names = (DIGEST, "hostname", "python_version")
    if len({tuple(run.get_metadata().get(name) for name in names) for run in runs}) > 1:
        raise InputError("it mixes runs of several machines or Pythons")


def _notes(benchmark: object) -> Mapping[str, Any] | None:
    """Return our notes of a benchmark, or None if it is not one of ours."""
    info = benchmark.get("extra_info") if isinstance(benchmark, dict) else None
    return info.get(NOTES) if isinstance(info, dict) else None


def _run(stats: Mapping[str, Any], metadata: Mapping[str, Any]) -> pyperf.Run:
    if "data" not in stats:
        raise InputError(
            "pytest-benchmark kept no samples: it does with --benchmark-json, and with "
            "--benchmark-save-data beside --benchmark-save"
        )
    if "stepbench_format" not in metadata:
        raise ValueError("a benchmark without the version of its format")
    return pyperf.Run(stats["data"], metadata=metadata, collect_metadata=False)
