"""Arms that read the environment, as files in the working folder."""

from pathlib import Path

from harness.arms.revision import ROOT

_IMPORTS = "from dataclasses import "
_CALL = '"""Return what the connector is told about this iteration. This is the measured call."""\n'


def write_arm(name: str, header: str, in_call: str = "") -> str:
    """Write an arm that does what `incremental` does, with lines of its own; return its name.

    Args:
        name: the file, without its suffix.
        header: what stands among its imports.
        in_call: a line that begins the measured call.
    """
    text = (ROOT / "connector/incremental.py").read_text()
    assert _CALL in text
    lines = text.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("from collections"))
    text = "".join([*lines[:first], f"{header}\n", *lines[first:]])
    if in_call:
        text = text.replace(_CALL, f"{_CALL}        {in_call}\n")
    Path(f"{name}.py").write_text(text)
    return f"file:{name}.py"
