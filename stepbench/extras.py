"""What only some commands need, and an installation may lack."""

import importlib.util

from stepbench_core.errors import InputError


def check_installed(extra: str, *names: str) -> None:
    """Raise InputError if a package is not installed that only an extra of the project adds."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"this needs {' and '.join(missing)}, not installed here: "
            f"pip install -e '.[{extra}]' in the clone adds it"
        )
