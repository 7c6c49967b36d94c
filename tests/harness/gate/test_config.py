"""The gate: how it is configured, and what its outcome is."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.gate.config import GateConfig, Outcome, Step, load_config, outcome_of
from stepbench_core.errors import InputError

LEAST = 'arms = ["batched"]\ncells = ["v2-16x8192"]\n'


def save(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_what_is_not_configured_has_a_default():
    config = load_config(save("gate.toml", f"[gate]\n{LEAST}"))
    assert config == GateConfig(arms=("batched",), cells=("v2-16x8192",))
    assert (config.scenario, config.base, config.budget) == ("reference", "HEAD~1", "budgets.toml")
    assert (config.runs, config.threshold, config.seconds) == (300, 0.005, 10.0)
    assert (config.thresholds, config.growth) == ({}, {})


def test_everything_can_be_configured():
    text = (
        '[gate]\narms = ["batched", "incremental"]\ncells = ["a", "b"]\nscenario = "small"\n'
        'base = "origin/main"\nruns = 5\nbudget = "b.toml"\nthreshold = 0.25\nseconds = 3\n'
        'thresholds = { "v1-*/*" = 0.5 }\ngrowth = { batched = 0, "page-*" = 0.25 }\n'
    )
    assert load_config(save("gate.toml", text)) == GateConfig(
        arms=("batched", "incremental"),
        scenario="small",
        cells=("a", "b"),
        base="origin/main",
        runs=5,
        budget="b.toml",
        threshold=0.25,
        thresholds={"v1-*/*": 0.5},
        growth={"batched": 0, "page-*": 0.25},
        seconds=3,
    )


def test_without_a_name_it_is_stepbench_toml_or_else_the_pyproject():
    save("pyproject.toml", f"[tool.stepbench.gate]\n{LEAST}runs = 7\n")
    assert load_config(None).runs == 7
    save("stepbench.toml", f"[gate]\n{LEAST}runs = 8\n")
    assert load_config(None).runs == 8
    assert load_config(Path("pyproject.toml")).runs == 7


REFUSED = [
    ("", "no table [gate]"),
    ("gate = 3", "no table [gate]"),
    ("[tool.stepbench.gate]\n" + LEAST, "no table [gate]"),
    ("[gate", "not a TOML file: "),
    ("[gate]", "object missing required field arms"),
    ('[gate]\narms = ["a"]', "object missing required field cells"),
    ("[gate]\narms = []\ncells = ['a']", "expected array of length >= 1 at arms"),
    (f"[gate]\n{LEAST}run = 3", "unknown setting 'run': known: "),
    (f"[gate]\n{LEAST}[gate.a]", "unknown setting 'a': known: "),
    *(
        (f"[gate]\n{LEAST}{name} = {value}", f" at {name}")
        for name, value in (
            ("scenario", 3),
            ("base", "true"),
            ("budget", "[]"),
            ("runs", 3.5),
            ("runs", "true"),
            ("runs", '"3"'),
            ("threshold", '"1 %"'),
            ("threshold", "false"),
            ("seconds", "[1]"),
            ("seconds", "true"),
            ("thresholds", 0.5),
            ("thresholds", '{ "*" = "1" }'),
            ("thresholds", '{ "*" = true }'),
            ("growth", "[]"),
            ("growth", "{ a = { b = 1 } }"),
        )
    ),
    ('[gate]\narms = "batched"\ncells = ["a"]', " at arms"),
    ('[gate]\narms = ["a"]\ncells = [1]', "expected str, got int at cells[0]"),
    ('[gate]\narms = [true]\ncells = ["a"]', "expected str, got bool at arms[0]"),
    *(
        (f"[gate]\n{LEAST}{line}", "stepbench.toml: expected ")
        for line in (
            "runs = 0",
            "threshold = 0",
            "threshold = -0.1",
            "seconds = 0.0",
            'thresholds = { "*" = 0 }',
        )
    ),
    # Nothing is more than they are, so they would switch a check off.
    *(
        (f"[gate]\n{LEAST}{line}", "stepbench.toml: ")
        for line in (
            "threshold = nan",
            "seconds = nan",
            'thresholds = { "*" = nan }',
            'growth = { "*" = nan }',
        )
    ),
    # What tomllib itself stumbles over.
    ("x = " + "[" * 50_000, "stepbench.toml: "),
    ("x = " + "9" * 5_000, "stepbench.toml: "),
]


@pytest.mark.parametrize(
    ("text", "message"), REFUSED, ids=[text[-30:].replace("\n", " ") for text, _ in REFUSED]
)
def test_a_bad_configuration_is_one_line(text: str, message: str):
    save("stepbench.toml", text)
    with pytest.raises(InputError) as caught:
        load_config(None)
    assert str(caught.value).startswith("stepbench.toml: ")
    assert message in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_line():
    with pytest.raises(
        InputError, match=r"^pyproject\.toml: No such file or directory: run the gate where"
    ):
        load_config(None)
    with pytest.raises(
        InputError, match=r"^g\.toml: No such file or directory: run the gate where"
    ):
        load_config(Path("g.toml"))
    with pytest.raises(InputError, match=r"^\.: Is a directory$"):
        load_config(Path())
    Path("g.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"^g\.toml: it is not text"):
        load_config(Path("g.toml"))
    save("pyproject.toml", "[tool]\nstepbench = 3")
    with pytest.raises(InputError, match=r"^pyproject\.toml: no table \[tool\.stepbench\.gate\]$"):
        load_config(None)


def test_the_first_glob_that_matches_counts():
    config = GateConfig(
        threshold=0.01,
        thresholds={"v1-*/batched": 0.02, "*/batched": 0.03, "v1-*": 0.04},
        growth={"page-range": 0.1, "page-*": 0.2},
    )
    found = [
        config.threshold_of(*names)
        for names in (
            ("v1-2x64", "batched"),
            ("v2-2x64", "batched"),
            ("v1-2x64", "incremental"),  # A star stands for slashes as well.
            ("v2-2x64", "incremental"),
            ("V1-2x64", "incremental"),
        )
    ]
    assert found == [0.02, 0.03, 0.04, 0.01, 0.01]
    growth = [config.growth_of(arm) for arm in ("page-range", "page-growth", "batched")]
    assert growth == [0.1, 0.2, None]


PASSED, FOUND, INCONCLUSIVE, NOTHING = (
    Outcome.PASSED,
    Outcome.FOUND,
    Outcome.INCONCLUSIVE,
    Outcome.NOTHING_TO_COMPARE,
)


@pytest.mark.parametrize(
    ("outcomes", "outcome", "code"),
    [
        ([], PASSED, 0),
        ([PASSED, PASSED], PASSED, 0),
        ([PASSED, INCONCLUSIVE, PASSED], INCONCLUSIVE, 3),
        ([INCONCLUSIVE, NOTHING, PASSED], NOTHING, 4),
        ([NOTHING, INCONCLUSIVE], NOTHING, 4),
        ([INCONCLUSIVE, NOTHING, FOUND, PASSED], FOUND, 1),
    ],
)
def test_a_finding_is_one_whatever_else_there_is(
    outcomes: Sequence[Outcome], outcome: Outcome, code: int
):
    found = outcome_of([Step("a step", one, "") for one in outcomes])
    assert (found, int(found)) == (outcome, code)


@pytest.mark.parametrize("name", ["seconds", "threshold", "thresholds", "growth"])
def test_a_number_that_is_too_large_for_a_float_is_refused(name: str):
    huge = "1" + "0" * 400
    value = f'{{ "*" = {huge} }}' if name.endswith("s") and name != "seconds" else huge
    value = f"{{ batched = {huge} }}" if name == "growth" else value
    with pytest.raises(InputError, match=r"^gate\.toml: "):
        load_config(save("gate.toml", f"[gate]\n{LEAST}{name} = {value}\n"))


def test_a_configuration_that_never_ends_is_refused():
    with pytest.raises(InputError, match=r"^/dev/zero: a pipe or a device, not a file$"):
        load_config(Path("/dev/zero"))
