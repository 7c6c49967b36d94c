"""The file that ``stepbench compare`` keeps, and the provider and revision that it names."""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from harness.arms.revision import Revision
from harness.compare.duet import CellResult, Duet
from harness.verify.runs import Contest, Verification
from stepbench import compare as compare_module
from stepbench import metadata, options
from stubs.providers import absent

from .compare_workers import ONE, TWO, Workers, cells_in, strictly
from .conftest import Run, assert_refused


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


@pytest.mark.usefixtures("workers")
def test_a_file_that_exists_is_overwritten_only_if_asked(run_here: Run):
    Path("x.json").write_text("precious")

    assert_refused(run_here("compare", *ONE), "x.json: exists; --force overwrites it")
    assert Path("x.json").read_text() == "precious"
    assert run_here("compare", *ONE, "--force").code == 0
    assert cells_in("x.json") == ["no difference"]


@pytest.mark.usefixtures("workers")
def test_without_a_name_the_file_is_a_dated_one(run_here: Run):
    arguments = [word for word in ONE if word not in {"-o", "x.json"}]

    assert [run_here("compare", *arguments).code for _ in range(2)] == [0, 0]

    names = sorted(str(path) for path in Path("results").iterdir())
    assert len(names) == 2
    assert all(name.startswith("results/compare-2") for name in names)


def test_an_unused_file_is_another_one_each_time(monkeypatch: pytest.MonkeyPatch):
    class Clock(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # noqa: ARG003
            return datetime(2026, 3, 4, 5, 6, 7)

    monkeypatch.setattr(options, "datetime", Clock)
    Path("results").mkdir()
    names = []
    for _ in range(3):
        file = options.unused_file("compare")
        file.touch()
        names.append(str(file))
    assert names == [f"results/compare-20260304-050607{end}.json" for end in ("", "-2", "-3")]
    assert str(options.unused_file("gate")) == "results/gate-20260304-050607.json"


def available() -> list[str]:
    return [name for name in ("python", "nanobind") if absent(name) is None]


@pytest.mark.parametrize("given", ["python", "nanobind", "auto", None])
def test_the_provider_is_that_of_the_workers_and_is_told(
    run_here: Run, workers: Workers, given: str | None
):
    if given == "nanobind" and given not in available():
        pytest.skip("the provider nanobind is not built")
    # By itself it takes nanobind, if that is built.
    name = given if given in {"python", "nanobind"} else available()[-1]

    ran = run_here("compare", *ONE, *(["--provider", given] if given else []), "--json")

    assert ran.code == 0
    assert {job["provider"] for job in workers.jobs} == {name}
    assert json.loads(Path("x.json").read_text())["provider"] == name
    assert f"; stand-ins: provider {name}; outputs" in strictly(ran.out)["metadata"]["where"]


@pytest.mark.parametrize("provider", available())
def test_outputs_are_verified_with_that_provider(
    run_here: Run, workers: Workers, monkeypatch: pytest.MonkeyPatch, provider: str
):
    contests = []
    real = compare_module.play_briefly

    def play(contest: Contest, **named: float | None) -> Verification:
        contests.append(contest)
        return real(contest, **named)

    monkeypatch.setattr(compare_module, "play_briefly", play)
    arguments = [word for word in ONE if word != "--no-verify"]

    assert run_here("compare", *arguments, "--provider", provider).code == 0

    assert [contest.provider for contest in contests] == [provider]
    assert workers.cells() == ["2x64 6"]


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("revision", "words", "kept"),
    [
        (Revision("0123456789abcdef"), "revision 0123456789ab, Python", ("0123456789abcdef", 0)),
        (
            Revision("0123456789abcdef", dirty=True),
            "revision 0123456789ab with local changes, Python",
            ("0123456789abcdef", 1),
        ),
        (Revision(None, why="no git"), "revision unknown (no git), Python", (None, None)),
    ],
)
def test_the_revision_is_told_and_kept(
    run_here: Run,
    monkeypatch: pytest.MonkeyPatch,
    revision: Revision,
    words: str,
    kept: tuple[str | None, int | None],
):
    monkeypatch.setattr(metadata, "own_revision", lambda: revision)

    ran = run_here("compare", *ONE)

    assert words in ran.out
    stored = json.loads(Path("x.json").read_text())["metadata"]
    assert (stored.get("stepbench_revision"), stored.get("stepbench_dirty")) == kept


@pytest.mark.usefixtures("workers")
def test_an_interrupted_cell_is_not_said_to_be_kept(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    """The signal comes when a cell is finished, and before it is in the file."""
    real = compare_module.write_duet

    def write(path: Path, duet: Duet, results: Sequence[CellResult], metadata: object) -> None:
        if len(results) == 2:
            raise KeyboardInterrupt
        real(path, duet, results, metadata)

    monkeypatch.setattr(compare_module, "write_duet", write)

    ran = run_here("compare", *TWO)

    assert ran.code == 130
    assert ran.err == "stepbench: interrupted; 1 of 2 cells are finished and kept in x.json\n"
    assert cells_in("x.json") == ["no difference"]
