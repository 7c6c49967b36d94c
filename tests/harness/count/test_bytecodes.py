"""Counted instructions against what ``dis`` says a function consists of."""

import _thread
import dis
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import CodeType

import pytest

from harness.count.bytecodes import METHOD, BytecodeCounter


def straight(a: int, b: int) -> int:
    c = a + b
    d = [c, a]
    d.append(b)
    return d[0] * c


def branch(take: bool) -> int:
    if take:
        return 1
    return 2


def loop(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total


def calls_straight_twice() -> None:
    straight(1, 2)
    straight(3, 4)


def several(times: int) -> Iterator[int]:
    for number in range(times):
        yield straight(number, 1)


def consumes(times: int) -> int:
    return sum(several(times))


def raises() -> None:
    straight(1, 2)
    raise LookupError("as it should")


def instructions(function: Callable[..., object]) -> list[dis.Instruction]:
    """The instructions of a function, as compiled, from where it can be traced.

    That is after RESUME, which like what prepares cells and generators is told to nobody; so is
    the RESUME after a yield.
    """
    code = list(dis.get_instructions(function))
    begin = next(index for index, op in enumerate(code) if op.opname == "RESUME")
    return [op for op in code[begin:] if op.opname != "RESUME"]


def body_of_the_loop(function: Callable[..., object]) -> int:
    """How many instructions one more turn of the only loop in a function takes."""
    code = instructions(function)
    (head,) = (index for index, op in enumerate(code) if op.opname == "FOR_ITER")
    (back,) = (index for index, op in enumerate(code) if op.opname.startswith("JUMP_BACKWARD"))
    return back - head + 1


def by_name(code: CodeType) -> str | None:
    """Count the functions of this file by their names, and nothing else."""
    return code.co_name if code.co_filename == __file__ else None


def count(function: Callable[..., object], *arguments: object) -> Counter[str]:
    with BytecodeCounter(by_name) as counter, counter.counting() as counts:
        function(*arguments)
    assert counts.threads == {}
    counts.here.pop("count", None)  # The call itself, where this function is counted as well.
    return counts.here


def test_the_method_is_the_interpreters_own_where_it_has_one():
    expected = "opcode tracing" if sys.version_info < (3, 12) else "sys.monitoring"
    assert expected == METHOD


def test_a_straight_line_counts_each_of_its_instructions_once():
    assert count(straight, 1, 2) == {"straight": len(instructions(straight))}


def test_only_the_branch_that_is_taken_counts():
    # LOAD_FAST, a conditional jump and, from 3.13 on, TO_BOOL; then the return of a constant.
    lines = Counter(
        op.positions.lineno - branch.__code__.co_firstlineno
        for op in instructions(branch)
        if op.positions is not None and op.positions.lineno is not None
    )
    assert set(lines) == {1, 2, 3}
    assert count(branch, True) == {"branch": lines[1] + lines[2]}
    assert count(branch, False) == {"branch": lines[1] + lines[3]}


def test_a_loop_counts_its_body_once_a_turn():
    once = count(loop, 1)["loop"]
    for times in (2, 5, 1_000):
        assert count(loop, times) == {"loop": once + (times - 1) * body_of_the_loop(loop)}


def test_calls_are_counted_by_the_code_that_runs():
    assert count(calls_straight_twice) == {
        "calls_straight_twice": len(instructions(calls_straight_twice)),
        "straight": 2 * len(instructions(straight)),
    }


def test_a_generator_counts_wherever_it_is_carried_on():
    one, six = count(consumes, 1), count(consumes, 6)

    assert one["consumes"] == six["consumes"] == len(instructions(consumes))
    assert six["straight"] == 6 * len(instructions(straight))
    assert six["several"] - one["several"] == 5 * body_of_the_loop(several)


def test_a_closure_counts_like_any_function():
    a, b = 3, 4

    def add() -> int:
        return a + b

    assert count(add) == {"add": len(instructions(add))}


def test_what_the_interpreter_specialises_makes_no_difference():
    cold = [count(loop, 300), count(straight, 1, 2)]
    for _ in range(1_000):
        loop(3)
        straight(1, 2)
    assert [count(loop, 300), count(straight, 1, 2)] == cold


def test_an_exception_comes_through_and_what_ran_before_it_is_counted():
    with BytecodeCounter(by_name) as counter:
        with pytest.raises(LookupError, match="as it should"), counter.counting() as counts:
            raises()

        assert counts.here["straight"] == len(instructions(straight))
        assert 0 < counts.here["raises"] <= len(instructions(raises))
        # It is over: nothing more is counted.
        before = dict(counts.here)
        straight(1, 2)
        assert counts.here == before


def test_code_left_out_is_not_counted_but_what_it_calls_is():
    def alone(code: CodeType) -> str | None:
        return by_name(code) if code.co_name == "straight" else None

    with BytecodeCounter(alone) as counter, counter.counting() as counts:
        calls_straight_twice()

    assert counts.here == {"straight": 2 * len(instructions(straight))}


def test_code_left_out_once_is_counted_when_it_is_asked_for_again():
    with BytecodeCounter(lambda _: None) as counter, counter.counting() as none:
        straight(1, 2)
    assert none.here == {}
    assert count(straight, 1, 2) == {"straight": len(instructions(straight))}


def test_code_is_asked_for_once():
    asked: list[str] = []

    def classify(code: CodeType) -> str:
        asked.append(code.co_name)
        return "x"

    with BytecodeCounter(classify) as counter, counter.counting():
        calls_straight_twice()
        loop(100)
    assert Counter(asked)["straight"] == Counter(asked)["loop"] == 1


def test_equal_code_of_another_file_is_told_apart():
    # Code objects are equal whatever file they come from.
    spaces: list[dict[str, Callable[[], int]]] = [{}, {}]
    for name, space in zip(("ours", "theirs"), spaces, strict=True):
        exec(compile("def five():\n    return 5\n", name, "exec"), space)  # noqa: S102
    theirs, ours = spaces[1]["five"], spaces[0]["five"]
    assert theirs.__code__ == ours.__code__

    def classify(code: CodeType) -> str | None:
        return {"ours": "ours"}.get(code.co_filename)

    with BytecodeCounter(classify) as counter, counter.counting() as counts:
        theirs()
        ours()
        theirs()
    assert counts.here == {"ours": len(instructions(ours))}


def test_counting_itself_counts_for_nothing():
    # Whatever classifies: this function alone, and what is entered and left with it.
    def classify(code: CodeType) -> str | None:
        return None if code.co_filename == __file__ else "x"

    with BytecodeCounter(classify) as counter:
        for _ in range(2):
            with counter.counting() as counts:
                pass
            assert (counts.here, counts.threads) == ({}, {})


def start_by_threading(function: Callable[[], object]) -> None:
    threading.Thread(target=function).start()


def start_without_it(function: Callable[[], object]) -> None:
    _thread.start_new_thread(function, ())


@pytest.mark.parametrize("start", [start_by_threading, start_without_it])
def test_another_thread_is_counted_apart(start: Callable[[Callable[[], object]], None]):
    done = threading.Event()

    def turn() -> None:
        loop(1_000)
        done.set()

    with BytecodeCounter(by_name) as counter, counter.counting() as counts:
        straight(1, 2)
        start(turn)
        assert done.wait(60)

    assert counts.here["straight"] == len(instructions(straight))
    assert counts.here["loop"] == counts.here["turn"] == 0
    (other,) = counts.threads.values()
    assert other["loop"] == count(loop, 1_000)["loop"]
    assert other["turn"] > 0


def test_a_thread_that_waits_for_work_is_counted_in_each_counting():
    with BytecodeCounter(by_name) as counter, ThreadPoolExecutor(1) as pool:
        found = []
        for _ in range(3):
            with counter.counting() as counts:
                pool.submit(loop, 100).result()
            found.append([own["loop"] for own in counts.threads.values()])
            # Between two of them nothing is.
            pool.submit(loop, 100).result()

    assert found == [[count(loop, 100)["loop"]]] * 3


def test_what_settles_is_not_counted_but_what_others_do_meanwhile_is():
    go, done = threading.Event(), threading.Event()

    def turn() -> None:
        go.wait(60)
        loop(100)
        done.set()

    def settle(_: object) -> None:
        go.set()
        straight(1, 2)
        assert done.wait(60)

    with BytecodeCounter(by_name) as counter, counter.counting(settle) as counts:
        threading.Thread(target=turn).start()

    assert (counts.here["straight"], counts.here["settle"]) == (0, 0)
    assert sum(own["loop"] for own in counts.threads.values()) == count(loop, 100)["loop"]


def test_how_threads_are_started_and_traced_is_there_again_afterwards():
    before = threading.gettrace(), _thread.start_new_thread
    count(straight, 1, 2)
    assert (threading.gettrace(), _thread.start_new_thread) == before


def test_a_trace_function_is_there_again_afterwards():
    def tracer(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        count(straight, 1, 2)
        after_done = sys.gettrace()
        with pytest.raises(LookupError):
            count(raises)
        after_raised = sys.gettrace()
    finally:
        sys.settrace(before)
    assert (after_done, after_raised) == (tracer, tracer)


@pytest.mark.skipif(METHOD != "sys.monitoring", reason="Python before 3.12 has no sys.monitoring")
def test_tool_numbers_are_given_back_and_six_other_tools_are_one_too_many():
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    free = [number for number in range(6) if monitoring.get_tool(number) is None]
    for _ in range(10):
        count(straight, 1, 2)
    assert [number for number in range(6) if monitoring.get_tool(number) is None] == free
    for number in free:
        monitoring.use_tool_id(number, "a test")
    try:
        with pytest.raises(RuntimeError, match="no tool number"):
            count(straight, 1, 2)
    finally:
        for number in free:
            monitoring.free_tool_id(number)
    assert count(straight, 1, 2) == {"straight": len(instructions(straight))}
