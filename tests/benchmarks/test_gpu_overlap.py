"""The script for a machine with a GPU: where there is none, and on the simulated device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/gpu_overlap.py"


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_without_a_gpu_one_line_says_so(tmp_path: Path):
    # Stands before an installed one, of whatever kind.
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--cells", "1x8"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    (_, line) = done.stderr.splitlines()
    assert line.startswith("stepbench: error: --device cuda needs PyTorch")
    assert done.stdout == ""


@pytest.mark.thorough
def test_samples_table_and_plot_are_written(tmp_path: Path):
    done = run(
        tmp_path,
        *("--device", "simulated", "--cells", "1x8", "--processes", "1", "--folder", "out"),
    )

    # Of one process nothing can be said, which is no pass.
    assert done.returncode == 3, done.stderr
    assert "inconclusive: 8." in done.stdout.splitlines()[-1]
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"gpu-overlap{end}" for end in ("-cold.json", "-warm.json", ".md", ".svg")]
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    # Two states of the caches, three arms, two orders.
    assert len(rows) == 2 + 2 * 3 * 2
    assert "<svg" in (tmp_path / "out/gpu-overlap.svg").read_text()[:1000]
    assert (tmp_path / "out/gpu-overlap.md").read_text().startswith("| Cell | Arm | Overlap |")


@pytest.mark.thorough
def test_a_worker_that_dies_is_no_departure(tmp_path: Path):
    # Ends each worker, in whose place it is started, before it has said anything.
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'harness.overlap.worker' in ' '.join(sys.orig_argv):\n    os._exit(7)\n"
    )
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--device", "simulated", "--cells", "1x8", "--folder", "out"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 4, done.stderr
    assert done.stdout.splitlines()[-1] == (
        "Incomplete: a worker failed, or there was no time left."
    )
