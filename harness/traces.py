"""Tracebacks of what the measured code raises."""

import traceback
from pathlib import Path

_HERE = Path(__file__).parent


def arm_traceback(error: BaseException) -> str:
    """Return the traceback of an error from the arm's own code on, without the calls up to it.

    The whole of it where none of that code was reached.
    """
    own = error.__traceback__
    while own is not None and Path(own.tb_frame.f_code.co_filename).parent == _HERE:
        own = own.tb_next
    found = traceback.format_exception(type(error), error, own or error.__traceback__)
    return "".join(found).rstrip()
