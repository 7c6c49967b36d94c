import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.system import cores as machine
from harness.system.cores import (
    allowed_cpus,
    available_memory,
    choose_cpu,
    choose_cpus,
    describe,
    keep_off,
    lock_cpu,
    lock_file,
)
from stepbench_core.errors import InputError

HOLDER = """
import sys
from pathlib import Path
from harness.system.cores import lock_cpu, lock_file
kind, what = sys.argv[1:]
with lock_cpu(int(what)) if kind == "cpu" else lock_file(Path(what)):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def locks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Keep the tests' locks apart from those of measurements on this machine."""
    folder = tmp_path / "stepbench-locks"
    monkeypatch.setattr(machine, "_LOCKS", folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return folder


@pytest.fixture
def cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process run on the cores 1 to 3."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)


@contextlib.contextmanager
def other_run(kind: str, what: object) -> Iterator[subprocess.Popen[str]]:
    """Hold a lock in another process, until it is killed or the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, kind, str(what)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def is_free(lock: AbstractContextManager[None]) -> bool:
    try:
        with lock:
            return True
    except InputError:
        return False


@pytest.mark.usefixtures("cpus")
def test_allowed_cpus_are_in_order():
    assert allowed_cpus() == [1, 2, 3]


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize(("text", "cpu"), [(None, 3), ("none", None), ("1", 1), ("3", 3)])
def test_choose_cpu(text: str | None, cpu: int | None):
    assert choose_cpu(text) == cpu


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize("text", ["", "-1", "1.0", "last", "None", " 1", "\u00b2", "\u0661"])
def test_choose_cpu_says_what_it_takes(text: str):
    with pytest.raises(InputError) as caught:
        choose_cpu(text)
    assert str(caught.value) == f"--cpu takes a core number or 'none', not {text!r}"


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize("text", ["0", "4", "99999999999999999999", "9" * 5000])
def test_choose_cpu_lists_the_allowed_cores(text: str):
    with pytest.raises(InputError) as caught:
        choose_cpu(text)
    assert str(caught.value) == f"core {text} is not allowed here; allowed: 1, 2, 3"


def test_a_core_in_use_by_another_run_is_refused():
    with other_run("cpu", 7):
        with pytest.raises(InputError) as caught, lock_cpu(7):
            pytest.fail("two runs on one core")
        assert is_free(lock_cpu(6))
    assert str(caught.value) == (
        "core 7 is being measured on by another run: wait for it, or take another --cpu"
    )


def test_a_file_in_use_by_another_run_is_refused(tmp_path: Path):
    file = tmp_path / "results.json"
    with other_run("file", file):
        with pytest.raises(InputError) as caught, lock_file(file):
            pytest.fail("two runs write one file")
        assert is_free(lock_file(tmp_path / "others.json"))
    assert str(caught.value) == f"{file}: another run is writing it"


def test_a_file_is_the_same_under_all_its_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    with lock_file(tmp_path / "a.json"):
        for name in ("a.json", "link/a.json", "./folder/../a.json"):
            assert not is_free(lock_file(Path(name)))


@pytest.mark.parametrize(("kind", "what"), [("cpu", 7), ("file", Path("a.json"))])
def test_a_lock_ends_with_its_holder_even_if_that_is_killed(kind: str, what: object):
    locks: dict[str, Callable[..., AbstractContextManager[None]]]
    locks = {"cpu": lock_cpu, "file": lock_file}
    with other_run(kind, what) as process:
        assert not is_free(locks[kind](what))
        process.kill()
        process.wait()
        assert is_free(locks[kind](what))


def test_a_lock_ends_with_its_block():
    with lock_cpu(7):
        assert not is_free(lock_cpu(7))
    assert is_free(lock_cpu(7))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_lock_ends_with_an_exception(error: type[BaseException], tmp_path: Path):
    with pytest.raises(error), lock_cpu(7), lock_file(tmp_path / "a.json"):
        raise error
    assert is_free(lock_cpu(7))
    assert is_free(lock_file(tmp_path / "a.json"))


def test_no_core_means_no_lock(locks: Path):
    with lock_cpu(None), lock_cpu(None):
        assert not locks.exists()


def test_the_lock_folder_is_for_all_users(locks: Path):
    with lock_cpu(7):
        assert locks.stat().st_mode & 0o7777 == 0o1777
        (file,) = locks.iterdir()
        assert file.name == "cpu-7.lock"


def test_a_lock_that_cannot_be_made_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(machine, "_LOCKS", tmp_path / "file/locks")
    with pytest.raises(InputError) as caught, lock_cpu(7):
        pytest.fail("not locked")
    path = tmp_path / "file/locks/cpu-7.lock"
    way_out = "TMPDIR can name another folder for locks"
    assert str(caught.value) == f"{path}: cannot be locked: Not a directory; {way_out}"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that stands for / where the machine is looked at; 9,000 bytes are available."""
    monkeypatch.setattr(machine, "Path", lambda path: tmp_path / path.lstrip("/"))
    memory = SimpleNamespace(available=9_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(f"{text}\n")


def test_some_of_the_machine_s_memory_is_available():
    assert isinstance(available_memory(), int)
    assert 1_000_000 < available_memory() < psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("limit", "current", "expected"),
    [("5000", "2000", 3_000), ("50000", "2000", 9_000), ("max", "2000", 9_000)],
)
def test_the_control_group_s_limit_counts(root: Path, limit: str, current: str, expected: int):
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{current}\n")
    assert available_memory() == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        # The limit of a group further out, as of a slice that a service runs in.
        ({"a/memory.max": "4000", "a/memory.current": "1000", "a/b/memory.max": "max"}, 3_000),
        ({"a/b/memory.max": "2500", "a/b/memory.current": "500", "a/memory.max": "max"}, 2_000),
        # What the page cache holds.
        (
            {
                "a/b/memory.max": "2500",
                "a/b/memory.current": "500",
                "a/b/memory.stat": "anon 7\ninactive_file 300",
            },
            2_300,
        ),
        ({"a/c/memory.max": "1", "a/c/memory.current": "1"}, 9_000),
    ],
)
def test_the_limits_of_the_process_s_own_groups_count(
    root: Path, files: dict[str, str], expected: int
):
    put(root, "proc/self/cgroup", "0::/a/b")
    for name, text in files.items():
        put(root, f"sys/fs/cgroup/{name}", text)
    assert available_memory() == expected


def test_a_group_of_version_1_has_its_limit(root: Path):
    put(root, "proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/x")
    put(root, "sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000")
    put(root, "sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4500")
    put(root, "sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 100")
    assert available_memory() == 600


@pytest.mark.usefixtures("root")
def test_without_a_control_group_the_machine_s_memory_counts():
    assert available_memory() == 9_000


def test_describe_here_names_the_kernel_and_the_cores():
    found = describe(allowed_cpus()[-1])
    assert found["stepbench_kernel"] == os.uname().release
    assert found["stepbench_cpus_allowed"] == ",".join(map(str, allowed_cpus()))


@pytest.mark.usefixtures("cpus")
def test_describe_leaves_out_what_the_machine_does_not_tell(root: Path):
    assert not (root / "sys").exists()
    found = describe(3)
    assert set(found) == {"stepbench_cpus_allowed", "stepbench_kernel"}
    assert found["stepbench_cpus_allowed"] == "1,2,3"


@pytest.mark.parametrize(("cpu", "governor"), [(3, "powersave"), (None, "performance")])
def test_describe_reads_the_state_of_the_core(root: Path, cpu: int | None, governor: str):
    base = root / "sys/devices/system/cpu"
    states = {
        "cpu0/cpufreq/scaling_governor": "performance\n",
        "cpu3/cpufreq/scaling_governor": "powersave\n",
        "intel_pstate/no_turbo": "1\n",
        "cpufreq/boost": "\n",
    }
    for name, text in states.items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text)
    found = describe(cpu)
    assert found["stepbench_governor"] == governor
    assert found["stepbench_no_turbo"] == "1"
    # pyperf takes no empty metadata.
    assert found["stepbench_boost"] == "unknown"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


SIBLINGS = "sys/devices/system/cpu/cpu3/topology/thread_siblings_list"
QUOTA = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "150000 100000"}


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        ({}, (2, 3)),
        # Each core has one thread, and the quota is enough for two.
        ({SIBLINGS: "3", **QUOTA, "sys/fs/cgroup/cpu.max": "200000 100000"}, (2, 3)),
        ({SIBLINGS: "2-3"}, (1, 3)),
        ({SIBLINGS: "0-3"}, (3,)),
        (QUOTA, (3,)),
        ({**QUOTA, "sys/fs/cgroup/cpu.max": "max 100000"}, (2, 3)),
    ],
)
def test_two_cores_are_chosen_that_do_not_slow_each_other(
    tmp_path: Path, files: dict[str, str], chosen: tuple[int, ...]
):
    write(tmp_path, files)

    assert choose_cpus(None, tmp_path) == chosen


def test_of_one_core_that_one_is_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)

    assert choose_cpus(None, tmp_path) == (5,)


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize(
    ("text", "chosen"), [("none", ()), ("2", (2,)), ("3,1", (1, 3)), ("1,2,3", (1, 2, 3))]
)
def test_cores_can_be_named(text: str, chosen: tuple[int, ...]):
    assert choose_cpus(text) == chosen


@pytest.mark.usefixtures("cpus")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, f"--cpu takes core numbers, such as 1 or 0,1, or 'none', not {text!r}")
            for text in ("1,1", "1,none", "1,", "1, 2", "1-2", "", "last", "-1", "\u0661")
        ),
        ("1,7", "core 7 is not allowed here; allowed: 1, 2, 3"),
    ],
)
def test_cores_that_are_none_are_refused(text: str, message: str):
    with pytest.raises(InputError) as caught:
        choose_cpus(text)
    assert str(caught.value) == message


def test_of_several_cores_all_are_locked_or_none():
    with lock_cpu(6, 7):
        assert not is_free(lock_cpu(6))
        assert not is_free(lock_cpu(7))
    with other_run("cpu", 7):
        with pytest.raises(InputError, match=r"^core 7 is being measured on"), lock_cpu(6, 7):
            pytest.fail("two runs on one core")
        assert is_free(lock_cpu(6))


@pytest.mark.parametrize(("cores", "left"), [((3,), {1, 2}), ((1, 3), {2}), ((1, 2, 3), {1, 2, 3})])
def test_this_process_keeps_off_the_cores_if_there_are_others(
    monkeypatch: pytest.MonkeyPatch, cores: tuple[int, ...], left: set[int]
):
    now = {1, 2, 3}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(now))

    def move(_: int, cpus: set[int]) -> None:
        now.clear()
        now.update(cpus)

    monkeypatch.setattr(os, "sched_setaffinity", move)
    with keep_off(*cores):
        assert now == left
    assert now == {1, 2, 3}
