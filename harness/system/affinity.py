"""Which cores a process may run on, and pinning to some of them.

The system may not have the calls (they are Linux's), and a container may forbid them. Whoever pins
nothing needs none of them.
"""

import os

from stepbench_core.errors import InputError

_WITHOUT = "--cpu none measures without pinning"


def allowed_cpus() -> list[int]:
    """Return the cores that this process may run on, ascending; all where that is not told."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return list(range(os.cpu_count() or 1))


def pin(*cpus: int) -> None:
    """Keep this process to some cores. Raises InputError where that cannot be done here."""
    try:
        os.sched_setaffinity(0, cpus)
    except AttributeError:
        raise InputError(
            f"pinning to a core needs Linux, which sets the CPU affinity: {_WITHOUT}"
        ) from None
    except OSError as error:
        raise InputError(
            f"pinning to a core: the CPU affinity cannot be set here ({error.strerror}), as in "
            f"some containers: {_WITHOUT}"
        ) from None


def check_pinning() -> None:
    """Raise InputError where no process can be pinned, by pinning this one to what it has."""
    pin(*allowed_cpus())


def can_pin() -> bool:
    """Return whether processes can be pinned here."""
    try:
        check_pinning()
    except InputError:
        return False
    return True
