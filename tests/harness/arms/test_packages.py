"""Versions of a user's packages: where they are found, and how they are read."""

import os
from pathlib import Path

import pytest

from harness.arms.packages import PackageArm, find_packages, find_project, read_arms
from stepbench_core.errors import InputError
from tests.own_project import BATCHING, commit, make, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path / "project")


def read(root: Path, into: Path, *specs: str) -> dict[str, PackageArm]:
    into.mkdir(exist_ok=True)
    return read_arms(find_project(f"{root}/bench_join.py"), specs, into)


def text(arm: PackageArm, name: str) -> str:
    return (Path(arm.folders[0]) / name).read_text()


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["src/a/__init__.py", "src/b.py", "c/__init__.py"], {"src": ["a", "b"]}),
        (["src/space/a/__init__.py"], {"src": ["space"]}),
        (["a/__init__.py", "a/b/__init__.py", "c.py", "data/x.txt"], {".": ["a", "c"]}),
        (["a/__init__.py", "tests/__init__.py", "setup.py", "test_a.py"], {".": ["a"]}),
        (["bench.py", "bench_other.py", "conftest.py", "docs/conf.py"], {}),
        (["src/README", "a/__init__.py"], {".": ["a"]}),
    ],
)
def test_packages_are_found_in_either_layout(files: list[str], found: dict[str, list[str]]):
    assert find_packages(files, "bench") == found


def test_the_project_is_the_nearest_folder_that_says_so(root: Path):
    write(root, {"python/deep/setup.py": "", "python/deep/benchmarks/bench.py": ""})

    assert find_project(f"{root}/bench_join.py::join").root == root
    assert find_project(f"{root}/bench_join.py::join").function == "join"
    assert find_project(f"{root}/python/deep/benchmarks/bench.py").root == root / "python/deep"


@pytest.mark.parametrize(
    ("subject", "words"), [("nix.py", "no file nix.py"), ("pyproject.toml", "is no Python file")]
)
def test_a_subject_that_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, subject: str, words: str
):
    monkeypatch.chdir(root)

    with pytest.raises(InputError, match=words):
        find_project(subject)


def test_a_revision_the_work_tree_and_another_folder(root: Path, tmp_path: Path):
    write(root, {"src/joiner/weights.py": "changed = True\n"})
    other = make(tmp_path / "other", **{"src/joiner/weights.py": "other = True\n"})
    specs = ("git:one", "git:", f"path:{other}")

    arms = read(root, tmp_path / "into", *specs)

    names = [text(arms[spec], "joiner/weights.py").split()[0] for spec in specs]
    assert names == ["def", "changed", "other"]
    assert [arm.packages for arm in arms.values()] == [("joiner",)] * 3
    assert len({arm.digest for arm in arms.values()}) == 3
    assert arms["git:one"].origin.startswith("commit ")
    assert arms["git:"].origin.endswith(", with changes")
    assert arms[f"path:{other}"].origin.endswith(", unchanged")


def test_nothing_changes_in_the_checkout_and_no_later_edit_counts(root: Path, tmp_path: Path):
    before = sorted(path for path in root.rglob("*") if ".git" not in path.parts)

    arm = read(root, tmp_path / "into", "git:")["git:"]
    write(root, {"src/joiner/batching.py": ""})

    assert text(arm, "joiner/batching.py") == BATCHING
    assert sorted(path for path in root.rglob("*") if ".git" not in path.parts) == before


def test_a_module_by_itself_that_changed_is_told(tmp_path: Path):
    write(tmp_path, {"bench_join.py": "", "alpha.py": "a = 1\n"})
    commit(tmp_path)
    write(tmp_path, {"alpha.py": "a = 2\n"})

    arm = read(tmp_path, tmp_path / "into", "git:")["git:"]

    assert arm.packages == ("alpha",)
    assert arm.origin.endswith(", with changes")


def test_the_same_files_have_the_same_digest(root: Path, tmp_path: Path):
    arms = read(root, tmp_path / "into", "git:one", "git:")

    assert arms["git:one"].digest == arms["git:"].digest
    assert arms["git:"].origin.endswith(", unchanged")


@pytest.mark.parametrize("base", ["git:", "git:one"])
def test_a_patch_on_top(root: Path, tmp_path: Path, base: str):
    write(
        tmp_path,
        {
            "a.patch": "--- a/src/joiner/weights.py\n+++ b/src/joiner/weights.py\n"
            "@@ -1,2 +1,2 @@\n def weight(length):\n-    return length * 2\n+    return length\n"
        },
    )
    spec = f"{base}+{tmp_path}/a.patch"

    arm = read(root, tmp_path / "into", spec)[spec]

    assert text(arm, "joiner/weights.py") == "def weight(length):\n    return length\n"
    assert arm.origin.endswith(", with a.patch")


def test_a_module_that_git_ignores_comes_from_the_work_tree(root: Path, tmp_path: Path):
    write(root, {".gitignore": "_version.py\n", "src/joiner/_version.py": "version = 1\n"})
    commit(root)

    arm = read(root, tmp_path / "into", "git:HEAD")["git:HEAD"]

    assert text(arm, "joiner/_version.py") == "version = 1\n"
    assert "generated files of the work tree: src/joiner/_version.py" in arm.origin


def test_what_is_compiled_is_told(root: Path, tmp_path: Path):
    write(root, {"src/joiner/fast.abi3.so": ""})  # Ignored or not.

    assert read(root, tmp_path / "into", "git:")["git:"].is_native
    with pytest.raises(InputError, match=r"compiled modules \(src/joiner/fast.abi3.so\), which"):
        read(root, tmp_path / "again", "git:HEAD")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("joiner", r"is git: \(the work tree\), git:REVISION or path:FOLDER"),
        ("git:nix", "arm 'git:nix': no git revision 'nix' in "),
        ("git:--help", "is not git:REVISION"),
        ("path:nix", "nix is no folder"),
        ("path:src/joiner/deep", "is no folder"),
        ("git:+nix.patch", "no patch nix.patch"),
        ("git:+empty.patch", "the patch changes none of the packages' files"),
        ("git:+wrong.patch", "the patch does not apply"),
    ],
)
def test_an_arm_that_is_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, words: str
):
    monkeypatch.chdir(root)
    for name, path in (("empty", "nix"), ("wrong", "src/joiner/weights.py")):
        write(root, {f"{name}.patch": f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"})

    with pytest.raises(InputError, match=words):
        read(root, tmp_path / "into", spec)


def test_a_folder_without_packages(root: Path, tmp_path: Path):
    (tmp_path / "none").mkdir()

    with pytest.raises(InputError, match=r"no Python package in .*none, nor in its folder src"):
        read(root, tmp_path / "into", f"path:{tmp_path}/none")


def test_a_project_that_is_in_no_repository(tmp_path: Path):
    write(tmp_path, {"bench_join.py": "", "joiner/__init__.py": ""})

    with pytest.raises(InputError, match="is in no git repository"):
        read(tmp_path, tmp_path / "into", "git:HEAD")
    assert "without a git revision" in read(tmp_path, tmp_path / "again", "git:")["git:"].origin


def test_what_attributes_say_of_exporting_makes_no_difference(root: Path, tmp_path: Path):
    write(
        root,
        {
            ".gitattributes": "_v.py export-subst\nweights.py export-ignore\n",
            "src/joiner/_v.py": 'commit = "$Format:%H$"\n',
        },
    )
    commit(root)

    arms = read(root, tmp_path / "into", "git:HEAD", "git:")

    assert arms["git:HEAD"].digest == arms["git:"].digest
    assert text(arms["git:HEAD"], "joiner/weights.py").startswith("def weight")


def test_links_and_odd_names_are_taken_as_they_are(root: Path, tmp_path: Path):
    (root / "src/joiner/link").symlink_to("/etc/hosts")
    (root / "src/joiner/loop").symlink_to(".")
    (root / os.fsdecode(b"src/joiner/\xff.dat")).write_bytes(b"x")
    commit(root)

    arms = read(root, tmp_path / "into", "git:HEAD", "git:")

    assert arms["git:HEAD"].digest == arms["git:"].digest
    assert (Path(arms["git:"].folders[0]) / "joiner/link").is_symlink()


def test_of_a_patch_what_is_not_of_the_packages_is_left_out(root: Path, tmp_path: Path):
    change = (
        "--- a/{0}{1}\n+++ b/{0}{1}\n@@ -1,2 +1,2 @@\n def weight(length):\n"
        "-    return length * 2\n+    return length\n"
    )
    other = "--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-a\n+b\n"
    write(tmp_path, {"a.patch": other + change.format("", "src/joiner/weights.py")})
    spec = f"git:+{tmp_path}/a.patch"

    arm = read(root, tmp_path / "into", spec)[spec]

    assert text(arm, "joiner/weights.py") == "def weight(length):\n    return length\n"


def test_of_a_project_in_a_folder_a_patch_may_be_seen_from_the_repository(tmp_path: Path):
    root = tmp_path / "all" / "python"
    write(root, {"pyproject.toml": "", "bench_join.py": "", "joiner/__init__.py": "a = 1\n"})
    commit(tmp_path / "all")
    path = "python/joiner/__init__.py"
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    write(tmp_path, {"a.patch": f"{head}@@ -1 +1 @@\n-a = 1\n+a = 2\n"})
    spec = f"git:HEAD+{tmp_path}/a.patch"

    arm = read(root, tmp_path / "into", spec)[spec]

    assert text(arm, "joiner/__init__.py") == "a = 2\n"


def test_a_namespace_and_a_module_named_as_the_users_file(tmp_path: Path):
    write(
        tmp_path,
        {
            "pyproject.toml": "",
            "src/space/joiner/deep.py": "",
            "src/other/__init__.py": "",
            "benchmarks/bench_join.py": "",
        },
    )
    commit(tmp_path)
    (tmp_path / "into").mkdir()
    project = find_project(f"{tmp_path}/benchmarks/bench_join.py")

    arms = read_arms(project, ("git:", "git:HEAD"), tmp_path / "into")

    assert [arm.packages for arm in arms.values()] == [("other", "space")] * 2
    assert find_packages(["joiner/__init__.py", "bench/joiner.py"]) == {".": ["joiner"]}


def test_a_package_named_as_what_a_worker_needs_is_refused(tmp_path: Path):
    write(tmp_path, {"bench_join.py": "", "subjects/__init__.py": ""})

    with pytest.raises(InputError, match="a package is called 'subjects', as one of stepbench's"):
        read(tmp_path, tmp_path / "into", "git:")


def test_of_a_folder_with_other_packages_those_of_the_project_are_taken(root: Path, tmp_path: Path):
    site = tmp_path / "site"
    write(site, {"joiner/__init__.py": "", "other/__init__.py": "", "six.py": ""})

    arm = read(root, tmp_path / "into", f"path:{site}")[f"path:{site}"]

    assert arm.packages == ("joiner",)
    assert not (Path(arm.folders[0]) / "other").exists()
