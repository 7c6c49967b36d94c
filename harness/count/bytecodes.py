"""Counts executed bytecode instructions, exactly."""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Self

# How it is done: by the interpreter's own monitoring, or on older ones by a trace function.
METHOD = "sys.monitoring" if hasattr(sys, "monitoring") else "opcode tracing"

# Says what an instruction of a code object counts as; None to leave it out.
Classify = Callable[[CodeType], str | None]

# What enters and leaves the counting.
_OWN = {__file__, contextlib.__file__}


@dataclass
class Bytecodes:
    """Instructions that were executed, by what they count as.

    Attributes:
        here: those of the thread that counts.
        threads: those of each other thread, by its identifier.
    """

    here: Counter[str] = field(default_factory=Counter)
    # A counter a thread: two that add to one would lose some.
    threads: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))


class BytecodeCounter:
    """Counts the instructions that this thread executes, and those started while this is entered.

    An instruction counts once each time it is executed, as it was compiled: what the interpreter
    specialises it to while it runs makes no difference.

    Args:
        classify: says what an instruction counts as; asked once for each code object.

    Raises:
        RuntimeError: on entering, six tools monitor this process already.
    """

    def __init__(self, classify: Classify) -> None:
        self._classify = classify
        # By identity: code is equal to its like in another file.
        self._kinds: dict[int, tuple[CodeType, str | None]] = {}
        self._counts: Bytecodes | None = None
        self._is_here = False
        self._tool = 0
        self._thread = threading.get_ident()
        self._trace_before: Any = None

    def __enter__(self) -> Self:
        if METHOD == "sys.monitoring":
            self._tool = self._register()
        else:
            self._trace_before = threading.gettrace()
            threading.settrace(self._trace_thread)
            # Who starts a thread without ``threading``, which has kept the original.
            self._start_before = _thread.start_new_thread
            _thread.start_new_thread = self._start_traced
        return self

    def __exit__(self, *_: object) -> None:
        if METHOD == "sys.monitoring":
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
            monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, None)
            monitoring.free_tool_id(self._tool)
        else:
            threading.settrace(self._trace_before)
            _thread.start_new_thread = self._start_before

    @contextlib.contextmanager
    def counting(self, settle: Callable[[Bytecodes], None] | None = None) -> Iterator[Bytecodes]:
        """Count what is executed within.

        Args:
            settle: called afterwards, while what other threads execute is still being counted, and
                what this one does is not any more.
        """
        counts = self._counts = Bytecodes()
        try:
            with self._monitoring() if METHOD == "sys.monitoring" else contextlib.nullcontext():
                with self._here(counts):
                    yield counts
                if settle is not None:
                    settle(counts)
        finally:
            self._counts = None

    @contextlib.contextmanager
    def _here(self, counts: Bytecodes) -> Iterator[None]:
        """Count this thread's."""
        before = sys.gettrace()  # A debugger's, or the one that measures coverage.
        if METHOD == "sys.monitoring":
            self._is_here = True
        else:
            sys.settrace(lambda frame, _event, _argument: self._traced(frame, counts.here))
        try:
            yield
        finally:
            self._is_here = False
            if METHOD != "sys.monitoring":
                sys.settrace(before)

    def _kind_of(self, code: CodeType) -> str | None:
        known = self._kinds.get(id(code))
        if known is None:
            own = code.co_filename in _OWN
            known = self._kinds[id(code)] = (code, None if own else self._classify(code))
        return known[1]

    def _traced(self, frame: FrameType, counter: Counter[str]) -> Any:  # noqa: ANN401
        """Return what counts the instructions of a frame of this thread."""
        kind = self._kind_of(frame.f_code)
        if kind is None:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True

        def count(_frame: FrameType, event: str, _argument: object) -> object:
            counter[kind] += event == "opcode"
            return count

        return count

    def _trace_thread(self, frame: FrameType, _event: str, _argument: object) -> Any:  # noqa: ANN401
        """Return what counts the instructions of a frame of another thread.

        Such a frame may last longer than one counting: a loop that waits for work.
        """
        kind = self._kind_of(frame.f_code)
        if kind is None:
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        thread = threading.get_ident()

        def count(_frame: FrameType, event: str, _argument: object) -> object:
            counts = self._counts
            if counts is not None:
                counts.threads[thread][kind] += event == "opcode"
            return count

        return count

    def _start_traced(self, function: Callable[..., object], *arguments: Any) -> int:  # noqa: ANN401
        """Start a thread, and return its identifier once it runs, as ``threading`` does."""
        begun = _thread.allocate_lock()
        begun.acquire()

        def traced(*own: object, **named: object) -> None:
            begun.release()
            sys.settrace(self._trace_thread)
            function(*own, **named)

        thread = self._start_before(traced, *arguments)
        begun.acquire()
        return thread

    def _register(self) -> int:
        """Return the number of a tool that calls ``_count`` once its events are on."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        tool = next((number for number in range(6) if monitoring.get_tool(number) is None), None)
        if tool is None:
            raise RuntimeError("no tool number of sys.monitoring is free")
        monitoring.use_tool_id(tool, "stepbench")
        # What an earlier count switched off may be wanted now.
        monitoring.restart_events()
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, self._count)
        return int(tool)

    @contextlib.contextmanager
    def _monitoring(self) -> Iterator[None]:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
        monitoring.set_events(self._tool, monitoring.events.INSTRUCTION)
        try:
            yield
        finally:
            monitoring.set_events(self._tool, 0)

    def _count(self, code: CodeType, _offset: int) -> object:
        kind = self._kind_of(code)
        if kind is None:
            return sys.monitoring.DISABLE  # type: ignore[attr-defined, unused-ignore]
        thread, counts = threading.get_ident(), self._counts
        if counts is None:
            return None
        if thread != self._thread:
            counts.threads[thread][kind] += 1
        elif self._is_here:
            counts.here[kind] += 1
        return None
