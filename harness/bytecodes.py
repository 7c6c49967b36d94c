"""Counts executed bytecode instructions, exactly."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

# How it is done: by the interpreter's own monitoring, or on older ones by a trace function.
METHOD = "sys.monitoring" if hasattr(sys, "monitoring") else "opcode tracing"

# Says what an instruction of a code object counts as; None to leave it out.
Classify = Callable[[CodeType], str | None]


@contextlib.contextmanager
def counting_bytecodes(classify: Classify) -> Iterator[Counter[str]]:
    """Count the instructions that are executed within, on this thread, by what they count as.

    An instruction counts once each time it is executed, as it was compiled: what the interpreter
    specialises it to while it runs makes no difference.

    Raises:
        RuntimeError: six tools monitor this process already.
    """
    counts: Counter[str] = Counter()
    # By identity: code is equal to its like in another file.
    kinds: dict[int, tuple[CodeType, str | None]] = {}

    def kind_of(code: CodeType) -> str | None:
        known = kinds.get(id(code))
        if known is None:
            own = code.co_filename in _OWN
            known = kinds[id(code)] = (code, None if own else classify(code))
        return known[1]

    with _monitoring(counts, kind_of) if METHOD == "sys.monitoring" else _tracing(counts, kind_of):
        yield counts


# What enters and leaves the counting.
_OWN = {__file__, contextlib.__file__}


@contextlib.contextmanager
def _monitoring(counts: Counter[str], kind_of: Classify) -> Iterator[None]:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    tool = next((number for number in range(6) if monitoring.get_tool(number) is None), None)
    if tool is None:
        raise RuntimeError("no tool number of sys.monitoring is free")

    thread = threading.get_ident()

    def count(code: CodeType, _offset: int) -> object:
        kind = kind_of(code)
        if kind is None:
            return monitoring.DISABLE
        if threading.get_ident() == thread:
            counts[kind] += 1
        return None

    monitoring.use_tool_id(tool, "stepbench")
    # What an earlier count switched off may be wanted now.
    monitoring.restart_events()
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, count)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)


@contextlib.contextmanager
def _tracing(counts: Counter[str], kind_of: Classify) -> Iterator[None]:
    def trace(frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401
        kind = kind_of(frame.f_code)
        if kind is None:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True

        def count(_frame: FrameType, event: str, _argument: object) -> object:
            counts[kind] += event == "opcode"
            return count

        return count

    before = sys.gettrace()  # A debugger's, or the one that measures coverage.
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
