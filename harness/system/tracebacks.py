"""Tracebacks of what the measured code raises, and whether it was that code."""

import os
import re
import sys
import traceback
from pathlib import Path

_HERE = Path(__file__).parent.parent

# A line of a traceback that says where; and errors that no code is to blame for.
_FRAME = re.compile(r'^ *File "(.*)", line \d+', re.MULTILINE)
_OF_THE_MACHINE = re.compile(r"^(MemoryError|Fatal Python error: init)", re.MULTILINE)
# What calls the measured code, or is called by it.
_OURS = tuple(_HERE.parent / name for name in ("harness", "scenarios", "stubs"))
_LIBRARY = Path(os.__file__).parent


def arm_traceback(error: BaseException) -> str:
    """Return the traceback of an error from the arm's own code on, without the calls up to it.

    The whole of it where none of that code was reached.
    """
    own = error.__traceback__
    while own is not None and _HERE in Path(own.tb_frame.f_code.co_filename).parents:
        own = own.tb_next
    found = traceback.format_exception(type(error), error, own or error.__traceback__)
    return "".join(found).rstrip()


def reaches_arm(said: str) -> bool:
    """Return whether a worker died of the measured code, by what it said last on stderr.

    Of a traceback that is so if a line of that code is in it; without one, the code has ended the
    process, unless Python could not even begin.
    """
    files = _FRAME.findall(said)
    if _OF_THE_MACHINE.search(said) or (not files and said.startswith(f"{sys.executable}: ")):
        return False
    return not files or not all(map(_is_caller, files))


def _is_caller(name: str) -> bool:
    file = Path(name)
    if name.startswith("<frozen ") or any(map(file.is_relative_to, _OURS)):
        return True
    if not {"site-packages", "dist-packages"}.isdisjoint(file.parts):
        return not {"psutil", "pyperf"}.isdisjoint(file.parts)
    return file.is_relative_to(_LIBRARY)
