"""A worker process of a calibration: the costs of one provider.

``harness.calibrate.calibration`` starts it as ``python -m harness.calibrate.worker`` with a job on
standard input; the costs go to standard output, both as JSON.
"""

import gc
import json
import os
import sys
from dataclasses import asdict

from harness.system.affinity import pin
from harness.system.worker_process import take_over_stdout
from stubs.providers import load_provider

from .calibration import calibrate


def main() -> None:
    """Calibrate what standard input names."""
    result = take_over_stdout()
    job = json.load(sys.stdin)
    if job["cpu"] is not None:
        pin(job["cpu"])
    gc.collect()
    gc.freeze()
    costs = calibrate(load_provider(job["provider"]), lengths=job["lengths"])
    result.write(json.dumps([asdict(cost) for cost in costs]))
    result.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
