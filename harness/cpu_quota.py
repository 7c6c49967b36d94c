"""How much CPU time the control groups around this process allow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from .fingerprint import read_text


def quotas(root: Path) -> Iterator[float | None]:
    """Yield the quota in cores of each control group around this process; None for no limit.

    Of version 2 (``cpu.max``) and 1 (``cpu.cfs_quota_us``), from the process's own group up to the
    outermost that can be seen. In a container that is the container's, and groups that
    ``/proc/self/cgroup`` names may lie outside of it.
    """
    mounts = root / "sys/fs/cgroup"
    for line in (read_text(root / "proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        below = PurePosixPath(group.lstrip("/"))
        folders = [below, *below.parents] if ".." not in below.parts else [PurePosixPath()]
        if not controllers:
            for mount in (mounts, mounts / "unified"):
                for folder in folders:
                    yield from _version_2(read_text(mount / folder / "cpu.max"))
        elif "cpu" in controllers.split(","):
            for mount in dict.fromkeys((mounts / "cpu", mounts / controllers)):
                for folder in folders:
                    quota = read_text(mount / folder / "cpu.cfs_quota_us")
                    yield from _version_1(quota, read_text(mount / folder / "cpu.cfs_period_us"))


def _version_2(text: str | None) -> list[float | None]:
    quota, _, period = (text or "").partition(" ")
    return [None] if quota == "max" else _version_1(quota, period)


def _version_1(quota: str | None, period: str | None) -> list[float | None]:
    if quota == "-1":
        return [None]
    try:
        return [int(quota or "") / int(period or "")]
    except (ValueError, ZeroDivisionError):
        return []
