"""The script for a machine with a GPU: where there is none, and on the simulated device."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the plot needs matplotlib")

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


def test_samples_table_and_plot_are_written(tmp_path: Path):
    done = run(
        tmp_path,
        *("--device", "simulated", "--cells", "1x8", "--processes", "1", "--folder", "out"),
    )

    # Whether the steps were the model's is not for a busy machine to say.
    assert done.returncode in {0, 1}, done.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"gpu-overlap{end}" for end in ("-cold.json", "-warm.json", ".md", ".svg")]
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    # Two states of the caches, three arms, two orders.
    assert len(rows) == 2 + 2 * 3 * 2
    assert "<svg" in (tmp_path / "out/gpu-overlap.svg").read_text()[:1000]
    assert (tmp_path / "out/gpu-overlap.md").read_text().startswith("| Cell | Arm | Overlap |")
