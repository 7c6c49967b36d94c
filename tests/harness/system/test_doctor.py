"""``harness.system.doctor`` on made-up machines below a folder that stands for /."""

from pathlib import Path

import pytest

from harness.system.clock import Clock
from harness.system.doctor import Finding, State, can_count, look

CPUS = "sys/devices/system/cpu"
CLOCK = Clock(step=40e-9, cost=70e-9)
PROGRAMS = {"perf": "/bin/perf", "valgrind": "/bin/valgrind"}
GOOD, BETTER, UNKNOWN = State.GOOD, State.BETTER, State.UNKNOWN
NOTHING = "nothing to do"

# A machine that is as good as they get, measured on core 3.
BEST = {
    f"{CPUS}/online": "0-3",
    f"{CPUS}/isolated": "2-3",
    f"{CPUS}/nohz_full": "3",
    f"{CPUS}/cpu3/cpufreq/scaling_governor": "performance",
    f"{CPUS}/intel_pstate/no_turbo": "1",
    f"{CPUS}/cpu3/topology/thread_siblings_list": "3",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory",
    "sys/fs/cgroup/cpu.max": "max 100000",
    "proc/self/cgroup": "0::/",
    "proc/loadavg": "0.31 0.20 0.10 1/90 123",
    "proc/sys/kernel/randomize_va_space": "2",
    "proc/sys/kernel/perf_event_paranoid": "2",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "sys/bus/event_source/devices/cpu/type": "4",
}
NAMES = [
    "allowed cores",
    "isolated cores",
    "governor",
    "turbo",
    "hyper-threads",
    "CPU quota",
    "load",
    "address randomisation",
    "clock source",
    "clock",
    "instruction counters",
    "valgrind",
]


def machine(
    root: Path,
    files: dict[str, str | None],
    *,
    cpus: tuple[int, ...] = (3,),
    allowed: tuple[int, ...] = (0, 1, 3),
    clock: Clock = CLOCK,
    programs: dict[str, str] = PROGRAMS,
    counts: bool = True,
) -> dict[str, Finding]:
    """The findings by name on the best machine, but with these files; None takes one away."""
    for name, text in (BEST | files).items():
        if text is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
    findings = look(cpus, allowed, clock, root, programs.get, lambda _perf: counts)
    assert [each.name for each in findings] == NAMES
    return {each.name: each for each in findings}


def test_on_the_best_machine_there_is_nothing_to_do(tmp_path: Path):
    found = machine(tmp_path, {})

    assert {each.state for each in found.values()} == {GOOD}
    assert {each.advice for each in found.values()} == {NOTHING}
    assert [each.found for each in found.values()] == [
        "0, 1, 3 (3 of 4 online)",
        "2, 3; without timer ticks (nohz_full): 3",
        "performance",
        "off",
        "none share a core with 3",
        "none",
        "0.31 over the last minute, 3 cores allowed",
        "on",
        "tsc",
        "steps of 40 ns, 70 ns a reading",
        "/bin/perf counts them",
        "/bin/valgrind",
    ]


def test_where_nothing_can_be_read_it_is_unknown_and_no_error(tmp_path: Path):
    programs: dict[str, str] = {}
    findings = look((0,), [0, 1], CLOCK, tmp_path, programs.get, lambda _: False)
    found = {each.name: each for each in findings}

    assert list(found) == NAMES
    readable = {"allowed cores", "clock", "instruction counters", "valgrind"}
    assert {name for name, each in found.items() if each.state == UNKNOWN} == set(NAMES) - readable
    assert {each.found for name, each in found.items() if name not in readable} == {"not readable"}
    assert all(each.advice != NOTHING for name, each in found.items() if name not in readable)
    assert found["allowed cores"].found == "0, 1 (2 of an unknown number online)"


def test_what_is_no_text_is_unknown(tmp_path: Path):
    for name in BEST:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff\xfe")
    states = {
        each.name: each.state
        for each in look((3,), [0, 1], CLOCK, tmp_path, PROGRAMS.get, lambda _: True)
    }
    assert {name for name, state in states.items() if state == UNKNOWN} == {
        "isolated cores",
        "governor",
        "turbo",
        "hyper-threads",
        "CPU quota",
        "load",
        "address randomisation",
        "clock source",
    }


# What is changed, and the finding that has to show it.
CASES: dict[str, tuple[dict[str, str | None], Finding]] = {
    "no core is isolated": (
        {f"{CPUS}/isolated": "", f"{CPUS}/nohz_full": "(null)"},
        Finding(
            "isolated cores",
            "none; without timer ticks (nohz_full): none",
            BETTER,
            "boot with isolcpus=3 nohz_full=3, then measure with --cpu 3",
        ),
    ),
    "another core is isolated": (
        {f"{CPUS}/isolated": "1-2", f"{CPUS}/nohz_full": None},
        Finding(
            "isolated cores",
            "1, 2; without timer ticks (nohz_full): none",
            BETTER,
            "taskset -c 0,2 stepbench COMMAND --cpu 2",
        ),
    ),
    "only the command line tells": (
        {f"{CPUS}/isolated": None, "proc/cmdline": "quiet isolcpus=nohz,domain,1,3 ro"},
        Finding("isolated cores", "1, 3; without timer ticks (nohz_full): 3", GOOD),
    ),
    "the command line isolates none": (
        {f"{CPUS}/isolated": None, f"{CPUS}/nohz_full": None, "proc/cmdline": "quiet ro"},
        Finding(
            "isolated cores",
            "none; without timer ticks (nohz_full): none",
            BETTER,
            "boot with isolcpus=3 nohz_full=3, then measure with --cpu 3",
        ),
    ),
    "governor": (
        {f"{CPUS}/cpu3/cpufreq/scaling_governor": "powersave"},
        Finding(
            "governor",
            "powersave",
            BETTER,
            "sudo cpupower frequency-set --governor performance",
        ),
    ),
    "the governor of another core": (
        {f"{CPUS}/cpu0/cpufreq/scaling_governor": "powersave"},
        Finding("governor", "performance", GOOD),
    ),
    "Intel's turbo": (
        {f"{CPUS}/intel_pstate/no_turbo": "0"},
        Finding(
            "turbo",
            "on",
            BETTER,
            "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, and 0 when done",
        ),
    ),
    "boost": (
        {f"{CPUS}/intel_pstate/no_turbo": None, f"{CPUS}/cpufreq/boost": "1"},
        Finding(
            "turbo",
            "on",
            BETTER,
            "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost, and 1 when done",
        ),
    ),
    "no boost": (
        {f"{CPUS}/intel_pstate/no_turbo": None, f"{CPUS}/cpufreq/boost": "0"},
        Finding("turbo", "off", GOOD),
    ),
    "a second thread": (
        {f"{CPUS}/cpu3/topology/thread_siblings_list": "1,3", f"{CPUS}/cpu1/online": "1"},
        Finding(
            "hyper-threads",
            "1, 3 share a core",
            BETTER,
            "keep 1 idle, or echo 0 | sudo tee /sys/devices/system/cpu/cpu1/online, and 1 when "
            "done",
        ),
    ),
    "a quota of less than two cores": (
        {"sys/fs/cgroup/cpu.max": "150000 100000"},
        Finding(
            "CPU quota",
            "1.50 cores of 3 allowed",
            BETTER,
            "start the container without a CPU limit: beyond it, processes are stopped for a while",
        ),
    ),
    "a quota of two cores": (
        {"sys/fs/cgroup/cpu.max": "200000 100000"},
        Finding("CPU quota", "2.00 cores of 3 allowed", GOOD),
    ),
    "the quota of a group around it": (
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/b/cpu.max": "400000 100000",
            "sys/fs/cgroup/a/cpu.max": "200000 100000",
        },
        Finding("CPU quota", "2.00 cores of 3 allowed", GOOD),
    ),
    "no group with a quota": (
        {"sys/fs/cgroup/cpu.max": None},
        Finding("CPU quota", "none", GOOD),
    ),
    "load that leaves a core": (
        {"proc/loadavg": "2.00 0 0 1/90 123"},
        Finding("load", "2.00 over the last minute, 3 cores allowed", GOOD),
    ),
    "load that leaves none": (
        {"proc/loadavg": "2.01 0 0 1/90 123"},
        Finding(
            "load",
            "2.01 over the last minute, 3 cores allowed",
            BETTER,
            "end what else runs, or wait for it",
        ),
    ),
    "one layout for all": (
        {"proc/sys/kernel/randomize_va_space": "0"},
        Finding(
            "address randomisation",
            "off",
            BETTER,
            "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space: each process its own layout",
        ),
    ),
    "a clock of a virtual machine": (
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "kvm-clock"},
        Finding("clock source", "kvm-clock", GOOD),
    ),
    "a slow clock": (
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
        Finding(
            "clock source",
            "hpet",
            BETTER,
            "boot with clocksource=tsc, if the processor's is stable (dmesg says why it is not "
            "used)",
        ),
    ),
    "counters of Arm": (
        {
            "sys/bus/event_source/devices/cpu/type": None,
            "sys/bus/event_source/devices/armv8_pmuv3_0/type": "8",
        },
        Finding("instruction counters", "/bin/perf counts them", GOOD),
    ),
    "no counters": (
        {
            "sys/bus/event_source/devices/cpu/type": None,
            "sys/bus/event_source/devices/software/type": "1",
        },
        Finding(
            "instruction counters",
            "the processor's are not visible here",
            BETTER,
            "use stepbench compare --instructions, or ask the host for the counters",
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_shows_in_its_own_finding_alone(tmp_path: Path, case: str):
    files, expected = CASES[case]

    found = machine(tmp_path, files)

    assert found.pop(expected.name) == expected
    assert {each.state for each in found.values()} == {GOOD}


def test_a_single_core_is_shared_with_what_measures(tmp_path: Path):
    found = machine(
        tmp_path,
        {"proc/loadavg": "0.50 0 0 1/90 1", "sys/fs/cgroup/cpu.max": "100000 100000"},
        allowed=(3,),
    )
    assert found.pop("allowed cores") == Finding(
        "allowed cores",
        "3 (1 of 4 online)",
        BETTER,
        "allow a second core, since two processes are measured at once",
    )
    # A core cannot be more than all of one.
    assert found["CPU quota"].found == "1.00 cores of 1 allowed"
    assert {each.state for each in found.values()} == {GOOD}


def test_without_pinning_all_allowed_cores_count(tmp_path: Path):
    files = {
        f"{CPUS}/cpu0/cpufreq/scaling_governor": "powersave",
        f"{CPUS}/cpu0/topology/thread_siblings_list": "0-1",
        f"{CPUS}/isolated": "",
    }
    found = machine(tmp_path, dict(files), cpus=())
    assert found["governor"].found == "performance, powersave"
    assert found["hyper-threads"].found == "0, 1 share a core"
    assert found["hyper-threads"].advice == "pin to one of them and keep the other idle"
    assert found["isolated cores"].advice.startswith("boot with isolcpus=N nohz_full=N, ")


@pytest.mark.parametrize(
    ("clock", "state"),
    [
        (Clock(1e-9, 1e-6), GOOD),
        (Clock(1e-9, 1.1e-6), BETTER),
        (Clock(4e-3, 1e-9), BETTER),
        (Clock(0.0, 1e-9), BETTER),
    ],
)
def test_a_clock_has_to_be_fine_and_quick(tmp_path: Path, clock: Clock, state: State):
    assert machine(tmp_path, {}, clock=clock)["clock"].state == state


def test_missing_programs_can_be_installed(tmp_path: Path):
    found = machine(tmp_path, {}, programs={})
    assert found["instruction counters"] == Finding(
        "instruction counters",
        "perf is not there",
        BETTER,
        "install perf (package linux-perf or linux-tools)",
    )
    assert found["valgrind"] == Finding(
        "valgrind", "not there", BETTER, "sudo apt install valgrind"
    )


@pytest.mark.parametrize(("level", "word"), [("3", "3"), (None, "not readable")])
def test_counters_that_are_there_may_not_be_ours(tmp_path: Path, level: str | None, word: str):
    found = machine(tmp_path, {"proc/sys/kernel/perf_event_paranoid": level}, counts=False)
    assert found["instruction counters"] == Finding(
        "instruction counters",
        f"/bin/perf does not count them; perf_event_paranoid {word}",
        BETTER,
        "sudo sysctl kernel.perf_event_paranoid=2; a container needs the right PERFMON as well",
    )


@pytest.mark.parametrize(
    ("script", "works"),
    [
        ("echo 1234,,instructions:u,100,100.00,, >&2", True),
        ("echo '<not supported>,,instructions:u,0,100.00,, ' >&2", False),
        ("exit 1", False),
    ],
)
def test_counters_are_tried(tmp_path: Path, script: str, works: bool):
    perf = tmp_path / "perf"
    perf.write_text(f"#!/bin/sh\n{script}\n")
    perf.chmod(0o755)

    assert can_count(str(perf)) is works
    assert not can_count(str(tmp_path / "none"))


def test_nothing_is_changed(tmp_path: Path):
    machine(tmp_path, {})
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    look((3,), (0, 1, 3), CLOCK, tmp_path, PROGRAMS.get, lambda _: True)
    after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("measured", "siblings", "found", "advice"),
    [
        ((1, 3), {1: "0-1", 3: "2-3"}, "0, 1; 2, 3 share a core", "keep 0, 2 idle"),
        ((1, 3), {1: "1", 3: "2-3"}, "2, 3 share a core", "keep 2 idle"),
        (
            (1, 2, 3),
            {1: "0-1", 2: "2-3", 3: "2-3"},
            "0, 1; 2, 3 share a core",
            "pin to one of them and keep the other idle",
        ),
        (
            (2, 3),
            {2: "2-3", 3: "2-3"},
            "2, 3 share a core",
            "pin to one of them and keep the other idle",
        ),
    ],
)
def test_threads_of_several_cores_that_are_measured_on(
    tmp_path: Path, measured: tuple[int, ...], siblings: dict[int, str], found: str, advice: str
):
    files: dict[str, str | None] = {
        f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in siblings.items()
    }

    finding = machine(tmp_path, files, cpus=measured, allowed=(0, 1, 2, 3))["hyper-threads"]

    assert finding == Finding("hyper-threads", found, BETTER, advice)


@pytest.mark.parametrize(("isolated", "state"), [("1,3", GOOD), ("1-3", GOOD), ("3", BETTER)])
def test_all_cores_that_are_measured_on_have_to_be_isolated(
    tmp_path: Path, isolated: str, state: State
):
    files: dict[str, str | None] = {f"{CPUS}/isolated": isolated}

    assert machine(tmp_path, files, cpus=(1, 3))["isolated cores"].state == state


@pytest.mark.parametrize(("load", "state"), [("1.00", GOOD), ("1.10", BETTER)])
def test_a_core_has_to_be_left_for_each_process_at_once(tmp_path: Path, load: str, state: State):
    files: dict[str, str | None] = {"proc/loadavg": f"{load} 0.00 0.00 1/100 4242"}

    found = machine(tmp_path, files, cpus=(1, 3), allowed=(0, 1, 3))

    assert found["load"].state == state
