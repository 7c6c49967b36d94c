"""pyperf where psutil cannot tell, without ``/proc`` for one."""

import contextlib
import importlib

import psutil

# Where pyperf asks it; each does without where it is not installed.
_ASKING = ("pyperf._collect_metadata", "pyperf._cpu_utils")


def shun_broken_psutil() -> None:
    """Keep pyperf from asking psutil if that fails at what pyperf notes with each run."""
    try:
        psutil.boot_time()
        psutil.cpu_count()
    except (OSError, psutil.Error):
        for name in _ASKING:
            with contextlib.suppress(ImportError):
                importlib.import_module(name).psutil = None  # type: ignore[attr-defined]
