"""The script of ``comment.yml``, run by node on artifacts that a stranger could make."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOW = Path(__file__).parent.parent / ".github" / "workflows" / "comment.yml"
MARKER = "<!-- stepbench -->"
LIMIT = 65_536
BOT = "github-actions[bot]"
RUN = {
    "head_sha": "a" * 40,
    "head_repository": {"id": 7},
    "html_url": "https://github.com/o/r/actions/runs/1",
}
PULL = {"head": {"sha": "a" * 40, "repo": {"id": 7}}}
HEAD = (
    f"{MARKER}\n<sub>Made by the code of this pull request, in "
    "[this run](https://github.com/o/r/actions/runs/1).</sub>\n\n"
)

# What actions/github-script hands to a script, with an API that notes what is asked of it.
HARNESS = """
const {script, run, pull, comments} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const calls = [];
const note = (name, result) => async (args) => { calls.push([name, args]); return {data: result}; };
const github = {
  rest: {
    pulls: {get: note('get', pull)},
    issues: {listComments: {}, updateComment: note('update'), createComment: note('create')},
  },
  paginate: async (endpoint, args) => { calls.push(['list', args]); return comments; },
};
const core = {warning: (text) => calls.push(['warning', text])};
const context = {repo: {owner: 'o', repo: 'r'}, payload: {workflow_run: run}};
const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
new AsyncFunction('github', 'context', 'core', 'require', script)(github, context, core, require)
  .then(() => null, (error) => error.message)
  .then((error) => console.log(JSON.stringify({calls, error})));
"""

node = shutil.which("node")
pytestmark = pytest.mark.skipif(node is None, reason="node is not installed")


def write(folder: Path, *, number: str = "17\n", text: str = f"{MARKER}\nFaster.\n") -> None:
    (folder / "number").write_text(number)
    (folder / "comment.md").write_text(text)


def comment(
    folder: Path,
    *,
    pull: object = PULL,
    comments: list[dict[str, Any]] | None = None,
) -> tuple[list[list[Any]], str | None]:
    """Run the script on an artifact; return what it asked of the API, and its error."""
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    given = {
        "script": job["steps"][-1]["with"]["script"],
        "run": RUN,
        "pull": pull,
        "comments": comments or [],
    }
    done = subprocess.run(
        [str(node), "-e", HARNESS],
        input=json.dumps(given),
        env={"FOLDER": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return found["calls"], found["error"]


def test_the_first_comment_is_created(tmp_path: Path):
    write(tmp_path)

    calls, error = comment(tmp_path)

    assert error is None
    assert [name for name, _ in calls] == ["get", "list", "create"]
    assert calls[0][1] == {"owner": "o", "repo": "r", "pull_number": 17}
    assert calls[2][1] == {
        "owner": "o",
        "repo": "r",
        "issue_number": 17,
        "body": f"{HEAD}Faster.",
    }


def test_the_comment_that_is_ours_is_brought_up_to_date(tmp_path: Path):
    write(tmp_path)
    comments = [
        {"id": 1, "user": {"login": BOT}, "body": "Another workflow's."},
        {"id": 2, "user": {"login": "somebody"}, "body": f"{MARKER}\nnot ours"},
        {"id": 3, "user": None, "body": f"{MARKER}\nof an account that is gone"},
        {"id": 4, "user": {"login": BOT}, "body": f"quotes {MARKER}"},
        {"id": 5, "user": {"login": BOT}, "body": f"{MARKER}\nSlower."},
    ]

    calls, error = comment(tmp_path, comments=comments)

    assert error is None
    assert [name for name, _ in calls] == ["get", "list", "update"]
    assert calls[2][1]["comment_id"] == 5
    assert calls[2][1]["body"] == f"{HEAD}Faster."


@pytest.mark.parametrize(
    "head",
    [
        {"sha": "b" * 40, "repo": {"id": 7}},
        {"sha": "a" * 40, "repo": {"id": 8}},
        {"sha": "a" * 40, "repo": None},
    ],
)
def test_a_pull_request_that_the_run_was_not_of_gets_none(tmp_path: Path, head: dict[str, Any]):
    write(tmp_path, number="18")

    calls, error = comment(tmp_path, pull={"head": head})

    assert error is None
    assert [name for name, _ in calls] == ["get", "warning"]


@pytest.mark.parametrize(
    "number", ["", "0", "-1", "1e3", "17; 18", "../17", "17\n18", "²", "12345678901", "1" * 30]
)
def test_what_is_no_number_is_refused_before_anything_is_asked(tmp_path: Path, number: str):
    write(tmp_path, number=number)

    calls, error = comment(tmp_path)

    assert calls == []
    assert error is not None
    assert "number" in error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begin with"),
        ("Faster.", "begin with"),
        (f"Faster. {MARKER}", "begin with"),
        (f"{MARKER} and more\n", "begin with"),
        (
            f"{MARKER}\n".ljust(len(MARKER) + 2 + LIMIT - len(HEAD), "x"),
            "more than 65536 characters",
        ),
        (f"{MARKER}\n" + "x" * 4 * LIMIT, "larger than 262144 bytes"),
    ],
)
def test_what_is_no_comment_is_refused(tmp_path: Path, text: str, words: str):
    write(tmp_path, text=text)

    calls, error = comment(tmp_path)

    assert calls == []
    assert error is not None
    assert words in error


def test_a_comment_may_be_as_long_as_github_takes(tmp_path: Path):
    rest = "€" * (LIMIT - len(HEAD))
    write(tmp_path, text=f"{MARKER}\n{rest}")

    calls, error = comment(tmp_path)

    assert error is None
    assert calls[2][1]["body"] == f"{HEAD}{rest}"
    assert len(calls[2][1]["body"]) == LIMIT


@pytest.mark.parametrize("text", ["```\nopen", "<!-- open", "<details>\nopen", "> quoted", "    x"])
def test_what_the_text_leaves_open_hides_nothing_of_where_it_comes_from(tmp_path: Path, text: str):
    write(tmp_path, text=f"{MARKER}\n{text}\n")

    calls, _ = comment(tmp_path)

    assert calls[2][1]["body"] == HEAD + text.strip()


@pytest.mark.parametrize("name", ["number", "comment.md"])
def test_a_file_that_is_missing_or_points_elsewhere_is_refused(tmp_path: Path, name: str):
    write(tmp_path)
    (tmp_path / name).rename(tmp_path / "elsewhere")

    assert comment(tmp_path) == ([], f"{name} is missing, no file, or larger than {_most(name)}")

    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    assert comment(tmp_path) == ([], f"{name} is missing, no file, or larger than {_most(name)}")


def _most(name: str) -> str:
    return {"number": "20 bytes", "comment.md": "262144 bytes"}[name]
