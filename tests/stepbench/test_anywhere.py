"""Systems that lack or forbid what most have: it works, or one line says what is in the way."""

import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import ONE, SCRIPT, assert_refused, run_script

pytestmark = pytest.mark.thorough

MISSING = """
import os
for name in ("sched_setaffinity", "sched_getaffinity", "memfd_create"):
    delattr(os, name)
"""
FORBIDDEN = """
import os
def refuse(*_):
    raise OSError({number}, os.strerror({number}))
os.sched_setaffinity = refuse
"""
NO_SEMAPHORES = """
import _multiprocessing
class SemLock(_multiprocessing.SemLock):
    def __new__(cls, *_arguments, **_named):
        raise OSError(30, "Read-only file system")
_multiprocessing.SemLock = SemLock
"""
DENYING = """
import psutil
def refuse(*_arguments, **_named):
    raise psutil.AccessDenied
for name in ("Process", "boot_time", "cpu_count", "virtual_memory"):
    setattr(psutil, name, refuse)
"""


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Changes what Python finds of the system, in all processes that are started."""
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder / "sitecustomize.py"


@pytest.mark.parametrize(
    "arguments",
    [
        ("speedup", *ONE),
        ("compare", "incremental", "incremental", "--cells", "1x8"),
        ("overlap", "--cells", "1x8"),
        ("calibrate", "--no-table"),
        ("doctor",),
        ("gate",),
    ],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize(
    ("code", "texts"),
    [
        (MISSING, ("needs Linux",)),
        (FORBIDDEN.format(number=1), ("affinity", "Operation not permitted")),
    ],
    ids=["missing", "forbidden"],
)
def test_without_pinning_the_way_out_is_named(
    system: Path, tmp_path: Path, arguments: tuple[str, ...], code: str, texts: tuple[str, ...]
):
    system.write_text(code)
    config = '[gate]\narms = ["incremental"]\ncells = ["v2-64x2048"]\n'
    (tmp_path / "stepbench.toml").write_text(config)

    assert_refused(run_script(*arguments), *texts, "--cpu none")


@pytest.mark.parametrize(
    "code",
    [MISSING, *(FORBIDDEN.format(number=number) for number in (22, 38))],
    ids=["missing", "invalid", "not implemented"],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("speedup", *ONE, "--cpu", "none"),
        ("doctor", "--no-run"),
        ("verify", "incremental", "--runs", "30", "--jobs", "2"),
        ("count", "--cells", "1x8"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_pins_nothing_needs_no_affinity(system: Path, arguments: tuple[str, ...], code: str):
    system.write_text(code)

    assert run_script(*arguments, "-q" if arguments[0] == "verify" else "--json").code == 0


def test_cpu_none_sets_nothing(system: Path, tmp_path: Path):
    told = tmp_path / "told"
    system.write_text(f"import os\nos.sched_setaffinity = lambda *_: open({str(told)!r}, 'w')\n")

    assert run_script("speedup", *ONE, "--cpu", "none").code == 0
    assert not told.exists()
    assert run_script("speedup", *ONE, "--cpu", "0", "--force", "-o", "x.json").code == 0
    assert told.exists()


@pytest.mark.parametrize("arm", ["incremental", "file:arm.py"])
def test_without_semaphores_processes_work_together_all_the_same(
    system: Path, tmp_path: Path, arm: str
):
    system.write_text(NO_SEMAPHORES)
    shutil.copy(Path(__file__).parents[2] / "connector/batched.py", tmp_path / "arm.py")

    ran = run_script("verify", arm, "--runs", "30", "--jobs", "2", "-q")

    assert (ran.code, ran.err) == (0, "")


def test_where_psutil_may_not_look_it_is_measured_all_the_same(system: Path):
    system.write_text(DENYING)

    ran = run_script("speedup", *ONE, "-o", "x.json", "-q")

    assert (ran.code, ran.err) == (0, "")
    assert run_script("speedup", "--resume", "x.json", "-q").code == 0


@pytest.mark.parametrize("folder", ["/proc", "/sys"])
def test_without_what_the_kernel_tells_in_files(folder: str):
    hide = f'mount -t tmpfs none {folder} && exec "$@"'
    shell = ("unshare", "--mount", "sh", "-c", hide, "sh")
    if subprocess.run([*shell, "true"], capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")

    done = subprocess.run(
        [*shell, SCRIPT, "speedup", *ONE, "-q"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_working_folder_that_is_gone(tmp_path: Path):
    (tmp_path / "gone").mkdir()
    line = f"cd gone && rmdir ../gone && {SCRIPT} speedup -q"

    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("stepbench: error: the working folder is gone")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_cost_no_result(closed: str):
    line = f"{SCRIPT} speedup {' '.join(ONE)} -o x.json {closed}"

    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert run_script("report", "x.json").code == 0


def test_without_a_temporary_folder_that_can_be_written(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", "/nonexistent")

    assert run_script("verify", "incremental", "--runs", "10", "-q").code == 0
