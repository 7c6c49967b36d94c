"""The plots: which there are, what is in them, and their files."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from harness.compare.figure import Kind
from reports.evidence import Evidence
from reports.plots.draw import plots, write_plots
from reports.plots.style import DARK, LIGHT, THEMES, WIDTH, Theme, look, render
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError

from ..conftest import WriteResults, make_plan
from ..evidence import HOSTILE_LINE, LARGE, SMALL, duet_file, overlap_file, work_file

ARMS = ("full-copy", "incremental", "floor")


@pytest.fixture
def evidence(write_results: WriteResults) -> Evidence:
    samples = {
        (cell, arm, process): [(1 + cell) * 1e-3 / (1 + 4 * index) * (1 + i / 50) for i in range(3)]
        for cell in range(2)
        for index, arm in enumerate(ARMS)
        for process in range(2)
    }
    results = write_results(make_plan(SMALL, LARGE, arms=ARMS), samples)
    return Evidence((results,), (duet_file(),), (work_file(),))


def drawn(evidence: Evidence, name: str) -> Figure:
    (plot,) = [plot for plot in plots(evidence) if plot.name == name]
    return plot.draw(LIGHT)


def labels(figure: Figure) -> list[str]:
    return figure.axes[0].get_legend_handles_labels()[1]


def test_there_is_a_plot_of_everything_that_has_samples(evidence: Evidence):
    found = plots(evidence)

    names = ["speedup", "scaling", "timeline", "distribution", "duet"]
    assert [plot.name for plot in found] == names
    assert all(plot.title and plot.description.endswith(".") for plot in found)


def test_files_of_a_kind_are_numbered(evidence: Evidence):
    (results,) = evidence.results
    twice = Evidence((results, results), (duet_file(), duet_file()))

    names = [plot.name for plot in plots(twice)]
    assert [name for name in names if name.startswith(("speedup", "duet"))] == [
        "speedup-1",
        "speedup-2",
        "duet-1",
        "duet-2",
    ]


def test_without_samples_there_is_nothing_to_draw():
    assert plots(Evidence(works=(work_file(),))) == []


def test_one_arm_has_no_speedup_and_one_length_no_slope(write_results: WriteResults):
    plan = make_plan(SMALL, arms=("incremental",))
    evidence = Evidence((write_results(plan, {(0, "incremental", 0): 1e-3}),))

    assert [plot.name for plot in plots(evidence)] == ["timeline", "distribution"]


def test_speedups_and_their_intervals(evidence: Evidence):
    axes = drawn(evidence, "speedup").axes[0]

    (container,) = axes.containers
    points = container.lines[0]
    assert list(points.get_xdata()) == pytest.approx([5.0, 5.0])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["2 x 64", "2 x 256"]
    assert labels(drawn(evidence, "speedup")) == ["incremental"]


def test_a_slope_for_each_arm(evidence: Evidence):
    figure = drawn(evidence, "scaling")

    # Twice as long in the cell of four times as many tokens.
    assert labels(figure) == [f"{arm}, slope 0.50" for arm in ARMS]
    assert figure.axes[0].get_title(loc="left") == "2 requests, V2"


def test_each_arm_looks_the_same_in_all_plots_and_unlike_the_others(evidence: Evidence):
    timeline, distribution = (
        drawn(evidence, name).axes[0].get_lines() for name in ("timeline", "distribution")
    )

    colours = [line.get_color() for line in timeline[: len(ARMS)]]
    assert colours == [line.get_color() for line in distribution]
    assert len(set(colours)) == len(ARMS)
    # Not by colour alone.
    for theme in THEMES:
        looks = [look(theme, index) for index in range(7)]
        assert len({one.color for one in looks}) == len({one.marker for one in looks}) == 7


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_everything_stands_out_from_the_background(theme: Theme):
    def contrast(colour: str) -> float:
        light, dark = sorted((luminance(colour), luminance(theme.background)), reverse=True)
        return (light + 0.05) / (dark + 0.05)

    assert contrast(theme.text) >= 7
    # What WCAG 2.1 asks of graphics.
    assert all(contrast(colour) >= 3 for colour in theme.series)


def test_the_distribution_reaches_from_nothing_to_all(evidence: Evidence):
    line = drawn(evidence, "distribution").axes[0].get_lines()[0]

    assert list(line.get_xdata()) == sorted(line.get_xdata())
    assert list(line.get_ydata()) == pytest.approx([1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])


def test_a_duet_shows_each_process(evidence: Evidence):
    figure = drawn(evidence, "duet")
    first, second, _means, _zero = figure.axes[0].get_lines()

    assert (len(first.get_xdata()), len(second.get_xdata())) == (6, 4)
    assert figure.axes[0].get_title(loc="left") == "2 x 64\nslower"
    same = drawn(Evidence(duets=(duet_file(Kind.NO_DIFFERENCE),)), "duet")
    assert same.axes[0].get_title(loc="left") == "2 x 64\n2.00% slower, within 0.50%"
    # On the same scale, and around the effects, which are far from nothing.
    (left, right), (low, high) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert right - left == pytest.approx(high - low)
    effects = first.get_ydata()
    assert 0 < low < min(effects)
    assert max(effects) < high


def test_exposed_and_hidden_add_up_to_the_host():
    (plot,) = plots(Evidence(overlaps=(overlap_file(),)))
    hidden, exposed = plot.draw(LIGHT).axes[0].containers

    assert [bar.get_width() for bar in exposed] == pytest.approx([2.0, 0.0])
    assert [bar.get_width() for bar in hidden] == pytest.approx([1.0, 0.5])
    assert [bar.get_x() for bar in exposed] == pytest.approx([1.0, 0.5])
    assert "1 ms, as given" in plot.description


def test_a_cell_of_a_duet_that_failed_is_left_out():
    (plot,) = plots(Evidence(duets=(duet_file(Kind.INCONCLUSIVE),)))

    assert len(plot.draw(LIGHT).axes) == 1


def test_no_plot_has_more_panels_than_anybody_looks_at(write_results: WriteResults):
    cells = [SteadyDecode(requests=1 + n, tokens=64) for n in range(14)]
    samples = {(n, "full-copy", 0): 1e-3 for n in range(14)}
    evidence = Evidence((write_results(make_plan(*cells), samples),))

    for plot in plots(evidence):
        assert len(plot.draw(LIGHT).axes) == 12
        assert "The first 12 cells." in plot.description


def test_files_for_light_and_for_dark(evidence: Evidence, tmp_path: Path):
    drawn: list[int] = []
    found = plots(evidence)[:2]

    files = write_plots(found, tmp_path / "a" / "b", drawn.append)

    assert drawn == [1, 1]
    assert [file.name for file in files] == [
        f"{name}-{theme}.{kind}"
        for name in ("speedup", "scaling")
        for theme in ("light", "dark")
        for kind in ("svg", "png")
    ]
    assert sorted(files) == sorted((tmp_path / "a" / "b").iterdir())
    for file in files:
        start = file.read_bytes()[:8]
        assert (
            start == b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else start.startswith(b"<?xml")
        )


def test_the_same_figures_give_the_same_bytes(evidence: Evidence):
    for plot in plots(evidence):
        assert render(plot, DARK, "svg") == render(plot, DARK, "svg")


def test_a_drawing_is_as_wide_as_a_comment(evidence: Evidence):
    root = ET.fromstring(render(plots(evidence)[0], LIGHT, "svg"))  # noqa: S314 - our own

    assert root.attrib["width"] == f"{WIDTH * 72:g}pt"


def test_a_name_is_no_formula_and_no_markup(write_results: WriteResults):
    arms = ("full-copy", "$\\frac{a}$ <b> & ]]>", HOSTILE_LINE)
    samples = {(0, arm, process): 1e-3 for arm in arms for process in range(2)}
    evidence = Evidence((write_results(make_plan(SMALL, arms=arms), samples),))

    for plot in plots(evidence):
        ET.fromstring(render(plot, LIGHT, "svg"))  # noqa: S314 - our own


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match=r"file.*cannot be written"):
        write_plots([], tmp_path / "file" / "plots")
