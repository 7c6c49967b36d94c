"""How much CPU time the control groups around this process allow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .kernel_files import control_groups, read_text


def quotas(root: Path) -> Iterator[float | None]:
    """Yield the quota in cores of each control group around this process; None for no limit.

    Of version 2 (``cpu.max``) and 1 (``cpu.cfs_quota_us``).
    """
    for version, folder in control_groups(root, "cpu"):
        if version == 2:
            yield from _version_2(read_text(folder / "cpu.max"))
        else:
            quota = read_text(folder / "cpu.cfs_quota_us")
            yield from _version_1(quota, read_text(folder / "cpu.cfs_period_us"))


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
