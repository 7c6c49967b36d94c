"""Work in a copy of this process, so that what it imports and leaves behind is gone afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any


def in_fork(work: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Return what a function returns in a fork of this process, by way of JSON.

    If the fork ends by itself, so does this process, in the same way. Nothing but the standard
    library and code of ours should have run here before.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        text = json.dumps(work())
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            file.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        text = file.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        os.kill(os.getpid(), -code)
    if not text:
        os._exit(code)
    return json.loads(text)
