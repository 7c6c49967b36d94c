"""``harness.system.fingerprint`` on made-up machines below a folder that stands for /."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.system.fingerprint import (
    check_same_fingerprint,
    cpu_list,
    fingerprint,
    identity,
    machine_fields,
)
from stepbench_core.errors import NoBaselineError

X86 = """\
processor\t: {number}
vendor_id\t: GenuineAbacus
cpu family\t: 6
model\t\t: 143
model name\t: Abacus 9000 @ 2.00GHz
stepping\t: 8
microcode\t: 0x2b000461
cpu MHz\t\t: 2100.000
physical id\t: 0
flags\t\t: fpu vme sse
bogomips\t: 4200.00

"""

ARM = """\
processor\t: {number}
BogoMIPS\t: 243.75
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: {part}
CPU revision\t: 1

"""

CPUS = "sys/devices/system/cpu"


def put(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


def change(root: Path, name: str, before: str, after: str) -> None:
    text = (root / name).read_text()
    assert before in text
    (root / name).write_text(text.replace(before, after))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two cores with two threads each, 62.5 GiB of 64."""
    put(tmp_path, "proc/cpuinfo", "".join(X86.format(number=number) for number in range(4)))
    put(tmp_path, "proc/meminfo", "MemTotal:       65536000 kB\nMemFree:        1 kB")
    put(tmp_path, f"{CPUS}/present", "0-3")
    for cpu in range(4):
        put(tmp_path, f"{CPUS}/cpu{cpu}/topology/physical_package_id", "0")
        put(tmp_path, f"{CPUS}/cpu{cpu}/topology/core_id", f"{cpu % 2}")
        for index, (level, kind, size) in enumerate([("1", "Data", "48K"), ("2", "Unified", "2M")]):
            folder = f"{CPUS}/cpu{cpu}/cache/index{index}"
            put(tmp_path, f"{folder}/level", level)
            put(tmp_path, f"{folder}/type", kind)
            put(tmp_path, f"{folder}/size", size)
    return tmp_path


def test_the_fields_of_a_machine(root: Path):
    assert machine_fields(root) == {
        "architecture": os.uname().machine,
        "cpu_vendor": "GenuineAbacus",
        "cpu_family": "6",
        "cpu_model": "143",
        "cpu_stepping": "8",
        "cpu_model_name": "Abacus 9000 @ 2.00GHz",
        "caches": "L1 Data 48K, L2 Unified 2M",
        "logical_cpus": "4",
        "cores": "2",
        "memory_gib": "64",
    }


def test_cores_of_two_kinds_are_both_named(root: Path):
    texts = [ARM.format(number=0, part="0xd0c"), ARM.format(number=1, part="0xd40")]
    (root / "proc/cpuinfo").write_text("".join(texts))
    (root / CPUS / "present").unlink()

    fields = machine_fields(root)

    assert fields["cpu_model"] == "0xd0c, 0xd40"
    assert (fields["cpu_vendor"], fields["cpu_family"]) == ("0x41", "8")
    assert fields["cpu_stepping"] == "0x3 1"
    assert fields["cpu_model_name"] == "unknown"
    # Without the list of cores that are present, those of /proc/cpuinfo are.
    assert (fields["logical_cpus"], fields["cores"]) == ("2", "2")


Change = Callable[[Path], None]

# What differs after a boot, an update of the kernel or the firmware, or from minute to minute.
UNSTABLE: dict[str, Change] = {
    "clock rate": lambda root: change(root, "proc/cpuinfo", "2100.000", "3400.123"),
    "bogomips": lambda root: change(root, "proc/cpuinfo", "4200.00", "4199.87"),
    "microcode": lambda root: change(root, "proc/cpuinfo", "0x2b000461", "0x2b000590"),
    "flags": lambda root: change(root, "proc/cpuinfo", "fpu vme sse", "fpu vme"),
    "memory that the kernel keeps": lambda root: change(
        root, "proc/meminfo", "65536000", "64900000"
    ),
    "free memory": lambda root: change(root, "proc/meminfo", "1 kB", "9 kB"),
    "boot id": lambda root: put(root, "proc/sys/kernel/random/boot_id", "12ab"),
    "host name": lambda root: put(root, "etc/hostname", "elsewhere"),
    "machine id": lambda root: put(root, "etc/machine-id", "34cd"),
    "load": lambda root: put(root, "proc/loadavg", "7.5 7.5 7.5 8/90 1"),
    "kernel": lambda root: put(root, "proc/version", "Linux version 9.9"),
    "a thread that is offline": lambda root: shutil.rmtree(root / CPUS / "cpu3/topology"),
}


@pytest.mark.parametrize("name", UNSTABLE)
def test_what_does_not_last_is_not_in_it(root: Path, name: str):
    before = identity(root)
    UNSTABLE[name](root)
    assert identity(root) == before


def _add_memory(root: Path) -> None:
    change(root, "proc/meminfo", "65536000", "98304000")


STABLE: dict[str, Change] = {
    "cpu_vendor": lambda root: change(root, "proc/cpuinfo", "GenuineAbacus", "AuthenticAbacus"),
    "cpu_family": lambda root: change(root, "proc/cpuinfo", "family\t: 6", "family\t: 25"),
    "cpu_model": lambda root: change(root, "proc/cpuinfo", "143", "207"),
    "cpu_stepping": lambda root: change(root, "proc/cpuinfo", "stepping\t: 8", "stepping\t: 2"),
    "cpu_model_name": lambda root: change(root, "proc/cpuinfo", "9000 @ 2.00GHz", "9001"),
    "caches": lambda root: put(root, f"{CPUS}/cpu3/cache/index1/size", "1M"),
    "logical_cpus": lambda root: put(root, f"{CPUS}/present", "0-4"),
    "cores": lambda root: put(root, f"{CPUS}/cpu3/topology/core_id", "7"),
    "memory_gib": _add_memory,
}


@pytest.mark.parametrize("name", STABLE)
def test_another_machine_is_another_one_and_the_field_is_named(root: Path, name: str):
    here = identity(root)
    STABLE[name](root)
    there = identity(root)

    assert there["stepbench_machine"] != here["stepbench_machine"]
    fields = [json.loads(one["stepbench_machine_fields"])[name] for one in (there, here)]
    with pytest.raises(NoBaselineError) as caught:
        check_same_fingerprint("x.json", there, "this one", here)
    assert str(caught.value) == (
        f"x.json: measured on another machine than this one: {name} {fields[0]} against {fields[1]}"
    )


def test_another_architecture_is_another_machine(root: Path):
    fields = machine_fields(root)
    assert fingerprint(fields | {"architecture": "riscv128"}) != fingerprint(fields)


@pytest.mark.parametrize(
    ("gib", "expected"),
    [
        (0.4, "1"),
        (3.8, "4"),
        (7.5, "8"),
        (15.99, "16"),
        (16.0, "16"),
        (23.5, "24"),
        (30.5, "32"),
        (61.0, "64"),
        (94.0, "96"),
        (160.0, "192"),
        (1007.6, "1024"),
    ],
)
def test_memory_is_rounded_up_to_a_size_that_there_is(root: Path, gib: float, expected: str):
    put(root, "proc/meminfo", f"MemTotal: {int(gib * 1024 * 1024)} kB")
    assert machine_fields(root)["memory_gib"] == expected


def test_the_digest_is_short_and_the_same_in_every_process(root: Path):
    found = identity(root)
    assert list(found) == ["stepbench_machine", "stepbench_machine_fields"]
    assert len(found["stepbench_machine"]) == 12
    assert int(found["stepbench_machine"], 16) > 0
    assert json.loads(found["stepbench_machine_fields"]) == machine_fields(root)
    # Of any order of the fields: what was written once is found again by a later version.
    fields = machine_fields(root)
    assert fingerprint(dict(reversed(fields.items()))) == found["stepbench_machine"]
    assert fingerprint(dict.fromkeys(fields, "1")) == "cc31bc806779"


def test_nothing_readable_is_no_machine(tmp_path: Path):
    fields = machine_fields(tmp_path)
    assert fields.pop("architecture") == os.uname().machine
    assert set(fields.values()) == {"unknown"}
    assert identity(tmp_path) == {}


@pytest.mark.parametrize("text", ["MemTotal:", "MemTotal: lots kB", "", "\xff"])
def test_a_damaged_meminfo_is_unknown(root: Path, text: str):
    (root / "proc/meminfo").write_bytes(text.encode("latin-1"))
    assert machine_fields(root)["memory_gib"] == "unknown"


def test_here_it_can_be_told():
    assert identity() == identity() != {}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        (None, []),
        ("", []),
        ("(null)", []),
        ("3", [3]),
        ("0-1", [0, 1]),
        ("0-2,8, 10-11", [0, 1, 2, 8, 10, 11]),
    ],
)
def test_cpu_list(text: str | None, cpus: list[int]):
    assert cpu_list(text) == cpus


def test_equal_digests_are_the_same_machine():
    check_same_fingerprint(
        "x.json", {"stepbench_machine": "12ab"}, "y.json", {"stepbench_machine": "12ab"}
    )


@pytest.mark.parametrize(
    ("one", "two", "without"),
    [({}, {"stepbench_machine": "1"}, "x.json"), ({"stepbench_machine": "1"}, {}, "y.json")],
)
def test_without_a_fingerprint_it_cannot_be_known(
    one: dict[str, str], two: dict[str, str], without: str
):
    with pytest.raises(NoBaselineError) as caught:
        check_same_fingerprint("x.json", one, "y.json", two)
    assert str(caught.value) == (
        "x.json: whether it was measured on the same machine as y.json cannot be known: "
        f"{without} has no machine fingerprint"
    )


@pytest.mark.parametrize("stored", [{}, {"stepbench_machine_fields": "{"}, "list", "equal"])
def test_digests_tell_where_the_fields_do_not(stored: dict[str, str] | str):
    fields = '{"cores": "2"}'
    texts = {"list": "[1]", "equal": fields}
    if isinstance(stored, str):
        stored = {"stepbench_machine_fields": texts[stored]}
    one = {"stepbench_machine": "12ab", **stored}
    two = {"stepbench_machine": "34cd", "stepbench_machine_fields": fields}
    with pytest.raises(NoBaselineError, match=r": fingerprint 12ab against 34cd$"):
        check_same_fingerprint("x.json", one, "y.json", two)
