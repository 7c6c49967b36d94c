"""Documents as pytest-benchmark writes them of the cells, without measuring anything."""

from typing import Any

from harness.speedup.file import FORMAT
from harness.speedup.plan import Job, Plan
from harness.speedup.pytest_results import NOTES

from .helpers import make_benchmark

VALUES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


def pytest_document(plan: Plan, **metadata: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the document of a plan of one process; all cells have the same samples."""
    return {
        "machine_info": {"node": "elsewhere", "cpu": {"brand_raw": "Abacus 9"}},
        "commit_info": {"id": "0123abcd", "dirty": False, "branch": "main"},
        "benchmarks": [_benchmark(plan, job, metadata) for job in plan.jobs()],
        "datetime": "2026-03-04T05:06:07.891011+00:00",
        "version": "5.3.1",
    }


def _benchmark(plan: Plan, job: Job, metadata: dict[str, Any]) -> dict[str, Any]:
    (run,) = make_benchmark(job, **metadata).get_runs()
    common = {"stepbench_format": FORMAT, "stepbench_plan": plan.to_json()}
    name = f"test_cell[{job.benchmark}]"
    return {
        "group": None,
        "name": name,
        "fullname": f"tests/benchmarks/test_cells.py::{name}",
        "params": {"name": job.benchmark},
        "param": job.benchmark,
        "extra_info": {NOTES: {**run.get_metadata(), **common}},
        "options": {"disable_gc": True, "timer": "perf_counter", "min_rounds": 5},
        "stats": {"min": 1.0, "max": 6.0, "rounds": 6, "data": list(VALUES), "iterations": 1},
    }
