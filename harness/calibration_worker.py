"""A worker process of a calibration: the costs of one provider.

``harness.calibration`` starts it as ``python -m harness.calibration_worker`` with a job on standard
input; the costs go to standard output, both as JSON.
"""

import gc
import json
import os
import sys
from dataclasses import asdict

from stubs.providers import load_provider

from .affinity import pin
from .calibration import calibrate
from .child import take_over_stdout


def main() -> None:
    """Calibrate what standard input names."""
    result = take_over_stdout()
    job = json.load(sys.stdin)
    if job["cpu"] is not None:
        pin(job["cpu"])
    gc.collect()
    gc.freeze()
    costs = calibrate(load_provider(job["provider"]), lengths=job["lengths"])
    json.dump([asdict(cost) for cost in costs], result)
    result.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
