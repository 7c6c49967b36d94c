"""Arms as source text: from the work tree, from a file, and from a git repository made here."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.data import RequestData, SchedulerOutput
from harness import loading, revision
from harness.arms import ARMS
from harness.loading import ArmOfSource, ArmSource, find_source, load_apart
from scenarios.errors import InputError, NoBaselineError

ARM = "class KvCacheConnectorSchedulerOutputManager:\n    made = {!r}\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit(root: Path, path: str, text: str) -> str:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--no-gpg-sign", "-m", "Change: it")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two revisions of one arm, and a third text in the work tree; taken for this project."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", "repository")
    # A line break at the end, and white space before it, are part of a source.
    commit(root, "connector/incremental.py", "\n" + ARM.format("first") + "\n\n")
    commit(root, "connector/incremental.py", ARM.format("second"))
    (root / "connector/incremental.py").write_text(ARM.format("third"))
    monkeypatch.setattr(loading, "ROOT", root)
    monkeypatch.setattr(revision, "ROOT", root)
    return root


@pytest.fixture
def alias() -> Iterator[str]:
    """A name for a module, which is free again afterwards."""
    name = "_stepbench_test_apart"
    yield name
    sys.modules.pop(name, None)


def source(text: str, spec: str = "file:x.py") -> ArmSource:
    return ArmSource(spec, "x", "x.py", text)


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
    for module in (loading, revision):
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


def test_outside_git_there_are_no_revisions(monkeypatch: pytest.MonkeyPatch, repository: Path):
    monkeypatch.setenv("GIT_DIR", str(repository / "none"))
    with pytest.raises(InputError, match="no git revision 'HEAD' here"):
        find_source("git:HEAD:incremental")


def test_a_file(tmp_path: Path):
    path = tmp_path / "my arm: 2.py"
    path.write_text(ARM.format("caf\u00e9"), encoding="utf-8")

    found = find_source(f"file:{path}")

    assert found == ArmSource(f"file:{path}", "my arm: 2", str(path), ARM.format("caf\u00e9"))


def test_files_that_cannot_be_read(tmp_path: Path):
    (tmp_path / "bytes.py").write_bytes(b"# caf\xe9\n")
    for name, why in (
        ("none.py", "No such file or directory"),
        ("bytes.py", "'utf-8' codec can't decode"),
        ("", "Is a directory"),
    ):
        path = tmp_path / name
        with pytest.raises(InputError) as caught:
            find_source(f"file:{path}")
        assert str(caught.value).startswith(f"{path}: {why}")


def test_modules_apart_share_no_state_but_the_types(alias: str):
    text = find_source("incremental").text
    first, second = load_apart(source(text), alias), load_apart(source(text), alias + "2")
    sys.modules.pop(alias + "2")

    name = "KvCacheConnectorSchedulerOutputManager"
    assert getattr(first, name) is not getattr(second, name)
    assert vars(first) is not vars(second)
    assert first.SchedulerOutput is second.SchedulerOutput is SchedulerOutput
    assert first.RequestData is second.RequestData is RequestData
    assert sys.modules[alias] is first
    assert first.KvCacheConnectorSchedulerOutputManager.__module__ == alias


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_can_be_loaded_apart(name: str, alias: str):
    module = load_apart(find_source(name), alias)

    arm = module.KvCacheConnectorSchedulerOutputManager(
        enable_attention_dp=True, attention_dp_rank=3
    )
    assert arm.attention_dp_rank == 3


def test_a_loaded_module_is_compiled_as_it_stands(alias: str):
    # Not with the __future__ of the module that compiles it.
    module = load_apart(source(ARM.format("x") + "    size: int = 1\n"), alias)

    assert module.KvCacheConnectorSchedulerOutputManager.__annotations__ == {"size": int}


def test_a_dataclass_of_a_file_finds_its_own_module(alias: str):
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\n"
    module = load_apart(source(text + ARM.format("x") + "    size: int = 1\n"), alias)

    assert module.KvCacheConnectorSchedulerOutputManager(size=3).size == 3


def test_an_error_in_a_loaded_module_names_its_file_and_line(alias: str):
    text = "\n" + ARM.format("x") + "    def f(self):\n        raise ValueError\n"
    module = load_apart(ArmSource("file:a.py", "a", "somewhere/a.py", text), alias)
    try:
        module.KvCacheConnectorSchedulerOutputManager().f()
    except ValueError as error:
        frame = error.__traceback__.tb_next.tb_frame  # type: ignore[union-attr]
        assert (frame.f_code.co_filename, frame.f_lineno) == ("somewhere/a.py", 5)
    else:
        pytest.fail("the arm raised nothing")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("class (:\n", "SyntaxError: "),
        ("import no_such_module_at_all\n", "ModuleNotFoundError: No module named 'no_such_mod"),
        ("raise RuntimeError('not today')\n", "RuntimeError: not today"),
        ("from .nowhere import x\n", "ModuleNotFoundError: No module named 'connector.nowhere'"),
        ("from .data import nothing\n", "ImportError: cannot import name 'nothing'"),
        ("\0", "source code string cannot contain null bytes"),
        # An arm must not end the command, with a code that says all is well.
        ("raise SystemExit(0)\n", "SystemExit: 0"),
        ("import sys\nsys.exit('no GPU here')\n", "SystemExit: no GPU here"),
    ],
)
def test_a_source_that_cannot_be_imported(alias: str, text: str, why: str):
    with pytest.raises(InputError) as caught:
        load_apart(source(text), alias)
    told = str(caught.value)
    assert told.startswith("file:x.py: cannot be imported: ")
    assert why in told
    assert alias not in sys.modules


@pytest.mark.parametrize("text", ["", "x = 1\n"])
def test_a_source_without_the_class(alias: str, text: str):
    with pytest.raises(InputError) as caught:
        load_apart(source(text, "git:HEAD:incremental"), alias)
    assert str(caught.value) == (
        "git:HEAD:incremental: has no class KvCacheConnectorSchedulerOutputManager"
    )


def test_a_factory_makes_fresh_instances_and_can_be_sent():
    make = ArmOfSource(find_source("page-range"))

    first, second = make(attention_dp=False), pickle.loads(pickle.dumps(make))(True)  # noqa: S301

    assert first is not make(attention_dp=False)
    assert type(first) is type(second)
    assert (first.attention_dp_rank, second.attention_dp_rank) == (None, 3)  # type: ignore[attr-defined]


def test_factories_of_two_texts_under_one_name_are_apart(tmp_path: Path):
    init = (
        "    def __init__(self, **options): pass\n"
        "    build_scheduler_output = record_new_matched_tokens = reset_request = __init__\n"
    )
    made = []
    for text in ("old", "new"):
        (tmp_path / "arm.py").write_text(ARM.format(text) + init)
        made.append(ArmOfSource(find_source(f"file:{tmp_path / 'arm.py'}"))(False))

    assert [type(arm).made for arm in made] == ["old", "new"]  # type: ignore[attr-defined]


def test_an_arm_without_a_method_is_named():
    body = "    def __init__(self, **options): pass\n    reset_request = __init__\n"
    text = "class KvCacheConnectorSchedulerOutputManager:\n" + body

    with pytest.raises(InputError) as caught:
        ArmOfSource(source(text, "file:half.py"))(False)
    assert str(caught.value) == (
        "file:half.py: has no method build_scheduler_output, record_new_matched_tokens"
    )


@pytest.mark.parametrize(
    "body",
    [
        "    pass\n",
        "    def __init__(self, **options): raise RuntimeError('no device')\n",
        "    def __init__(self, enable_attention_dp): pass\n",
    ],
)
def test_an_arm_that_cannot_be_made_is_bad_input(body: str):
    text = "class KvCacheConnectorSchedulerOutputManager:\n" + body

    with pytest.raises(InputError, match=r"^file:made\.py: "):
        ArmOfSource(source(text, "file:made.py"))(False)
