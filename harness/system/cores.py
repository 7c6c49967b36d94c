"""The machine that is measured on: its cores, their locks, and what names it."""

import contextlib
import fcntl
import hashlib
import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from scenarios.scenario import is_number
from stepbench_core.errors import InputError

from .affinity import allowed_cpus, check_pinning, pin
from .cgroups import quotas
from .kernel_files import control_groups, cpu_list, read_text

# Limit, use and statistics of a control group's memory, by version; and what of it can be freed.
_MEMORY_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"),
    2: ("memory.max", "memory.current", "memory.stat"),
}
_FREEABLE = {1: "total_inactive_file", 2: "inactive_file"}


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except OSError:  # None can be written: who needs one is told.
        return Path("/tmp")  # noqa: S108


_LOCKS = _temporary_folder() / "stepbench-locks"


def choose_cpu(text: str | None) -> int | None:
    """Return the core to pin to.

    Args:
        text: a core number, ``none``, or None for the default, the last allowed core.

    Raises:
        InputError: the text is neither, or the core is not allowed here; lists those that are. Or
            nothing can be pinned here.
    """
    if text == "none":
        return None
    check_pinning()
    allowed = allowed_cpus()
    if text is None:
        return allowed[-1]
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"--cpu takes a core number or 'none', not {text!r}")
    if not is_number(text) or int(text) not in allowed:
        listed = ", ".join(map(str, allowed))
        raise InputError(f"core {text} is not allowed here; allowed: {listed}")
    return int(text)


def choose_cpus(text: str | None, root: Path = Path("/")) -> tuple[int, ...]:
    """Return the cores to pin to, ascending, one process on each at once; none for no pinning.

    Args:
        text: core numbers with commas between them, ``none``, or None for the default: the last
            allowed core and the last other one that is no hyper-thread of it, or that core alone
            where there is none or where a CPU quota is below two cores.
        root: the folder below which ``proc`` and ``sys`` are.

    Raises:
        InputError: the text is neither, or a core is not allowed here; lists those that are. Or
            nothing can be pinned here.
    """
    if text == "none":
        return ()
    if text is not None:
        parts = text.split(",")
        are_numbers = all(part.isascii() and part.isdigit() for part in parts)
        if not are_numbers or len({*parts}) < len(parts):
            raise InputError(f"--cpu takes core numbers, such as 1 or 0,1, or 'none', not {text!r}")
        return tuple(sorted(cpu for part in parts if (cpu := choose_cpu(part)) is not None))
    check_pinning()
    *others, last = allowed_cpus()
    siblings = root / f"sys/devices/system/cpu/cpu{last}/topology/thread_siblings_list"
    others = [cpu for cpu in others if cpu not in cpu_list(read_text(siblings))]
    if any(quota is not None and quota < 2 for quota in quotas(root)):
        others = []
    return (*others[-1:], last)


@contextlib.contextmanager
def lock_cpu(*cpus: int | None) -> Iterator[None]:
    """Keep other measurements on this machine off cores; None locks nothing.

    Raises:
        InputError: another measurement has one of the cores.
    """
    with contextlib.ExitStack() as stack:
        for cpu in cpus:
            if cpu is not None:
                busy = (
                    f"core {cpu} is being measured on by another run: wait for it, or take another "
                    "--cpu"
                )
                stack.enter_context(_lock(f"cpu-{cpu}", busy))
        yield


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Keep other measurements from writing a results file.

    Raises:
        InputError: another measurement is writing it.
    """
    digest = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:16]
    with _lock(f"file-{digest}", f"{path}: another run is writing it"):
        yield


@contextlib.contextmanager
def _lock(name: str, busy: str) -> Iterator[None]:
    path = _LOCKS / f"{name}.lock"
    try:
        if not _LOCKS.is_dir():
            _LOCKS.mkdir(exist_ok=True)
            _LOCKS.chmod(0o1777)  # For all users of the machine, as its cores are.
        file = _open_lock(path)
    except OSError as error:
        raise _unlockable(path, error) from None
    # Whatever ends this process ends the lock: it is the open file's.
    with os.fdopen(file, "rb"):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(busy) from None
        except OSError as error:
            raise _unlockable(path, error) from None
        yield


def _open_lock(path: Path) -> int:
    """Return the descriptor of a lock file, which may be another user's, or is new."""
    with contextlib.suppress(FileNotFoundError):
        # Not to be created: in a folder for all, Linux refuses that for a file of somebody else.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    with contextlib.suppress(PermissionError):  # Of somebody who was quicker.
        os.fchmod(file, 0o666)
    return file


def _unlockable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path}: cannot be locked: {error.strerror}; TMPDIR can name another folder for locks"
    )


def available_memory() -> int:
    """Return the bytes of memory that a new process can take without swapping.

    The smallest of what the machine has available and what the control groups around this process
    leave.
    """
    try:
        available = int(psutil.virtual_memory().available)
    except (OSError, psutil.Error):  # Without /proc: what there is at all, since no more is told.
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for version, group in control_groups(Path("/"), "memory"):
        names = _MEMORY_FILES[version]
        limit, used, stat = (read_text(group / name) or "" for name in names)
        with contextlib.suppress(ValueError):  # No such group, or "max".
            left = int(limit) - int(used)
            # What the page cache holds can be freed.
            lines = (line.partition(" ") for line in stat.splitlines())
            left += int({name: value for name, _, value in lines}.get(_FREEABLE[version], "0"))
            available = min(available, left)
    return max(0, available)


@contextlib.contextmanager
def keep_off(*cpus: int | None) -> Iterator[None]:
    """Move this process to the other allowed cores meanwhile, if there are any.

    Without a core to keep off nothing is set at all.
    """
    if not any(cpu is not None for cpu in cpus):
        yield
        return
    before = allowed_cpus()
    others = [cpu for cpu in before if cpu not in cpus]
    if others:
        pin(*others)
    try:
        yield
    finally:
        pin(*before)


def pinned(*cpus: int | None) -> str:
    """Return in words which cores are measured on; None is none."""
    cores = [str(cpu) for cpu in cpus if cpu is not None]
    if not cores:
        return "not pinned"
    return f"pinned to core{'s' * (len(cores) > 1)} {' and '.join(cores)}"


def describe(cpu: int | None) -> dict[str, str]:
    """Return what can be read of the machine's state as metadata, for the core measured on."""
    found = {"stepbench_cpus_allowed": ",".join(map(str, allowed_cpus()))}
    base = Path("/sys/devices/system/cpu")
    files = {
        "stepbench_governor": base / f"cpu{cpu or 0}/cpufreq/scaling_governor",
        "stepbench_no_turbo": base / "intel_pstate/no_turbo",
        "stepbench_boost": base / "cpufreq/boost",
    }
    for name, file in files.items():
        with contextlib.suppress(OSError):
            found[name] = file.read_text().strip() or "unknown"
    found["stepbench_kernel"] = platform.release()
    return found
