"""``count --check`` and the gate on arms whose work is not the same each time: never red for it."""

from pathlib import Path

import pytest

from .gate_copy import BASE, Copy

# The same of ``count`` alone is in test_count_exact.py.
pytestmark = [pytest.mark.xdist_group("gate"), pytest.mark.thorough]

ARM = "connector/incremental.py"
FIRST = "        scheduler_output = SchedulerOutput(attention_dp_rank=self.attention_dp_rank)\n"
CHECK = ("count", "--check", "-q", "--scenario", "small", "--arms", "incremental,batched,floor")

CASES = {
    "set of strings": (
        """\
        for word in {"alpha", "beta", "gamma", "delta", "omega"}:
            if word == "gamma":
                break
""",
        "work depends on the hash seed: incremental in v2-50x",
    ),
    "the process": (
        "        import os\n        for _ in range(os.getpid() % 2): pass\n",
        "work differs between two runs under one hash seed: incremental in v2-50x",
    ),
    "places in memory": (
        """\
        made = [object() for _ in range(7)]
        for one in set(made):
            if one is made[0]:
                break
""",
        "work differs between two runs under one hash seed: incremental in v2-50x",
    ),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy.of_this_repository(tmp_path_factory.mktemp("base") / "copy")


def accepted(base: Copy, place: Path, lines: str) -> Copy:
    """A copy whose base has the arm that does something in each of its calls, with its budget."""
    copy = base.again(place)
    copy.edit(ARM, FIRST, lines + FIRST)
    copy.update()
    copy.git("commit", "--quiet", "--all", "--message", "An arm")
    copy.git("tag", "--force", BASE)
    return copy


@pytest.mark.parametrize("case", CASES)
def test_without_a_change_nothing_is_red(
    base: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
):
    lines, line = CASES[case]
    copy = accepted(base, tmp_path / "copy", lines)
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    # What a process's environment holds moves what lies in its memory.
    monkeypatch.setenv("SOMETHING", "x" * 977)

    check, gate = copy.run(*CHECK), copy.gate()

    assert (check.code, gate.code) == (0, 0), check.out + gate.out
    assert check.out.startswith("Within budget: ")
    assert f"\n{line[0].upper()}{line[1:]}" in check.out
    assert f"\n- {line}" in gate.out


def test_more_work_of_an_arm_that_depends_on_hashes_is_still_found(base: Copy, tmp_path: Path):
    lines, line = CASES["set of strings"]
    copy = accepted(base, tmp_path / "copy", lines)
    copy.edit(ARM, FIRST, f"        for _ in range(9): pass\n{FIRST}")

    check = copy.run(*CHECK)

    assert check.code == 1
    assert "Over budget: v2-50x128, incremental: bytecodes " in check.out
    assert line.capitalize()[:30] in check.out


def test_a_figure_that_was_the_same_twice_is_counted_again_before_it_is_believed(
    base: Copy, tmp_path: Path
):
    # The first eight processes do more: two for each of the two cells, and four in one of them.
    note = tmp_path / "note"
    lines = f"""\
        import pathlib
        note, own = pathlib.Path({str(note)!r}), globals()
        if "ROUNDS" not in own:
            own["ROUNDS"] = 0
            if note.exists():
                with note.open("ab") as file:
                    file.write(b"x")
                    own["ROUNDS"] = 9 if file.tell() <= 8 else 0
        for _ in range(ROUNDS): pass
"""
    copy = accepted(base, tmp_path / "copy", lines)
    assert copy.run(*CHECK).code == 0
    note.touch()

    ran = copy.run(*CHECK)

    assert ran.code == 0, ran.out
    told = "Work differs between two runs under one hash seed: incremental in v2-50x"
    assert told in ran.out
    assert note.stat().st_size > 8
