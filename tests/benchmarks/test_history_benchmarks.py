"""The two benchmarks of the history, on as little as they take."""

import re

import pytest

pytest.importorskip("pyarrow", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("fsspec", reason="the history is an extra: pip install 'stepbench[history]'")
pytest.importorskip("ruptures", reason="the history is an extra: pip install 'stepbench[history]'")

import change_point_study
import history_speed
from click.testing import CliRunner


@pytest.mark.thorough
def test_the_speed_is_that_of_the_command_itself():
    ran = CliRunner().invoke(history_speed.main, ["--runs", "3", "--times", "1"])

    assert ran.exception is None
    lines = ran.output.splitlines()
    # Two cells, two arms, two processes, nine rounds of fifteen.
    assert lines[0].startswith("3 runs, 3,240 samples, ")
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "trend",
        "trend --plot trend.svg",
        "trend --plot trend.png",
    ]
    assert all(
        re.search(r": \d+\.\d\d s \(\d+\.\d\d to \d+\.\d\d, 1 times\)$", line) for line in lines[1:]
    )


def test_the_study_prints_both_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(change_point_study, "_SERIES", 3)
    monkeypatch.setattr(change_point_study, "_TRIALS", 2)
    monkeypatch.setattr(change_point_study, "_LENGTHS", ((6, 40),))
    monkeypatch.setattr(change_point_study, "_AFTER", (3, 20))

    change_point_study.main()

    blocks = capsys.readouterr().out.split("\n\n")
    assert blocks[1].splitlines()[0] == "| Noise | 6 to 39 runs |"
    assert blocks[1].splitlines()[2] == "| normal | 0 (0.00% to 70.76%) |"
    assert blocks[3].splitlines()[0] == "| Step | Runs before | 3 after | 20 after |"
    assert blocks[3].splitlines()[-1] == "| 5% | 100 | 2 | 2 |"


def test_noise_with_memory_has_one():
    generator = change_point_study.np.random.default_rng(0)

    values = change_point_study.with_memory(generator, 20_000)

    correlation = change_point_study.np.corrcoef(values[1:], values[:-1])[0, 1]
    assert correlation == pytest.approx(0.3, abs=0.03)
