"""The workflows: what they may do, and that what they run is there."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from stepbench.cli import cli

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
TEXTS = {path.name: path.read_text() for path in FILES}
WORKFLOWS: dict[str, dict[Any, Any]] = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
SHELL = {'"$BASE"': "origin/main"}

every_workflow = pytest.mark.parametrize("name", WORKFLOWS)


def jobs(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = WORKFLOWS[name]["jobs"]
    return found


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in jobs(name).values():
        yield from job["steps"]


def step(name: str, title: str) -> dict[str, Any]:
    (found,) = (step for step in steps(name) if step.get("name") == title)
    return found


def commands() -> list[str]:
    lines = [line.strip() for step in steps("ci.yml") for line in step.get("run", "").splitlines()]
    return [line for line in lines if line.startswith("stepbench ")]


def test_there_are_two_workflows():
    assert list(WORKFLOWS) == ["ci.yml", "comment.yml"]


@every_workflow
def test_nothing_is_permitted_that_a_job_does_not_ask_for(name: str):
    assert WORKFLOWS[name]["permissions"] == {}
    wanted = {
        "ci.yml": {job: {"contents": "read"} for job in ("tests", "coverage", "lint", "gate")},
        "comment.yml": {"comment": {"actions": "read", "pull-requests": "write"}},
    }
    assert {job: body["permissions"] for job, body in jobs(name).items()} == wanted[name]


@every_workflow
def test_what_a_pull_request_says_reaches_no_shell_and_no_script(name: str):
    for one in steps(name):
        assert "${{" not in one.get("run", "")
        assert "${{" not in one.get("with", {}).get("script", "")


@every_workflow
def test_no_pull_request_runs_with_a_token_that_can_write(name: str):
    events = WORKFLOWS[name][True]  # YAML's `on`.
    assert events.keys() <= {"push", "pull_request", "workflow_run"}
    assert "pull_request_target" not in TEXTS[name]
    assert "secrets" not in TEXTS[name]


@every_workflow
def test_actions_are_pinned_to_a_commit_and_say_which_version_it_is(name: str):
    used = re.findall(r"^ +(?:- )?uses: (.*)$", TEXTS[name], re.MULTILINE)
    assert used
    for line in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


def test_an_action_is_one_version_everywhere():
    used = {line for text in TEXTS.values() for line in re.findall(r"uses: (actions/.*)", text)}
    assert len({line.partition("@")[0] for line in used}) == len(used)


@every_workflow
def test_no_job_runs_for_hours(name: str):
    assert all(job["timeout-minutes"] <= 60 for job in jobs(name).values())


def test_checkouts_leave_no_token_behind():
    checkouts = [one for one in steps("ci.yml") if "checkout" in one.get("uses", "")]
    assert len(checkouts) == 4
    assert all(one["with"]["persist-credentials"] is False for one in checkouts)


def test_the_comment_is_written_without_any_code_of_the_pull_request():
    used = [one["uses"].partition("@")[0] for one in steps("comment.yml")]
    assert used == ["actions/download-artifact", "actions/github-script"]
    assert not any("run" in one for one in steps("comment.yml"))
    assert WORKFLOWS["comment.yml"][True] == {
        "workflow_run": {"workflows": [WORKFLOWS["ci.yml"]["name"]], "types": ["completed"]}
    }


def test_the_comment_comes_from_where_it_was_kept():
    kept = step("ci.yml", "Keep the comment for comment.yml")["with"]
    fetched = step("comment.yml", "Fetch the comment")["with"]
    assert fetched["name"] == kept["name"]
    script = step("ci.yml", "Comment")["run"]
    written = re.findall(rf"> {kept['path']}/(\S+)", script)
    read = re.findall(r"read\('(\S+)'", step("comment.yml", "Write it")["with"]["script"])
    assert written == read


def test_the_steps_go_through_gate_table_count_and_report():
    assert [line.split()[1] for line in commands()] == ["gate", "speedup", "count", *["report"] * 3]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_understood(line: str):
    for name, value in SHELL.items():
        line = line.replace(name, value)
    line = re.split(r" > | \|\| ", line)[0]
    assert "$" not in line
    _, name, *words = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    with command.make_context(name, words) as context:
        assert context.params


def test_every_session_is_one():
    text = (ROOT / "noxfile.py").read_text()
    sessions = re.findall(r"^@nox\.session.*\ndef (\w+)\(", text, re.MULTILINE)
    named = re.findall(r"nox -s (\w+)", TEXTS["ci.yml"])
    assert named == ["tests", "coverage", "lint"]
    assert set(named) <= set(sessions)


def test_the_tests_run_on_every_python_that_is_supported():
    (supported,) = re.findall(r"^SUPPORTED = (.*)$", (ROOT / "noxfile.py").read_text(), re.M)
    matrix = jobs("ci.yml")["tests"]["strategy"]["matrix"]
    assert matrix["python"] == yaml.safe_load(supported)


@pytest.fixture
def stepbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command of that name which notes its arguments and ends with the code in ``CODE``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "stepbench"
    script.write_text('#!/bin/sh\necho "$@" >> "$NOTES"\necho the result\nexit "$CODE"\n')
    script.chmod(0o755)
    notes = tmp_path / "notes"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(notes))
    monkeypatch.chdir(tmp_path)
    return notes


def run(title: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does: bash that ends at the first failure."""
    return subprocess.run(
        ["bash", "-e", "-c", step("ci.yml", title)["run"]],
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "ends", "warns"),
    [(0, 0, False), (1, 1, False), (2, 2, False), (3, 0, True), (4, 4, False), (130, 130, False)],
)
def test_the_gate_decides_and_what_is_inconclusive_warns(
    stepbench: Path, code: int, ends: int, warns: bool
):
    done = run("Gate", BASE="origin/main; touch injected", CODE=str(code))

    assert done.returncode == ends
    assert ("::warning title=stepbench gate::Inconclusive" in done.stdout) is warns
    # What a branch is called is one argument, whatever it holds.
    assert stepbench.read_text() == "gate --base origin/main; touch injected -o results/gate.json\n"
    assert not Path("injected").exists()


def test_no_step_after_the_gate_decides():
    after = [one.get("name") for one in steps("ci.yml")]
    after = after[after.index("Gate") + 1 :]
    for title in after:
        one = step("ci.yml", str(title))
        assert "!cancelled()" in one["if"]
        assert one.get("continue-on-error") is True or "upload-artifact" in one["uses"]


def test_the_comment_is_kept_with_the_number(stepbench: Path):
    Path("results").mkdir()
    Path("results/gate.json").touch()
    Path("results/speedup.json").touch()

    done = run("Comment", NUMBER="17", CODE="0")

    assert done.returncode == 0
    assert Path("comment/number").read_text() == "17\n"
    assert Path("comment/comment.md").read_text() == "the result\n"
    wanted = "report results/gate.json results/speedup.json --format comment\n"
    assert stepbench.read_text() == wanted


@pytest.mark.parametrize(("code", "kept"), [(0, True), (1, False)])
def test_what_was_counted_is_kept_whole_or_not_at_all(stepbench: Path, code: int, kept: bool):
    done = run("Count", CODE=str(code))

    assert done.returncode == code
    assert Path("results/work.json").exists() is kept
    assert stepbench.read_text().startswith("count --cells ")
    titles = [one.get("name") for one in steps("ci.yml")]
    assert titles.index("Count") < titles.index("Comment")


@pytest.mark.parametrize(
    ("there", "installs", "asked", "warns"),
    [
        (("chromium", "chromedriver"), True, False, False),
        (("chromium",), True, True, False),
        ((), False, True, True),
    ],
)
def test_a_browser_is_installed_where_there_is_none_and_no_failure(
    tmp_path: Path, there: tuple[str, ...], installs: bool, asked: bool, warns: bool
):
    for name in there:
        (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / "sudo").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/notes\nexit {int(not installs)}\n'
    )
    for path in tmp_path.iterdir():
        path.chmod(0o755)

    done = subprocess.run(
        [str(shutil.which("bash")), "-e", "-c", step("ci.yml", "Browser")["run"]],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    assert (tmp_path / "notes").exists() is asked
    assert ("::warning" in done.stdout) is warns
