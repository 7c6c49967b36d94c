"""Reading what the kernel tells in files, of which any may be missing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def read_text(file: Path) -> str | None:
    """Return the text of a file without white space around it; None if there is none to read."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def cpu_list(text: str | None) -> list[int]:
    """Return the cores of a kernel's list such as ``0-3,8``; none of a text that is no list."""
    cpus: list[int] = []
    with contextlib.suppress(ValueError):
        for part in (text or "").split(","):
            first, _, last = part.strip().partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return cpus


def control_groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Yield the control groups around this process: the version, 2 or 1, and the folder.

    From the process's own group up to the outermost that can be seen. In a container that is the
    container's, and groups that ``/proc/self/cgroup`` names may lie outside of it.

    Args:
        root: the folder below which ``proc`` and ``sys`` are.
        controller: which hierarchy of version 1, such as ``cpu``.
    """
    mounts = root / "sys/fs/cgroup"
    for line in (read_text(root / "proc/self/cgroup") or "0::/").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        below = PurePosixPath(group.lstrip("/"))
        folders = [below, *below.parents] if ".." not in below.parts else [PurePosixPath()]
        if not controllers:
            version, places = 2, [mounts, mounts / "unified"]
        elif controller in controllers.split(","):
            version, places = 1, list(dict.fromkeys((mounts / controller, mounts / controllers)))
        else:
            continue
        for mount in places:
            for folder in folders:
                yield version, mount / folder
