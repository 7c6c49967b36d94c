"""``harness.system.cgroups`` on made-up control groups below a folder that stands for /."""

from pathlib import Path

import pytest

from harness.system.cgroups import quotas


def put(root: Path, name: str, text: str) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        # The outermost group that can be seen, as in a container.
        ("0::/", {"cpu.max": "150000 100000"}, [1.5]),
        ("0::/", {"cpu.max": "max 100000"}, [None]),
        ("0::/", {}, []),
        # The process's own group first, then those around it.
        (
            "0::/a/b",
            {"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000", "cpu.max": "max 100000"},
            [None, 0.5, None],
        ),
        # Groups of the host, which a container does not see.
        ("0::/docker/12ab", {"cpu.max": "200000 100000"}, [2.0]),
        # A group outside of what is seen leads nowhere else.
        ("0::/../../a", {"a/cpu.max": "10000 100000", "cpu.max": "300000 100000"}, [3.0]),
        # Both versions side by side.
        ("1:name=x:/a\n0::/a", {"unified/a/cpu.max": "25000 50000"}, [0.5]),
        (
            "4:cpu:/a\n3:memory:/a",
            {"cpu/a/cpu.cfs_quota_us": "120000", "cpu/a/cpu.cfs_period_us": "100000"},
            [1.2],
        ),
        (
            "4:cpu,cpuacct:/a/b",
            {
                "cpu,cpuacct/a/cpu.cfs_quota_us": "30000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "20000",
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
            },
            [1.5, None],
        ),
        # Another controller's limit is none of the CPU's.
        ("4:cpuset:/", {"cpuset/cpu.cfs_quota_us": "1", "cpuset/cpu.cfs_period_us": "2"}, []),
        # Nonsense is not understood, and no error.
        ("0::/", {"cpu.max": "much"}, []),
        ("0::/", {"cpu.max": "1000 0"}, []),
        ("0::/", {"cpu.max": ""}, []),
        ("nonsense", {"cpu.max": "100000 100000"}, [1.0]),
    ],
)
def test_quotas_of_all_groups(
    tmp_path: Path, groups: str, files: dict[str, str], expected: list[float | None]
):
    put(tmp_path, "proc/self/cgroup", groups)
    for name, text in files.items():
        put(tmp_path, f"sys/fs/cgroup/{name}", text)
    assert list(quotas(tmp_path)) == expected


def test_a_process_without_groups_has_those_at_the_top(tmp_path: Path):
    assert list(quotas(tmp_path)) == []
    put(tmp_path, "sys/fs/cgroup/cpu.max", "100000 100000")
    assert list(quotas(tmp_path)) == [1.0]
