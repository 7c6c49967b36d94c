"""Something new of each kind, as CONTRIBUTING.md says: a file and a line, and it is there."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .stepbench.gate_copy import ROOT, Copy

pytestmark = [pytest.mark.thorough, pytest.mark.xdist_group("gate")]

SPEEDUP = ("speedup", "--cells", "1x8", "--quick", "--processes", "1", "-q")
PLOT = '''\
"""A plot of nothing much."""

from matplotlib.figure import Figure

from reports.speedup.summary import Summary

from .style import Plot, Theme


def plot(summary: Summary, name: str) -> Plot:
    """Return a plot of how many cells there are."""

    def draw(theme: Theme) -> Figure:
        figure = Figure()
        figure.text(0.5, 0.5, f"{len(summary.cells)}", color=theme.text)
        return figure

    return Plot(name, "How many cells", "A number.", draw)
'''
TOML = '''\
"""The table as TOML."""

from collections.abc import Sequence

from .summary import Summary


def render(summaries: Sequence[Summary]) -> str:
    """Return how many cells each file has."""
    return "".join(f"[[file]]\\ncells = {len(one.cells)}\\n" for one in summaries)
'''


@dataclass(frozen=True)
class New:
    """Something new: its file, the lines that name it, a command, and what that has to print."""

    lines: tuple[tuple[str, str, str], ...]
    command: tuple[str, ...]
    printed: str
    files: dict[str, str] = field(default_factory=dict)


KINDS = {
    "arm": New(
        (
            (
                "harness/arms/registry.py",
                '    "incremental": "connector.incremental",\n',
                '    "newest": "connector.newest",\n',
            ),
        ),
        ("verify", "newest", "--runs", "5", "-q"),
        "newest",
        {"connector/newest.py": (ROOT / "connector/incremental.py").read_text(encoding="utf-8")},
    ),
    "cell": New(
        (
            (
                "scenarios/catalogue.py",
                "CATALOGUE: dict[str, tuple[str, tuple[SteadyDecode | TraceReplay, ...]]] = {\n",
                '    "newest": ("one cell", (SteadyDecode(requests=7, tokens=77),)),\n',
            ),
        ),
        ("list",),
        "7x77",
    ),
    "GPU": New(
        (
            (
                "harness/forward/specs.py",
                "GPUS: Mapping[str, Gpu] = {\n",
                '    "newest": Gpu("Newest", memory=1e12, bandwidth=9e12, bf16=1e15, fp8=2e15),\n',
            ),
        ),
        ("overlap", "--cells", "1x8", "--processes", "1", "-q", "--gpu", "newest"),
        "Newest",
    ),
    "format": New(
        (
            (
                "reports/speedup/formats.py",
                '        "csv": records.render_csv,\n',
                '        "toml": toml.render,\n',
            ),
            ("reports/speedup/formats.py", "from . import records\n", "from . import toml\n"),
            ("stepbench/options.py", 'FORMATS = ("terminal", ', '"toml", '),
        ),
        (*SPEEDUP, "--format", "toml"),
        "[[file]]\ncells = 1\n",
        {"reports/speedup/toml.py": TOML},
    ),
    "plot": New(
        (
            (
                "reports/plots/draw.py",
                '            speedup.plot(summary, f"speedup{suffix}"),\n',
                '            newest.plot(summary, f"newest{suffix}"),\n',
            ),
            ("reports/plots/draw.py", "from . import distribution, duet, ", "newest, "),
        ),
        (*SPEEDUP, "-o", "x.json"),
        "newest-light.svg",
        {"reports/plots/newest.py": PLOT},
    ),
    "step of the gate": New(
        (
            (
                "harness/gate/steps.py",
                "    yield growing(config, works)\n",
                '    yield Step("newest", Outcome.PASSED, "a step of its own")\n',
            ),
        ),
        ("gate", "--cpu", "none", "-q"),
        "| newest | passed | a step of its own |",
    ),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy.of_this_repository(tmp_path_factory.mktemp("base") / "copy")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_one_is_in_the_output(base: Copy, tmp_path: Path, kind: str):
    copy, new = base.again(tmp_path / "copy"), KINDS[kind]
    for name, text in new.files.items():
        copy.write(name, text)
    for name, place, line in new.lines:
        copy.edit(name, place, place + line)

    ran = copy.run(*new.command)
    printed = ran.out
    if kind == "plot":
        assert copy.run("report", "x.json", "--plots", "plots", "-q").code == 0
        printed = " ".join(sorted(file.name for file in (copy.root / "plots").iterdir()))

    assert ran.code in (0, 3), ran.err
    assert new.printed in printed
