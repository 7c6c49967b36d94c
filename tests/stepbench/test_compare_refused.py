"""``stepbench compare`` with bad input, and with arms that differ or break."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.compare import processes as duet_processes
from harness.system.cores import choose_cpus, lock_cpu

from .compare_workers import strictly, subject
from .conftest import Run, assert_refused


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def run_children(*_: object) -> list[str]:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(duet_processes, "run_children", run_children)
    yield
    assert not [path for path in Path().rglob("*.json") if path.name != "there.json"]


@pytest.mark.usefixtures("nothing_is_measured")
def test_arms_that_differ_are_not_timed(run_here: Run):
    arguments = ("compare", "incremental", subject("differs"), "--cells", "2x64")

    ran = run_here(*arguments)

    assert ran.code == 1
    assert ran.out.startswith(f"Different: `{subject('differs')}` departs from `incremental` in ")
    assert ".num_scheduled_tokens:" in ran.out
    assert ran.err == "stepbench: the arms differ, so they are not measured; --no-verify insists\n"
    document = strictly(run_here(*arguments, "--json").out)
    assert (document["same"], document["against"]) == (False, "incremental")


@pytest.mark.usefixtures("nothing_is_measured")
def test_what_it_says_to_repeat_can_be_repeated(run_here: Run):
    ran = run_here("compare", "incremental", subject("differs"), "--cells", "2x64")

    words = ran.out.rpartition("Repeat with `stepbench ")[2].partition("`")[0].split()
    again = run_here(*words)
    assert again.code == 1
    assert ".num_scheduled_tokens" in again.out


REFUSED = [
    (["incremental"], ["Missing argument 'B'"]),
    (["incremental", "incrementl"], ["unknown arm 'incrementl': did you mean 'incremental'?"]),
    (["floor", "incremental"], ["unknown arm 'floor'"]),
    (["incremental", "git:nowhere:incremental"], ["no git revision 'nowhere' here"]),
    (["incremental", "git:--help:incremental"], ["is not git:REVISION:NAME"]),
    (["incremental", "file:none.py"], ["none.py: No such file or directory"]),
    (["incremental", subject("no_arm")], ["no_arm.py: has no class KvCacheConnectorSched"]),
    (["incremental", "file:syntax.py"], ["syntax.py: cannot be imported: SyntaxError: "]),
    (["incremental", "file:exits.py"], ["exits.py: cannot be imported: SystemExit"]),
    (["incremental", "file:empty.py"], ["empty.py: "]),
    (["incremental", "batched", "--cells", "2x64,2x64"], ["v2-2x64", "twice"]),
    (["incremental", "batched", "--cells", "2"], ["REQUESTSxTOKENS"]),
    (["incremental", "batched", "--cells", "100000x1000000"], ["would not fit the memory"]),
    (["incremental", "batched", "--cpu", "999"], ["core 999 is not allowed here"]),
    (["incremental", "batched", "--seconds", "0"], ["--seconds"]),
    *[
        (["incremental", "batched", f"--seconds={text}"], ["--seconds takes a number of seconds"])
        for text in ("nan", "NaN", "-nan")
    ],
    (["incremental", "batched", "--seconds", "inf"], ["--seconds"]),
    (["incremental", "batched", "--provider", "other"], ["--provider", "'other'"]),
    (["incremental", "batched", "--seed", "-1"], ["--seed"]),
    (["incremental", "batched", "--json", "--format", "markdown"], ["contradicts"]),
    (["incremental", "batched", "--format", "csv"], ["'csv'"]),
    (["incremental", "batched", "-o", "there.json"], ["there.json: exists; --force overwrites"]),
    *[
        (["incremental", "batched", f"--threshold={text}"], ["--threshold takes a share", text])
        for text in ("0", "0%", "-1%", "100%", "1", "nan", "inf", "x", "%", "0.5%%", "1,5%")
    ],
]


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize(("arguments", "texts"), REFUSED)
def test_bad_input_is_refused(run_here: Run, arguments: list[str], texts: list[str]):
    Path("there.json").touch()
    Path("syntax.py").write_text("def (\n")
    Path("exits.py").write_text("raise SystemExit(0)\n")
    Path("empty.py").write_text("class KvCacheConnectorSchedulerOutputManager: pass\n")
    cells = [] if "--cells" in arguments else ["--cells", "2x64"]

    assert_refused(run_here("compare", *arguments, *cells), *texts)


@pytest.mark.usefixtures("nothing_is_measured")
def test_an_arm_that_a_revision_did_not_have_is_nothing_to_compare_with(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    # A revision without our files, whatever this checkout has.
    monkeypatch.setattr("harness.system.git.find_commit", lambda *_: "0123" * 10)
    monkeypatch.setattr("harness.system.git.read_at", lambda *_: None)

    ran = run_here("compare", "git:v0:batched", "batched", "--cells", "2x64")

    assert_refused(ran, "arm 'batched' does not exist at revision v0", code=4)


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("name", ["crash", "no_interface", "leaves"])
@pytest.mark.parametrize("turned", [False, True])
def test_an_arm_that_breaks_while_it_is_verified_is_no_pass(run_here: Run, name: str, turned: bool):
    arms = ("incremental", subject(name))

    ran = run_here("compare", *(arms[::-1] if turned else arms), "--cells", "2x64", "-q")

    # A finding or bad input, and told by its name; never a traceback, never a pass.
    assert ran.code in {1, 2}
    assert name in ran.out + ran.err


@pytest.mark.parametrize(
    ("name", "why"),
    [("crash", "failed: RuntimeError: the subject broke"), ("leaves", "returned no result")],
)
def test_an_arm_that_breaks_while_it_is_measured_is_a_finding(run_here: Run, name: str, why: str):
    ran = run_here("compare", "incremental", subject(name), "--cells", "1x8", "--no-verify", "-q")

    assert ran.code == 1
    assert re.match(rf"stepbench: cell v2-1x8, process \d: the worker {re.escape(why)}", ran.err)


@pytest.mark.usefixtures("nothing_is_measured")
@pytest.mark.parametrize("place", [0, -1])
def test_a_core_that_another_run_measures_on_is_refused(run_here: Run, place: int):
    with lock_cpu(choose_cpus(None)[place]):
        ran = run_here("compare", "incremental", "batched", "--cells", "2x64", "--no-verify", "-q")

    assert_refused(ran, "is being measured on by another run")
