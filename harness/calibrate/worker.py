"""A worker process of a calibration: the costs of one provider.

``harness.calibrate.calibration`` starts it as ``python -m harness.calibrate.worker`` with a job on
standard input; the costs go to standard output, both as JSON.
"""

import gc
from dataclasses import asdict
from typing import Any

from harness.system.serving import serve
from stubs.providers import load_provider

from .calibration import calibrate


def measure(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the costs of the provider that a job names."""
    gc.collect()
    gc.freeze()
    costs = calibrate(load_provider(job["provider"]), lengths=job["lengths"])
    return [asdict(cost) for cost in costs]


if __name__ == "__main__":
    serve(measure)
