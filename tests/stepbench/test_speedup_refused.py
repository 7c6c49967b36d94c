"""Bad input: exit code 2, one line on stderr, nothing measured, no results file."""

import json
import os
from pathlib import Path

import pytest

from harness.system import cores as machine
from stepbench import speedup

from .conftest import TINY, Run, assert_refused, run_script


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch):
    def measure(*_: object) -> None:
        pytest.fail("bad input was measured")

    monkeypatch.setattr(speedup, "measure", measure)


def _no_results() -> bool:
    return not [path for path in Path().rglob("*") if path.is_file()]


SIZES = [
    (["--cells", "0x64"], ["requests", "not 0"]),
    (["--cells", "-1x64"], ["requests", "not -1"]),
    (["--cells", "100001x64"], ["requests", "between 1 and 100,000", "not 100,001"]),
    (["--cells", "2x0"], ["tokens per request", "not 0"]),
    (["--cells", "2x-5"], ["tokens per request", "not -5"]),
    (["--cells", "2x16777217"], ["tokens per request", "16,777,216", "not 16,777,217"]),
    (["--cells", f"2x{'9' * 5000}"], ["not a whole number"]),
    (["--cells", "2.5x64"], ["'2.5'", "not a whole number"]),
    (["--cells", "1e3x64"], ["'1e3'", "not a whole number"]),
    (["--cells", "\N{ARABIC-INDIC DIGIT TWO}x64"], ["not a whole number"]),
    (["--cells", "64"], ["'64'", "REQUESTSxTOKENS"]),
    (["--cells", "2x"], ["'2x'", "not a whole number"]),
    (["--cells", ""], ["cells", "empty"]),
    (["--cells", "2x64,"], ["cells", "empty"]),
    (["--cells", "2x64,2x64"], ["v2-2x64", "twice"]),
    (["--requests", "0", "--tokens", "64"], ["requests", "not 0"]),
    (["--requests", "2", "--tokens", "64,-1"], ["tokens per request", "not -1"]),
    (["--requests", "two", "--tokens", "64"], ["requests", "'two'", "not a whole number"]),
    (["--requests", "2"], ["--requests and --tokens"]),
    (["--tokens", "64"], ["--requests and --tokens"]),
]

SETTINGS = [
    (["--tokens-per-block", "0"], ["tokens per block", "not 0"]),
    (["--tokens-per-block", "-32"], ["tokens per block", "not -32"]),
    (["--tokens-per-block", "1000000"], ["tokens per block", "not 1,000,000"]),
    (["--tokens-per-block", "x"], ["--tokens-per-block", "'x'"]),
    (["--draft-tokens", "-1"], ["draft tokens", "not -1"]),
    (["--draft-tokens", "257"], ["draft tokens", "between 0 and 256", "not 257"]),
    (["--draft-tokens", "1.5"], ["--draft-tokens", "'1.5'"]),
    (["--max-batch", "8"], ["--max-batch", "only with --trace"]),
    (["--max-num-tokens", "8"], ["--max-num-tokens", "only with --trace"]),
    (["--manager", "v3"], ["--manager", "'v3'"]),
    (["--manager", "v1", "--layer-groups", "full,window=64"], ["layer groups", "V2"]),
    (["--manager", "v1", "--page-backend", "generator"], ["page backend", "V2"]),
    (["--layer-groups", "half"], ["layer group 'half'", "window=TOKENS"]),
    (["--layer-groups", "window=x"], ["layer group 'window=x'"]),
    (["--layer-groups", "sink=4"], ["layer group 'sink=4'"]),
    (["--layer-groups", "window=0"], ["window", "not 0"]),
    (["--layer-groups", "window=8:sink=-1"], ["window=8:sink=-1", "sink=TOKENS"]),
    (["--layer-groups", "full,,full"], ["layer groups", "empty"]),
    (["--layer-groups", ",".join(["full"] * 65)], ["layer groups", "not 65"]),
    (["--page-backend", "magic"], ["--page-backend", "'magic'"]),
    (["--boundaries", "nowhere"], ["--boundaries", "'nowhere'"]),
    (["--gc", "maybe"], ["--gc", "'maybe'"]),
    (["--processes", "0"], ["--processes", "0"]),
    (["--processes", "many"], ["--processes", "'many'"]),
    (["--rounds", "0"], ["--rounds", "0"]),
    (["--rounds", "100000"], ["--rounds", "100000"]),
    (["--seed", "-1"], ["--seed", "-1"]),
    (["--timeout", "0"], ["--timeout", "0"]),
]

NAMES = [
    (["--arms", "ful-copy"], ["unknown arm 'ful-copy'", "did you mean 'full-copy'?"]),
    (["--arms", "zzz"], ["unknown arm 'zzz'", "full-copy, incremental"]),
    (["--arms", "full-copy,full-copy"], ["arm 'full-copy' is named twice"]),
    (["--arms", ""], ["arms", "empty"]),
    (["--arms", "full-copy,"], ["arms", "empty"]),
    (["--cpu", "x"], ["--cpu", "'x'"]),
    (["--cpu", "-1"], ["--cpu", "'-1'"]),
    (["extra"], ["extra"]),
]


@pytest.mark.parametrize(("arguments", "texts"), SIZES)
def test_a_bad_size_is_refused(run_here: Run, arguments: list[str], texts: list[str]):
    assert_refused(run_here("speedup", *arguments), *texts)
    assert _no_results()


@pytest.mark.parametrize(("arguments", "texts"), SETTINGS + NAMES)
def test_a_bad_setting_is_refused(run_here: Run, arguments: list[str], texts: list[str]):
    assert_refused(run_here("speedup", "--cells", "2x64", *arguments), *texts)
    assert _no_results()


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--scenario", "refrence"], ["unknown scenario 'refrence'", "did you mean 'reference'?"]),
        (["--scenario", "zzz"], ["unknown scenario 'zzz'", "reference, grid"]),
        (["--scenario", "small", "--cells", "1x1"], ["--scenario and --cells exclude each other"]),
        (["--scenario", "small", "--tokens", "1"], ["--scenario and --requests and --tokens"]),
        (["--cells", "1x1", "--requests", "1", "--tokens", "1"], ["--cells and --requests"]),
    ],
)
def test_a_source_is_one_that_exists(run_here: Run, arguments: list[str], texts: list[str]):
    assert_refused(run_here("speedup", *arguments), *texts)
    assert _no_results()


def test_a_cell_that_does_not_fit_the_memory_says_what_it_needs(run_here: Run):
    ran = run_here("speedup", "--cells", "2x64,100000x16777216")

    # 1.7e12 tokens: no less than the four bytes of each, and no more than a hundred.
    assert_refused(ran, "v2-100000x16777216", "would not fit the memory", "are available")
    needed = float(ran.err.partition("up to ")[2].partition(" GB")[0])
    # Of either arm.
    assert 2 * 6_700 < needed < 2 * 170_000
    assert "GB for 2 at once" in ran.err
    assert _no_results()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--precision", "5"], "--precision takes a share such as 0.5% or 0.005, not '5'"),
        (["--precision", "0.5"], "--precision '0.5': write 0.5% or"),
        (["--precision", "nan"], "--precision takes a share"),
        (["--seconds", "-1"], "-1"),
        (["--seconds", "nan"], "--seconds must be at most 86,400"),
        (["--precision", "5%", "--processes", "3"], "--precision does not go with it"),
        (["--seconds", "5", "--processes", "3"], "--seconds does not go with it"),
    ],
)
def test_a_precision_that_makes_no_sense_is_refused(run_here: Run, arguments: list[str], text: str):
    assert_refused(run_here("speedup", "--cells", "1x1", *arguments), text)
    assert _no_results()


def test_a_file_of_a_version_without_turns_is_reported_and_not_carried_on_with(
    run_here: Run, results: str
):
    document = json.loads(Path(results).read_text())
    document["metadata"]["stepbench_format"] = 1
    Path(results).write_text(json.dumps(document))

    assert_refused(run_here("speedup", "--resume", results), results, "did not take turns")
    assert run_here("report", results).code == 0


def test_a_core_that_is_not_allowed_is_refused_with_those_that_are(run_here: Run):
    allowed = ", ".join(map(str, sorted(os.sched_getaffinity(0))))

    ran = run_here("speedup", *TINY, "--cpu", "99999")

    assert_refused(ran, f"core 99999 is not allowed here; allowed: {allowed}")
    assert _no_results()


def test_a_core_that_is_measured_on_is_refused(run_here: Run):
    core = max(os.sched_getaffinity(0))

    with machine.lock_cpu(core):
        here = run_here("speedup", *TINY)
        script = run_script("speedup", *TINY)

    # To another process as well, which finds the lock by its path alone.
    for ran in (here, script):
        assert_refused(ran, f"core {core} is being measured on by another run", "--cpu")
    assert _no_results()


def test_an_existing_file_is_refused_without_force(run_here: Run):
    Path("x.json").write_text("precious")

    assert_refused(run_here("speedup", *TINY, "-o", "x.json"), "x.json: exists", "--force")
    assert Path("x.json").read_text() == "precious"


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_folder_is_no_results_file(run_here: Run, force: tuple[str, ...]):
    Path("folder").mkdir()

    assert_refused(run_here("speedup", *TINY, *force, "-o", "folder"), "folder: a folder")
    assert list(Path("folder").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_refused(run_here: Run):
    Path("file").write_text("no folder")

    assert_refused(run_here("speedup", *TINY, "-o", "file/x.json"), "file: cannot be written")
    assert_refused(run_here("speedup", *TINY, "-o", "file/a/x.json"), "file/a: cannot be written")
    assert [str(path) for path in Path().iterdir()] == ["file"]


def test_a_folder_that_cannot_be_written_is_refused(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    # As root may write anywhere, a folder without permissions proves nothing.
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)

    ran = run_here("speedup", *TINY, "-o", "closed/x.json")

    assert_refused(ran, "closed: cannot be written: Permission denied")


@pytest.mark.parametrize(
    "option",
    [
        ("--cells", "1x1"),
        ("--scenario", "reference"),
        ("--arms", "full-copy,incremental"),
        ("--processes", "2"),
        ("--seed", "0"),
        ("--cpu", "none"),
        ("--gc", "off"),
        ("--quick",),
        ("--overlap",),
        ("--force",),
        ("--output", "y.json"),
    ],
)
def test_to_resume_with_another_measuring_option_is_refused(
    run_here: Run, results: str, option: tuple[str, ...]
):
    before = Path(results).read_bytes()

    # Even if it says what the file says: nobody should have to compare them.
    assert_refused(run_here("speedup", "--resume", results, *option), option[0], "--resume")
    assert Path(results).read_bytes() == before


def test_only_a_results_file_can_be_resumed(run_here: Run, stored_text: str):
    Path("half.json").write_text(stored_text[:300])
    Path("folder").mkdir()

    assert_refused(run_here("speedup", "--resume", "none.json"), "none.json: No such file")
    assert_refused(
        run_here("speedup", "--resume", "half.json"),
        "half.json: expected a results file",
        "truncated",
    )
    assert_refused(run_here("speedup", "--resume", "folder"), "folder: Is a directory")
