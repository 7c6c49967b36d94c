"""That the arms do what the project's own budget file says, on each supported Python."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_arms_keep_within_their_budget():
    # One cell: `nox -s gate` checks them all.
    command = ["count", "--check", "--arms", "all", "--cells", "16x8192", "--quiet"]
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "stepbench", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Seven arms, eleven figures, but the floor retains nothing that is counted.
    assert ran.stdout == f"Within budget: 76 figures of budgets.toml on Python {version}.\n"
    assert (ran.returncode, ran.stderr) == (0, "")
