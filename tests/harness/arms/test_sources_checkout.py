"""Arms of a TensorRT-LLM checkout and of a file by itself, as source text."""

import os
import shutil
from pathlib import Path

import pytest

from harness.arms.sources import ArmSource, find_source
from stepbench_core.errors import InputError

from ..checkouts import everything
from ..connectors import AFTER, BEFORE, OLD, OLD_PLACE, PLACE
from ..repositories import commit, git, init, isolate_git

PACKAGE = "stubs.surface.tensorrt_llm._torch.pyexecutor"
NOWHERE = (
    "none of tensorrt_llm/_torch/pyexecutor/connectors/kv_cache_connector.py, "
    "tensorrt_llm/_torch/pyexecutor/kv_cache_connector.py, "
    "tensorrt_llm/_torch/pyexecutor/connector.py"
)


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An old revision, two new ones, and a work tree that is the last of them."""
    isolate_git(monkeypatch, tmp_path)
    root = init(tmp_path / "TensorRT-LLM")
    commit(root, OLD_PLACE, OLD)
    (root / OLD_PLACE).unlink()
    # White space around a source is part of it.
    commit(root, PLACE, "\n\n" + BEFORE + "\n\n")
    commit(root, PLACE, AFTER)
    return root


def test_a_revision_of_a_checkout(checkout: Path):
    found = find_source(f"trtllm:{checkout}@HEAD~1")

    wanted = git(checkout, "rev-parse", "HEAD~1")
    assert found == ArmSource(
        f"trtllm:{checkout}@HEAD~1",
        f"trtllm:{checkout}@HEAD~1",
        f"{wanted[:12]}:{PLACE}",
        "\n\n" + BEFORE + "\n\n",
        f"{PACKAGE}.connectors",
        f"commit {wanted}",
    )
    assert found.is_linked


def test_a_revision_of_an_older_tree(checkout: Path):
    found = find_source(f"trtllm:{checkout}@HEAD~2")

    wanted = git(checkout, "rev-parse", "HEAD~2")
    assert (found.text, found.package) == (OLD, PACKAGE)
    assert found.filename == f"{wanted[:12]}:{OLD_PLACE}"


def test_the_work_tree_of_a_checkout(checkout: Path):
    found = find_source(f"trtllm:{checkout}")

    head = git(checkout, "rev-parse", "HEAD")
    assert found == ArmSource(
        f"trtllm:{checkout}",
        f"trtllm:{checkout}",
        str(checkout / PLACE),
        AFTER,
        f"{PACKAGE}.connectors",
        f"work tree of commit {head}, the module unchanged",
    )


@pytest.mark.parametrize("staged", [False, True])
def test_what_is_changed_in_the_work_tree_is_read_and_said(checkout: Path, staged: bool):
    (checkout / PLACE).write_text(BEFORE)
    (checkout / "README.md").write_text("Of no interest.")
    if staged:
        git(checkout, "add", ".")

    found = find_source(f"trtllm:{checkout}")

    head = git(checkout, "rev-parse", "HEAD")
    assert found.text == BEFORE
    assert found.origin == f"work tree of commit {head}, the module changed"
    # A revision is what it was.
    assert find_source(f"trtllm:{checkout}@HEAD").text == AFTER
    assert find_source(f"trtllm:{checkout}@HEAD").origin == f"commit {head}"


def test_a_change_elsewhere_is_no_change_of_the_module(checkout: Path):
    (checkout / "README.md").write_text("Of no interest.")

    head = git(checkout, "rev-parse", "HEAD")
    wanted = f"work tree of commit {head}, the module unchanged"
    assert find_source(f"trtllm:{checkout}").origin == wanted


def test_a_folder_without_git_is_a_work_tree_too(checkout: Path):
    shutil.rmtree(checkout / ".git")

    found = find_source(f"trtllm:{checkout}")
    assert (found.text, found.origin) == (
        AFTER,
        "a work tree without a git revision (it is no git checkout)",
    )
    with pytest.raises(InputError) as caught:
        find_source(f"trtllm:{checkout}@HEAD")
    assert str(caught.value) == f"arm 'trtllm:{checkout}@HEAD': {checkout} is no git checkout"


def test_a_revision_of_a_bare_repository(checkout: Path, tmp_path: Path):
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(checkout), str(bare))

    assert find_source(f"trtllm:{bare}@main~1").text == "\n\n" + BEFORE + "\n\n"
    with pytest.raises(InputError) as caught:
        find_source(f"trtllm:{bare}")
    hint = f"a bare repository: name a revision, as in trtllm:{bare}@HEAD"
    assert str(caught.value) == f"arm 'trtllm:{bare}': {NOWHERE} in {bare}, {hint}"


def test_a_checkout_inside_a_larger_repository(checkout: Path):
    inner = checkout / "third_party/engine"
    wanted = commit(checkout, f"third_party/engine/{PLACE}", BEFORE)

    found = find_source(f"trtllm:{inner}@HEAD")
    assert (found.text, found.filename) == (BEFORE, f"{wanted[:12]}:third_party/engine/{PLACE}")
    assert find_source(f"trtllm:{inner}").text == BEFORE
    # And a folder of a checkout is none.
    with pytest.raises(InputError, match="none of "):
        find_source(f"trtllm:{checkout / 'tensorrt_llm'}@HEAD")


@pytest.mark.parametrize(
    ("name", "rest", "text"),
    [
        ("at@home", "", AFTER),
        ("at@home", "@HEAD", AFTER),
        ("at@home", "@HEAD~1", "\n\n" + BEFORE + "\n\n"),
        ("at@HEAD", "", AFTER),
        ("at@HEAD", "@HEAD~1", "\n\n" + BEFORE + "\n\n"),
        ("TRT LLM, 2: mine", "@HEAD", AFTER),
        ("plain", "@@", AFTER),
        ("plain", "@HEAD@{0}", AFTER),
        ("at@home", "@main@{0}", AFTER),
        ("plain", "@HEAD^{/Change: it}~1", "\n\n" + BEFORE + "\n\n"),
    ],
)
def test_a_path_may_hold_what_a_revision_begins_with(
    checkout: Path, name: str, rest: str, text: str
):
    checkout.rename(checkout.with_name(name))

    assert find_source(f"trtllm:{checkout.with_name(name)}{rest}").text == text


@pytest.mark.parametrize("rest", ["", "@HEAD"])
def test_a_path_may_begin_at_home_or_here(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, rest: str
):
    monkeypatch.setenv("HOME", str(checkout.parent))
    monkeypatch.chdir(checkout.parent)
    for path in ("~/TensorRT-LLM", "TensorRT-LLM", "./TensorRT-LLM/"):
        found = find_source(f"trtllm:{path}{rest}")
        assert (found.spec, found.name, found.text) == (f"trtllm:{path}{rest}",) * 2 + (AFTER,)
    monkeypatch.setenv("HOME", str(checkout))
    monkeypatch.chdir(checkout)
    for path in ("~", "~/", "."):
        assert find_source(f"trtllm:{path}{rest}").text == AFTER


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("trtllm:", "unknown arm 'trtllm:'"),
        ("trtllm", "unknown arm 'trtllm'"),
        ("trtllm:none", "arm 'trtllm:none': none is no folder"),
        ("trtllm:none@HEAD", "arm 'trtllm:none@HEAD': none is no folder"),
        ("trtllm:a@b@c", "arm 'trtllm:a@b@c': a@b is no folder"),
        ("trtllm:@HEAD", "arm 'trtllm:@HEAD': @HEAD is no folder"),
        ("trtllm:~nobody-of-this-name/x", "~nobody-of-this-name/x is no folder"),
        ("trtllm:~nobody-of-this-name@HEAD", "~nobody-of-this-name is no folder"),
        ("file:~nobody-of-this-name/x.py", "~nobody-of-this-name/x.py: No such file or directory"),
        ("trtllm:" + "x" * 5_000, "is no folder"),
        ("file:" + "x" * 5_000, "File name too long"),
        ("trtllm:T", f"arm 'trtllm:T': {NOWHERE} in T"),
        ("trtllm:T/README.md", "T/README.md is no folder"),
        ("trtllm:T@HEAD", f"arm 'trtllm:T@HEAD': {NOWHERE} at revision HEAD"),
        ("trtllm:T@", "arm 'trtllm:T@' is not trtllm:CHECKOUT@REVISION"),
        ("trtllm:T@--all", "arm 'trtllm:T@--all' is not trtllm:CHECKOUT@REVISION"),
        ("trtllm:T@gone", "arm 'trtllm:T@gone': no git revision 'gone' in T"),
        ("trtllm:T@HEAD~9", "arm 'trtllm:T@HEAD~9': no git revision 'HEAD~9' in T"),
        ("trtllm:T@HEAD:README.md", "no git revision 'HEAD:README.md' in T"),
        ("trtllm:T@HEAD^{tree}", "no git revision 'HEAD^{tree}' in T"),
    ],
)
def test_what_is_no_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spec: str, error: str
):
    isolate_git(monkeypatch, tmp_path)
    commit(init(tmp_path / "T"), "README.md", "Not an engine.")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputError) as caught:
        find_source(spec)

    assert error in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_repository_without_a_commit_has_no_revision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    isolate_git(monkeypatch, tmp_path)
    root = init(tmp_path / "T")
    (root / PLACE).parent.mkdir(parents=True)
    (root / PLACE).write_text(AFTER)

    wanted = "a work tree without a git revision (the repository has no commit yet)"
    assert find_source(f"trtllm:{root}").origin == wanted
    with pytest.raises(InputError, match="no git revision 'HEAD' in "):
        find_source(f"trtllm:{root}@HEAD")


def test_nothing_of_a_checkout_is_changed_by_reading_it(checkout: Path):
    # What is newer than git's index, git would look at again and note that in the index.
    os.utime(checkout / PLACE, (2_000_000_000, 2_000_000_000))
    before = everything(checkout)
    for rest in ("", "@HEAD", "@HEAD~2", "@main"):
        find_source(f"trtllm:{checkout}{rest}")

    assert everything(checkout) == before
    assert git(checkout, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("text", "package"),
    [
        (AFTER, f"{PACKAGE}.connectors"),
        (OLD, PACKAGE),
        ("import tensorrt_llm\n", PACKAGE),
        ("from ..llm_request import LlmRequest\n", f"{PACKAGE}.connectors"),
        # Words in a comment move nothing.
        ("import tensorrt_llm  # not from .. here\n", PACKAGE),
        ("from .data import RequestData\n", "connector"),
        ("class (:\n", "connector"),
    ],
)
def test_a_file_by_itself_is_of_the_engine_or_of_this_project(
    tmp_path: Path, text: str, package: str
):
    path = tmp_path / "mine.py"
    path.write_text(text)

    found = find_source(f"file:{path}")

    origin = "" if package == "connector" else "a file by itself"
    assert found == ArmSource(f"file:{path}", "mine", str(path), text, package, origin)
    assert found.is_linked is (package != "connector")


@pytest.mark.parametrize("end", ["\n", "\t", "\x1b[31m", "\u2028"])
def test_a_name_is_one_that_can_be_printed(end: str):
    with pytest.raises(InputError, match="holds a character that cannot be printed"):
        find_source(f"trtllm:here{end}")


def test_the_digest_is_that_of_the_text_alone():
    one = ArmSource("a", "a", "a.py", "caf\u00e9")

    assert one.digest == ArmSource("b", "b", "b.py", "caf\u00e9", "c", "d").digest
    assert one.digest == "850f7dc43910ff890f8879c0ed26fe697c93a067ad93a7d50f466a7028a9bf4e"
