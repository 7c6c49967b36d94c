"""Where git fails, a command gives git's own reason, and what to do about it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from .checkouts import AFTER, PLACE, WORK, Checkout, git
from .conftest import Run, assert_refused

SAFE = "git config --global --add safe.directory"


def list_arm(run_here: Run, arm: str) -> str:
    """What `list --arm` says of where an arm is from."""
    ran = run_here("list", "--arm", arm)
    assert ran.code == 0, ran.err
    return ran.out


def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")


def test_a_checkout_of_somebody_else(
    run_here: Run, checkout: Checkout, monkeypatch: pytest.MonkeyPatch
):
    own(monkeypatch)
    reason = f"git: detected dubious ownership in repository at '{checkout.folder}'"

    ran = run_here("list", "--arm", f"{WORK}@base")
    assert_refused(ran, f"arm '{WORK}@base': {reason}; {SAFE} {checkout.folder}\n")
    # Of the work tree all is there but its commit.
    words = f"a work tree without a git revision ({reason}; {SAFE} {checkout.folder})"
    assert words in list_arm(run_here, WORK)


@pytest.mark.parametrize("command", ["verify", "count"])
def test_evidence_without_its_commit_says_why(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, command: str
):
    own(monkeypatch)
    arguments = {
        "verify": ("verify", "batched", "--runs", "1", "--jobs", "1", "--json", "-q"),
        "count": ("count", "--arms", "batched", "--cells", "1x8", "--json", "-q"),
    }[command]

    ran = run_here(*arguments)

    assert ran.code == 0
    metadata = json.loads(ran.out)["metadata"]
    assert "detected dubious ownership in repository at" in metadata["stepbench_revision_unknown"]
    assert f"revision unknown ({metadata['stepbench_revision_unknown']})" in metadata["where"]
    assert SAFE in metadata["where"]
    Path("x.json").write_text(ran.out)
    page = run_here("report", "x.json", "--format", "comment").out
    assert "detected dubious ownership" in page


def test_without_git_on_the_path(
    run_here: Run, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert checkout.base
    monkeypatch.setenv("PATH", str(tmp_path))

    words = "git: not on the PATH: install it, or add its folder to PATH"
    assert_refused(run_here("verify", f"{WORK}@base"), f"arm '{WORK}@base': {words}")
    assert_refused(run_here("verify", "git:HEAD:batched"), f"arm 'git:HEAD:batched': {words}")
    assert f"without a git revision ({words})" in list_arm(run_here, WORK)


def test_a_partial_clone_whose_remote_is_gone(run_here: Run, checkout: Checkout):
    git(checkout.folder, "config", "uploadpack.allowFilter", "true")
    clone = ("clone", "--quiet", "--filter=blob:none", f"file://{checkout.folder}", "../part")
    git(checkout.folder, *clone)
    checkout.folder.rename("gone")

    ran = run_here("verify", "trtllm:part@HEAD~1")
    assert_refused(ran, "arm 'trtllm:part@HEAD~1': git: '", "does not appear to be a git repo")
    assert "it is a partial clone, which lacks that" in ran.err
    # What it holds is taken as ever.
    assert f"commit {checkout.head}" in list_arm(run_here, "trtllm:part@HEAD")


def test_a_shallow_clone(run_here: Run, checkout: Checkout):
    git(checkout.folder, "clone", "--quiet", "--depth", "1", f"file://{checkout.folder}", "../top")

    words = "no git revision 'HEAD~1' in top: the clone is shallow; fetch its history"
    ran = run_here("compare", "trtllm:top@HEAD~1", "trtllm:top")
    assert_refused(ran, f"arm 'trtllm:top@HEAD~1': {words} (git -C top fetch --unshallow)")


def test_a_damaged_repository(run_here: Run, checkout: Checkout):
    blob = git(checkout.folder, "rev-parse", f"HEAD:{PLACE}")
    file = checkout.folder / ".git/objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"nonsense")

    ran = run_here("list", "--arm", f"{WORK}@HEAD")
    assert_refused(ran, f"{blob} (stored in ", "is corrupt; it is damaged: git -C engine fsck")


def test_a_work_tree_whose_repository_is_gone(run_here: Run, checkout: Checkout):
    git(checkout.folder, "worktree", "add", "--quiet", "--detach", "../tree")
    shutil.rmtree(checkout.folder)

    ran = run_here("list", "--arm", "trtllm:tree@HEAD")
    assert_refused(ran, "git: not a git repository: ", "git worktree repair")
    assert "git: not a git repository: " in list_arm(run_here, "trtllm:tree")


def test_a_bare_repository_and_a_sparse_checkout_want_a_revision(run_here: Run, checkout: Checkout):
    git(checkout.folder, "clone", "--quiet", "--bare", ".", "../bare.git")
    bare = run_here("list", "--arm", "trtllm:bare.git")
    git(checkout.folder, "status")  # Which sees that the module is as it was.
    git(checkout.folder, "sparse-checkout", "set", "docs")
    sparse = run_here("list", "--arm", WORK)

    assert_refused(bare, "a bare repository: name a revision, as in trtllm:bare.git@HEAD")
    assert_refused(sparse, "(sparse, or deleted): name a revision, as in trtllm:engine@HEAD")
    for arm in ("trtllm:bare.git@HEAD", "trtllm:engine@HEAD"):
        assert f"commit {checkout.head}" in list_arm(run_here, arm)


def test_a_repository_without_a_commit(run_here: Run, tmp_path: Path):
    file = tmp_path / "new" / PLACE
    file.parent.mkdir(parents=True)
    file.write_text(AFTER)
    git(tmp_path, "init", "--quiet", "new")

    words = "no git revision 'HEAD' in new: the repository has no commit yet"
    assert_refused(run_here("list", "--arm", "trtllm:new@HEAD"), words)
    assert "(the repository has no commit yet)" in list_arm(run_here, "trtllm:new")


def test_a_hook_of_another_repository_does_not_lead_astray(
    run_here: Run, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    git(tmp_path, "init", "--quiet", "other")
    other = tmp_path / "other/.git"
    monkeypatch.setenv("GIT_DIR", str(other))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / "objects"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))

    assert f"commit {checkout.head}" in list_arm(run_here, f"{WORK}@HEAD")
    assert "the module unchanged" in list_arm(run_here, WORK)


def test_a_git_that_never_answers(
    run_here: Run, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    assert checkout.base
    slow = tmp_path / "bin/git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("harness.system.git._SECONDS", 0.2)

    ran = run_here("list", "--arm", f"{WORK}@base")
    assert_refused(ran, "git: no answer in 0.2 s from `git rev-parse` in engine")


def test_a_gate_whose_base_cannot_be_read(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    own(monkeypatch)
    config = 'arms = ["batched"]\ncells = ["v2-64x2048"]\n'
    Path("stepbench.toml").write_text(f"[gate]\n{config}")

    ran = run_here("gate", "--base", "HEAD", "-q", "--cpu", "none")

    assert ran.code == 4
    assert "HEAD: git: detected dubious ownership" in ran.out
    assert SAFE in ran.out
