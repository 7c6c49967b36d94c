"""Which machine it is: a short digest of what stays the same, kept beside what it is made of.

Absolute times are compared only between equal fingerprints. Nothing in them changes with a boot, a
kernel or a container: no clock rates, bogomips, microcode or flags, no names, ids or addresses, no
load, no allowed cores.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from stepbench_core.errors import NoBaselineError

from .kernel_files import cpu_list, read_text

# Names of the metadata that hold the digest and, as JSON, the fields that it is made of.
DIGEST = "stepbench_machine"
FIELDS = "stepbench_machine_fields"

UNKNOWN = "unknown"

# Names in /proc/cpuinfo on x86; on Arm, which has a variant and a revision for the stepping; and,
# for the model's name, on POWER and RISC-V.
_CPU_KEYS = {
    "cpu_vendor": ("vendor_id", "CPU implementer"),
    "cpu_family": ("cpu family", "CPU architecture"),
    "cpu_model": ("model", "CPU part"),
    "cpu_stepping": ("stepping", "CPU variant", "CPU revision"),
    "cpu_model_name": ("model name", "cpu", "machine", "uarch", "isa"),
}

# What names a core, in the folder of the topology of each of its threads.
_CORE = ("physical_package_id", "core_id")

_KIB_PER_GIB = 1024**2


def machine_fields(root: Path = Path("/")) -> dict[str, str]:
    """Return what names the machine, field by field; ``unknown`` for what cannot be read.

    Args:
        root: the folder below which ``proc`` and ``sys`` are.
    """
    processors = _processors(read_text(root / "proc/cpuinfo") or "")
    cpus = root / "sys/devices/system/cpu"
    # Not those that are online: a thread may be taken offline to measure, and is back later.
    present = cpu_list(read_text(cpus / "present")) or list(range(len(processors)))
    places = [cpus / f"cpu{cpu}/topology" for cpu in present]
    cores = {tuple(read_text(place / name) for name in _CORE) for place in places}
    return {
        "architecture": os.uname().machine,
        **{name: _cpu_field(processors, keys) for name, keys in _CPU_KEYS.items()},
        "caches": _joined(map(_cache, cpus.glob("cpu[0-9]*/cache/index[0-9]*"))),
        "logical_cpus": str(len(present) or UNKNOWN),
        "cores": str(len({core for core in cores if None not in core}) or UNKNOWN),
        "memory_gib": _memory(read_text(root / "proc/meminfo") or ""),
    }


def fingerprint(fields: Mapping[str, str]) -> str | None:
    """Return the digest of fields; None if they do not even tell which CPU it is.

    Machines of which nothing can be read would all look the same.
    """
    if all(fields[name] == UNKNOWN for name in _CPU_KEYS):
        return None
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def identity(root: Path = Path("/")) -> dict[str, str]:
    """Return the fingerprint and its fields as metadata; nothing where there is no fingerprint."""
    fields = machine_fields(root)
    digest = fingerprint(fields)
    return {} if digest is None else {DIGEST: digest, FIELDS: json.dumps(fields)}


def check_same_fingerprint(
    what: str, one: Mapping[str, object], other: str, two: Mapping[str, object]
) -> None:
    """Raise NoBaselineError unless two metadata have the same fingerprint.

    Without one it cannot be known whether the machine is the same, so that is refused as well.

    Args:
        what: the words that name the first of them in the message.
        one: its metadata.
        other: the words that name the second.
        two: its metadata.
    """
    for name, metadata in ((what, one), (other, two)):
        if not metadata.get(DIGEST):
            raise NoBaselineError(
                f"{what}: whether it was measured on the same machine as {other} cannot be known: "
                f"{name} has no machine fingerprint"
            )
    if one[DIGEST] != two[DIGEST]:
        raise NoBaselineError(
            f"{what}: measured on another machine than {other}: {_differences(one, two)}"
        )


def _differences(one: Mapping[str, object], two: Mapping[str, object]) -> str:
    """Return which fields differ and how, or the digests where the fields do not tell."""
    first, second = _stored_fields(one), _stored_fields(two)
    names = [name for name in first | second if first.get(name) != second.get(name)]
    if not first or not second or not names:
        return f"fingerprint {one[DIGEST]} against {two[DIGEST]}"
    return "; ".join(
        f"{name} {first.get(name, UNKNOWN)} against {second.get(name, UNKNOWN)}" for name in names
    )


def _stored_fields(metadata: Mapping[str, object]) -> dict[str, object]:
    try:
        fields = json.loads(str(metadata.get(FIELDS)))
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _processors(text: str) -> list[dict[str, str]]:
    """Return the processors of a ``/proc/cpuinfo`` as key and value."""
    found = []
    for block in text.split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        values = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in values:
            found.append(values)
    return found


def _cpu_field(processors: Iterable[Mapping[str, str]], keys: tuple[str, ...]) -> str:
    # More than one where a machine has cores of several kinds.
    return _joined(" ".join(cpu[key] for key in keys if cpu.get(key)) for cpu in processors)


def _cache(folder: Path) -> str:
    parts = (read_text(folder / name) for name in ("level", "type", "size"))
    return "L{} {} {}".format(*(part or UNKNOWN for part in parts))


def _joined(texts: Iterable[str]) -> str:
    """Return each text once, in an order of their own."""
    return ", ".join(sorted({text for text in texts if text})) or UNKNOWN


def _memory(text: str) -> str:
    """Return the size of the memory of a ``/proc/meminfo``, in whole GiB.

    What the kernel keeps for itself, which changes with its version, is missing from what it
    tells. So it is rounded up to the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 and so on. A
    machine's whole size lies at such a step or below, hardly ever just above one.
    """
    lines = [line.split() for line in text.splitlines()]
    sizes = [line[1] for line in lines if len(line) > 1 and line[0] == "MemTotal:"]
    if not sizes or not sizes[0].isdecimal():
        return UNKNOWN
    total = int(sizes[0]) / _KIB_PER_GIB
    steps = (factor << power for power in range(40) for factor in (1, 3))
    return str(min(step for step in steps if step >= total))
