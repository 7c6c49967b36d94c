"""The benchmarks are scripts: they find each other in their own folder, as they do when run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
