"""Arms as source text: from the work tree, from a file, and from a git repository made here."""

import sys
from pathlib import Path

import pytest

from harness.arms import revision, sources
from harness.arms.registry import ARMS
from harness.arms.sources import ArmSource, find_source
from stepbench_core.errors import InputError, NoBaselineError

from ..repositories import commit, git, init, isolate_git

ARM = "class KvCacheConnectorSchedulerOutputManager:\n    made = {!r}\n"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two revisions of one arm, and a third text in the work tree; taken for this project."""
    isolate_git(monkeypatch, tmp_path)
    root = init(tmp_path / "repository")
    # A line break at the end, and white space before it, are part of a source.
    commit(root, "connector/incremental.py", "\n" + ARM.format("first") + "\n\n")
    commit(root, "connector/incremental.py", ARM.format("second"))
    (root / "connector/incremental.py").write_text(ARM.format("third"))
    monkeypatch.setattr(sources, "ROOT", root)
    monkeypatch.setattr(revision, "ROOT", root)
    return root


@pytest.mark.parametrize("name", ARMS)
def test_a_name_is_the_file_of_the_work_tree(name: str):
    found = find_source(name)

    path = Path(sys.modules["connector"].__path__[0]) / f"{name.replace('-', '_')}.py"
    assert (found.spec, found.name, found.filename) == (name, name, str(path))
    assert found.text == path.read_text()


@pytest.mark.parametrize(
    ("changed", "rev", "made"),
    [
        ("", "HEAD", "second"),
        ("", "HEAD~1", "first"),
        ("", "main", "second"),
        ("branch feature/a-b HEAD~1", "feature/a-b", "first"),
        ("update-ref refs/remotes/origin/main HEAD~1", "origin/main", "first"),
        ("update-ref refs/remotes/origin/main HEAD~1", "refs/remotes/origin/main", "first"),
        ("tag v1.0 HEAD~1", "v1.0", "first"),
        # An annotated tag is an object of its own.
        ("tag -a -m Release v2.0 HEAD~1", "v2.0", "first"),
        # A revision may hold a colon itself.
        ("", "HEAD~1^{/Change: it}", "first"),
    ],
)
def test_an_arm_as_of_a_revision(repository: Path, changed: str, rev: str, made: str):
    if changed:
        git(repository, *changed.split())

    found = find_source(f"git:{rev}:incremental")

    assert f"made = {made!r}" in found.text
    assert (found.spec, found.name) == (f"git:{rev}:incremental", "incremental")
    wanted = git(repository, "rev-parse", {"first": "HEAD~1", "second": "HEAD"}[made])
    assert found.filename == f"{wanted[:12]}:connector/incremental.py"


def test_a_revision_by_its_hash_whole_or_in_part(repository: Path):
    head = git(repository, "rev-parse", "HEAD")

    whole, part = find_source(f"git:{head}:incremental"), find_source(f"git:{head[:8]}:incremental")

    assert whole.text == part.text == ARM.format("second")
    assert whole.filename == part.filename


def test_not_a_byte_of_a_revision_is_lost(repository: Path):
    assert repository.is_dir()
    assert find_source("git:HEAD~1:incremental").text == "\n" + ARM.format("first") + "\n\n"
    assert find_source("incremental").text == ARM.format("third")


def test_a_project_inside_a_larger_repository(monkeypatch: pytest.MonkeyPatch, repository: Path):
    commit(repository, "tools/bench/connector/incremental.py", ARM.format("inner"))
    for module in (sources, revision):
        monkeypatch.setattr(module, "ROOT", repository / "tools/bench")

    assert find_source("git:HEAD:incremental").text == ARM.format("inner")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("git:HEAD", "arm 'git:HEAD' is not git:REVISION:NAME"),
        ("git::incremental", "arm 'git::incremental' is not git:REVISION:NAME"),
        ("git:-h:incremental", "arm 'git:-h:incremental' is not git:REVISION:NAME"),
        ("git:--all:incremental", "arm 'git:--all:incremental' is not git:REVISION:NAME"),
        (
            "git:nowhere:incremental",
            "arm 'git:nowhere:incremental': no git revision 'nowhere' here",
        ),
        ("git:a:b:incremental", "arm 'git:a:b:incremental': no git revision 'a:b' here"),
        ("git:HEAD:connector:incremental", "no git revision 'HEAD:connector' here"),
        ("git:HEAD^{tree}:incremental", "no git revision 'HEAD^{tree}' here"),
        ("git:HEAD~9:incremental", "no git revision 'HEAD~9' here"),
        ("git:HEAD:", "unknown arm '': known: "),
        ("git:HEAD:incrementl", "unknown arm 'incrementl': did you mean 'incremental'?"),
        ("git:HEAD:floor", "unknown arm 'floor': "),
        ("git:HEAD:../incremental", "unknown arm '../incremental': "),
        *[("git:", "unknown arm 'git:': "), ("git", "unknown arm 'git': ")],
        *[("file:", "unknown arm 'file:': "), ("", "unknown arm '': ")],
        ("page-rang", "unknown arm 'page-rang': did you mean 'page-range'?"),
        ("hg:HEAD:incremental", "unknown arm 'hg:HEAD:incremental': "),
    ],
)
def test_what_names_no_arm(spec: str, error: str):
    with pytest.raises(InputError) as caught:
        find_source(spec)
    assert error in str(caught.value)


@pytest.mark.usefixtures("repository")
def test_an_arm_that_a_revision_does_not_have_is_nothing_to_compare_with():
    with pytest.raises(NoBaselineError) as caught:
        find_source("git:HEAD~1:page-range")
    assert str(caught.value) == "arm 'page-range' does not exist at revision HEAD~1"


def test_outside_git_there_are_no_revisions(
    monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path
):
    for module in (sources, revision):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    assert repository.parent == tmp_path
    with pytest.raises(InputError, match=r"arm 'git:HEAD:incremental': .* is no git checkout"):
        find_source("git:HEAD:incremental")


def test_another_repository_that_git_is_pointed_to_is_not_read(
    monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path
):
    # As in a hook of another repository.
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    assert find_source("git:HEAD:incremental").filename == f"{head[:12]}:connector/incremental.py"


def test_a_file(tmp_path: Path):
    path = tmp_path / "my arm: 2.py"
    path.write_text(ARM.format("caf\u00e9"), encoding="utf-8")

    found = find_source(f"file:{path}")

    assert found == ArmSource(f"file:{path}", "my arm: 2", str(path), ARM.format("caf\u00e9"))


def test_files_that_cannot_be_read(tmp_path: Path):
    (tmp_path / "bytes.py").write_bytes(b"# caf\xe9\n")
    for name, why in (
        ("none.py", "No such file or directory"),
        ("bytes.py", "it is not text"),
        ("", "Is a directory"),
    ):
        path = tmp_path / name
        with pytest.raises(InputError) as caught:
            find_source(f"file:{path}")
        assert str(caught.value).startswith(f"{path}: {why}")
