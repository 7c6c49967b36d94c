"""What no command expects: one line, exit code 2, and never a finding."""

import errno
import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.arms.linking import OWN
from harness.arms.revision import ROOT
from stepbench import list_
from stepbench.failures import DEBUG, explain
from stepbench.module_path import OURS

from .conftest import Run, assert_refused

Failing = Callable[[BaseException], None]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Makes a command raise an exception."""

    def fail(error: BaseException) -> None:
        def command(**_options: object) -> None:
            raise error

        monkeypatch.setattr(list_.command, "callback", command)

    return fail


def deep() -> None:
    deep()


def recursion_error() -> RecursionError:
    with pytest.raises(RecursionError) as caught:
        deep()
    return caught.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TypeError("a\nb"), "TypeError: a b"),
        (KeyError("x"), "KeyError: 'x'"),
        (AssertionError(), "AssertionError"),
        (UnicodeEncodeError("ascii", "é", 0, 1, "no"), "UnicodeEncodeError: 'ascii' codec"),
        (recursion_error(), "RecursionError: maximum recursion depth exceeded"),
        (OSError(errno.EPERM, "Operation not permitted"), "PermissionError: [Errno 1]"),
    ],
)
def test_a_bug_is_one_line_with_a_file_to_report(
    run_here: Run, failing: Failing, error: BaseException, said: str
):
    failing(error)

    ran = run_here("list")

    assert_refused(ran, f"error: internal error: {said}", "is a bug in stepbench: please report it")
    file = Path(ran.err.split()[-1])
    text = file.read_text()
    assert text.startswith("stepbench list\nstepbench ")
    assert "Traceback (most recent call last)" in text
    file.unlink()


def test_the_traceback_is_shown_where_that_is_asked_for(
    run_here: Run, failing: Failing, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(DEBUG, "1")
    failing(TypeError("a"))

    ran = run_here("list")

    *trace, line = ran.err.splitlines()
    assert ran.code == 2
    assert trace[0] == "Traceback (most recent call last):"
    assert line.endswith("please report it with the traceback above")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "out of memory"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "ulimit -u"),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENOSPC, "No space left on device"), "output: No space left"),
        (OSError(errno.EACCES, "Permission denied", "x.json"), "x.json: Permission denied"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "TMPDIR"),
        (ImportError("x.so: failed to map segment from shared object"), "out of memory"),
        (ImportError("no DLL", name="numpy.core"), "numpy"),
        # Of an environment that lies in the clone.
        (ImportError("no DLL", name="other.core", path=f"{ROOT}/.venv/other.so"), "other"),
    ],
)
def test_what_the_machine_lacks_is_no_bug(
    run_here: Run, failing: Failing, error: BaseException, said: str
):
    failing(error)

    ran = run_here("list")

    assert_refused(ran, said)
    assert "internal" not in ran.err


def test_a_module_of_this_project_is_its_own_fault():
    assert explain(ImportError("no such name", name="harness.arms.registry")).startswith(
        "internal error: "
    )
    assert OURS == OWN


@pytest.mark.parametrize("found", ["3.5", "3.7.10", None])
def test_a_package_that_is_too_old_or_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, found: str | None
):
    def version(name: str) -> str:
        if name != "matplotlib":
            return "999"
        if found is None:
            raise importlib.metadata.PackageNotFoundError
        return found

    monkeypatch.setattr(
        importlib.metadata, "requires", lambda _: ["click>=8.1.3", "matplotlib>=3.8"]
    )
    monkeypatch.setattr(importlib.metadata, "version", version)

    if found is None:
        words = explain(ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"))
        assert words == "the package matplotlib is missing: pip install 'matplotlib>=3.8'"
    else:
        words = explain(AttributeError("no attribute 'x'"))
        assert words.startswith(f"matplotlib {found} is too old: stepbench needs 3.8 or newer (")


@pytest.mark.parametrize("error", ["ImportError('broken')", "MemoryError", "ValueError('odd')"])
def test_what_cannot_even_be_imported_ends_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
):
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "__init__.py").write_text(f"raise {error}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = subprocess.run(
        [sys.executable, "-m", "stepbench", "list"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("stepbench: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["speedup", "--help"]])
def test_a_reader_that_is_gone_is_no_error_at_the_end_of_python(arguments: list[str]):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "stepbench", *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)

    assert (done.returncode, done.stderr) == (0, b"")
