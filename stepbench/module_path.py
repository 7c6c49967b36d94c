"""What else lies where Python looks for modules, and must not hide ours or Python's own.

A user's folder may well hold a ``reports`` or a ``random.py``, and PYTHONPATH may name it.
"""

import os
import sys
from importlib.machinery import all_suffixes

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
_LIBRARY = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120
# The packages of this project.
OURS = {
    *("connector", "harness", "reports", "scenarios", "stepbench", "stepbench_core", "stubs"),
    "subjects",
}


def leave_out_working_folder() -> None:
    """Take the working folder, which ``python -m`` puts first, from where modules are looked for.

    So that it is no other command than the installed script. Not where it is what holds ours.
    """
    if not sys.flags.safe_path and sys.path and _real(sys.path[0]) != _ROOT:
        del sys.path[0]


def clear_the_way() -> str | None:
    """Put last, here and in processes started from here, each folder that hides what is needed.

    Returns:
        What was done, in one line; None where nothing is in the way.
    """
    folders = [_real(entry) for entry in sys.path]
    own, library = (_place(folders, needed) for needed in (_ROOT, _LIBRARY))
    hiding = {
        place: names
        for place in range(max(own, library))
        if folders[place] not in (_ROOT, _LIBRARY)
        and (names := _hidden(folders, place, place < own, place < library))
    }
    if not hiding:
        return None
    first = [entry for place, entry in enumerate(sys.path) if place not in hiding]
    sys.path[:] = [*first, *(sys.path[place] for place in hiding)]
    # Of a child it comes before all else, and would begin with the same folder.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    where = "; ".join(f"{folders[place]} ({', '.join(names)})" for place, names in hiding.items())
    return f"looked up last, since it would hide modules that are needed: {where}"


def _hidden(folders: list[str], place: int, before_own: bool, before_library: bool) -> list[str]:
    """Return what in a folder has the name of a module that is found further behind."""
    needed = (OURS if before_own else set()) | (
        sys.stdlib_module_names if before_library else set()
    )
    found = []
    for entry in _listed(folders[place]):
        name, dot, rest = entry.partition(".")
        is_module = bool(dot) and f".{rest}" in all_suffixes()
        is_package = not dot and name in needed and _is_package(folders[place], name)
        # A package of the same name is somebody's choice, a lone file beside it an accident.
        hides_package = before_library and any(
            _is_package(folder, name) for folder in folders[place + 1 :]
        )
        if is_package or (is_module and (name in needed or hides_package)):
            found.append(entry)
    return sorted(found)


def _is_package(folder: str, name: str) -> bool:
    # A folder without this file hides nothing that is found further behind.
    return os.path.isfile(os.path.join(folder, name, "__init__.py"))  # noqa: PTH113, PTH118


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:  # There is none, or it is an archive.
        return []


def _place(folders: list[str], folder: str) -> int:
    return folders.index(folder) if folder in folders else 0


def _real(entry: str) -> str:
    try:
        return os.path.realpath(entry)
    except OSError:  # The working folder is gone.
        return entry
