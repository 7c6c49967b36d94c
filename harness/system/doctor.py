"""What this machine is like for measuring. Reads, and changes nothing.

What cannot be read, as in many containers and virtual machines, is unknown and never an error.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .cgroups import quotas
from .clock import Clock
from .kernel_files import cpu_list, read_text
from .worker_process import run

_CPUS = "sys/devices/system/cpu"
_TURBO = {
    # File: what it holds while the turbo is off.
    f"{_CPUS}/intel_pstate/no_turbo": "1",
    f"{_CPUS}/cpufreq/boost": "0",
}
# Clock sources that are read without a system call.
_QUICK_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
_ASLR = {"0": "off", "1": "on, but not for the heap", "2": "on"}
# A duet measures on two at once.
_CORES_NEEDED = 2
# An iteration takes some microseconds at least.
_LONGEST_CLOCK_READ = 1e-6


class State(StrEnum):
    """How well something is for measuring."""

    GOOD = "good"
    BETTER = "could be better"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One thing about the machine.

    Attributes:
        name: what was looked at.
        found: how it is.
        state: how well that is for measuring.
        advice: what to do about it.
    """

    name: str
    found: str
    state: State
    advice: str = "nothing to do"


def look(
    cpus: Sequence[int],
    allowed: Sequence[int],
    clock: Clock,
    root: Path = Path("/"),
    which: Callable[[str], str | None] = shutil.which,
    counts: Callable[[str], bool] | None = None,
) -> list[Finding]:
    """Return all findings, always the same ones in the same order.

    Args:
        cpus: the cores measured on, at once; none for no pinning.
        allowed: the cores that this process may run on.
        clock: what the clock is like.
        root: the folder below which ``proc`` and ``sys`` are.
        which: returns the path of a program, None where it is not there.
        counts: returns whether the perf at a path counts instructions; by default it is tried.
    """
    cores = cpus or allowed
    return [
        _allowed(root, allowed),
        _isolated(root, cpus, allowed),
        _governor(root, cores),
        _turbo(root),
        _siblings(root, cores),
        _quota(root, allowed),
        _load(root, allowed, len(cpus)),
        _aslr(root),
        _clock_source(root),
        _clock(clock),
        _counters(root, which("perf"), counts or can_count),
        _valgrind(which("valgrind")),
    ]


def _allowed(root: Path, allowed: Sequence[int]) -> Finding:
    online = len(cpu_list(read_text(root / _CPUS / "online")))
    found = f"{_words(allowed)} ({len(allowed)} of {online or 'an unknown number'} online)"
    if len(allowed) < _CORES_NEEDED:
        advice = "allow a second core, since two processes are measured at once"
        return Finding("allowed cores", found, State.BETTER, advice)
    return Finding("allowed cores", found, State.GOOD)


def _isolated(root: Path, cpus: Sequence[int], allowed: Sequence[int]) -> Finding:
    name = "isolated cores"
    text = read_text(root / _CPUS / "isolated")
    if text is None:
        text = _boot_option(root, "isolcpus")
    if text is None:
        return _unreadable(name, "look on the host")
    isolated = cpu_list(text)
    # The kernel prints a word in parentheses where there is none.
    ticks = cpu_list(read_text(root / _CPUS / "nohz_full"))
    found = f"{_words(isolated)}; without timer ticks (nohz_full): {_words(ticks)}"
    if cpus and set(cpus) <= set(isolated):
        return Finding(name, found, State.GOOD)
    if isolated:
        # Not among the allowed ones, unless it is asked for.
        one = isolated[-1]
        advice = f"taskset -c {allowed[0]},{one} stepbench COMMAND --cpu {one}"
    else:
        # Not all: something has to be left for the rest of the machine.
        which = cpus[-1] if cpus else "N"
        advice = f"boot with isolcpus={which} nohz_full={which}, then measure with --cpu {which}"
    return Finding(name, found, State.BETTER, advice)


def _boot_option(root: Path, name: str) -> str | None:
    """Return the cores of an option of the kernel's command line, which may begin with flags."""
    line = read_text(root / "proc/cmdline")
    if line is None:
        return None
    values = [word.partition("=")[2] for word in line.split() if word.startswith(f"{name}=")]
    parts = values[-1].split(",") if values else []
    return ",".join(part for part in parts if part[:1].isdecimal())


def _governor(root: Path, cores: Sequence[int]) -> Finding:
    files = (root / _CPUS / f"cpu{cpu}/cpufreq/scaling_governor" for cpu in cores)
    found = sorted({text for file in files if (text := read_text(file))})
    if not found:
        return _unreadable("governor", "set it to performance on the host")
    if found == ["performance"]:
        return Finding("governor", found[0], State.GOOD)
    advice = "sudo cpupower frequency-set --governor performance"
    return Finding("governor", ", ".join(found), State.BETTER, advice)


def _turbo(root: Path) -> Finding:
    for name, off in _TURBO.items():
        text = read_text(root / name)
        if text == off:
            return Finding("turbo", "off", State.GOOD)
        if text in ("0", "1"):
            advice = f"echo {off} | sudo tee /{name}, and {text} when done"
            return Finding("turbo", "on", State.BETTER, advice)
    return _unreadable("turbo", "turn it off on the host")


def _siblings(root: Path, cores: Sequence[int]) -> Finding:
    name = "hyper-threads"
    files = (root / _CPUS / f"cpu{cpu}/topology/thread_siblings_list" for cpu in cores)
    groups = [cpu_list(text) for file in files if (text := read_text(file))]
    if not groups:
        return _unreadable(name, "keep the other thread of the core idle")
    shared = sorted({tuple(group) for group in groups if len(group) > 1})
    if not shared:
        return Finding(name, f"none share a core with {_words(cores)}", State.GOOD)
    found = f"{'; '.join(map(_words, shared))} share a core"
    others = sorted({cpu for group in shared for cpu in group if cpu not in cores})
    if any(len({*group} & {*cores}) > 1 for group in shared):
        return Finding(name, found, State.BETTER, "pin to one of them and keep the other idle")
    advice = f"keep {_words(others)} idle"
    # The first core of a machine often cannot go offline, and the last but one should not.
    switches = [f"{_CPUS}/cpu{cpu}/online" for cpu in others]
    online = cpu_list(read_text(root / _CPUS / "online"))
    if all((root / file).exists() for file in switches) and len(online) > len(others) + 1:
        advice += f", or echo 0 | sudo tee /{' /'.join(switches)}, and 1 when done"
    return Finding(name, found, State.BETTER, advice)


def _quota(root: Path, allowed: Sequence[int]) -> Finding:
    found = list(quotas(root))
    known = [quota for quota in found if quota is not None]
    if not found and read_text(root / "sys/fs/cgroup/cgroup.controllers") is None:
        return _unreadable("CPU quota", "start without a CPU limit")
    if not known:
        return Finding("CPU quota", "none", State.GOOD)
    words = f"{min(known):.2f} cores of {len(allowed)} allowed"
    if min(known) >= min(_CORES_NEEDED, len(allowed)):
        return Finding("CPU quota", words, State.GOOD)
    advice = "start the container without a CPU limit: beyond it, processes are stopped for a while"
    return Finding("CPU quota", words, State.BETTER, advice)


def _load(root: Path, allowed: Sequence[int], measured: int) -> Finding:
    text = (read_text(root / "proc/loadavg") or "").partition(" ")[0]
    try:
        load = float(text)
    except ValueError:
        return _unreadable("load", "see that nothing else runs")
    found = f"{load:.2f} over the last minute, {len(allowed)} cores allowed"
    # Cores have to be left for what measures; a machine is never all idle.
    if load <= max(len(allowed) - max(1, measured), 0.5):
        return Finding("load", found, State.GOOD)
    return Finding("load", found, State.BETTER, "end what else runs, or wait for it")


def _aslr(root: Path) -> Finding:
    text = read_text(root / "proc/sys/kernel/randomize_va_space")
    if text not in _ASLR:
        return _unreadable("address randomisation", "leave it on")
    if text == "2":
        return Finding("address randomisation", _ASLR[text], State.GOOD)
    # With one layout for all processes, what it costs an arm would look like the arm's own.
    advice = "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space: each process its own layout"
    return Finding("address randomisation", _ASLR[text], State.BETTER, advice)


def _clock_source(root: Path) -> Finding:
    text = read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not text:
        return _unreadable("clock source", "see the clock's cost")
    if text in _QUICK_CLOCKS:
        return Finding("clock source", text, State.GOOD)
    advice = (
        "boot with clocksource=tsc, if the processor's is stable (dmesg says why it is not used)"
    )
    return Finding("clock source", text, State.BETTER, advice)


def _clock(clock: Clock) -> Finding:
    found = f"steps of {clock.step * 1e9:.0f} ns, {clock.cost * 1e9:.0f} ns a reading"
    if 0 < clock.step <= _LONGEST_CLOCK_READ and clock.cost <= _LONGEST_CLOCK_READ:
        return Finding("clock", found, State.GOOD)
    return Finding(
        "clock", found, State.BETTER, "measure cells that take long, or see clock source"
    )


def can_count(perf: str) -> bool:
    """Return whether a perf counts the instructions of a process of ours."""
    command = [perf, "stat", "-x", ",", "-e", "instructions:u", "true"]
    try:
        done = run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return False
    return any(line.partition(",")[0].isdecimal() for line in done.stderr.splitlines())


def _counters(root: Path, perf: str | None, counts: Callable[[str], bool]) -> Finding:
    """Say whether ``perf stat -e instructions`` works.

    The kernel lists a processor's counters as an event source: ``cpu``, ``cpu_core`` where there
    are cores of two kinds, ``armv8_...`` on Arm. A virtual machine often has none of them.
    """
    name = "instruction counters"
    folder = root / "sys/bus/event_source/devices"
    if folder.is_dir() and not [*folder.glob("cpu*"), *folder.glob("armv*")]:
        advice = "use stepbench compare --instructions, or ask the host for the counters"
        return Finding(name, "the processor's are not visible here", State.BETTER, advice)
    if perf is None:
        advice = "install perf (package linux-perf or linux-tools)"
        return Finding(name, "perf is not there", State.BETTER, advice)
    if counts(perf):
        return Finding(name, f"{perf} counts them", State.GOOD)
    level = read_text(root / "proc/sys/kernel/perf_event_paranoid") or "not readable"
    found = f"{perf} does not count them; perf_event_paranoid {level}"
    advice = "sudo sysctl kernel.perf_event_paranoid=2; a container needs the right PERFMON as well"
    return Finding(name, found, State.BETTER, advice)


def _valgrind(path: str | None) -> Finding:
    if path is not None:
        return Finding("valgrind", path, State.GOOD)
    return Finding("valgrind", "not there", State.BETTER, "sudo apt install valgrind")


def _unreadable(name: str, advice: str) -> Finding:
    return Finding(name, "not readable", State.UNKNOWN, advice)


def _words(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus)) or "none"
