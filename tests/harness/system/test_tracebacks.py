"""Tracebacks of what an arm raises."""

import harness
from harness.system.tracebacks import arm_traceback

ARM = "def build():\n    raise KeyError(7)\n"
# A caller that lies where the harness does.
CALLER = "def call(build):\n    build()\n"


def raised(filename: str, caller: str) -> BaseException:
    names: dict[str, object] = {}
    exec(compile(ARM, filename, "exec"), names)  # noqa: S102
    exec(compile(CALLER, caller, "exec"), names)  # noqa: S102
    try:
        names["call"](names["build"])  # type: ignore[operator]
    except KeyError as error:
        # As from where the harness caught it, and not from here.
        return error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
    raise AssertionError("nothing was raised")


def test_the_calls_up_to_the_arm_are_left_out():
    own = f"{harness.__path__[0]}/equivalence.py"
    error = raised("abc123:arm.py", own)

    assert arm_traceback(error).splitlines() == [
        "Traceback (most recent call last):",
        '  File "abc123:arm.py", line 2, in build',
        "KeyError: 7",
    ]


def test_what_an_arm_calls_is_kept():
    error = raised(f"{harness.__path__[0]}/floor.py", "abc123:arm.py")

    assert '  File "abc123:arm.py", line 2, in call' in arm_traceback(error)
    assert "floor.py" in arm_traceback(error)


def test_without_a_line_of_the_arm_it_is_whole():
    own = f"{harness.__path__[0]}/equivalence.py"

    assert arm_traceback(raised(own, own)).count("equivalence.py") == 2
    assert arm_traceback(KeyError(7)) == "KeyError: 7"
