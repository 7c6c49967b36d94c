"""A user's own function, through the commands: the same, how much less work, how much faster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.own_project import BATCHING, commit, make, write

from .conftest import Run

SUBJECT = ("--subject", "bench_join.py", "-q")
RETURN = "        return Batch("
WRONG = BATCHING.replace(
    RETURN, f"        if self.lengths[0] == 5:\n            ids.pop()\n{RETURN}"
)
# The first output is written into by later steps.
LATE = BATCHING.replace(
    RETURN,
    f"        self.kept = getattr(self, 'kept', ids)\n        self.kept[0] = ids[0]\n{RETURN}",
)
TWICE = BATCHING.replace("sum(weight", "0 * sum(map(weight, self.lengths)) + sum(weight")


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    """The working folder is the project."""
    return make(tmp_path)


def change(text: str, name: str = "src/joiner/batching.py") -> None:
    write(Path(), {name: text})


def test_what_is_in_a_file_is_listed(run_here: Run):
    ran = run_here("list", "--subject", "bench_join.py")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "Packages (each arm has its own): joiner\n\n"
        "bench_join.py::join\n"
        "  4x8   requests 4, tokens 8\n"
        "  16x8  requests 16, tokens 8\n\n"
        "Arms: git: (the work tree), git:REVISION or path:FOLDER, with +FILE.patch behind or not\n"
    )
    document = json.loads(run_here("list", "--subject", "bench_join.py", "--json").out)
    assert document["packages"] == ["joiner"]
    assert [cell["name"] for cell in document["functions"]["join"]] == ["4x8", "16x8"]


def test_the_same_outputs_of_the_work_tree_and_of_its_head(run_here: Run):
    change(TWICE)

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.err) == (0, "")
    first, *rest = ran.out.splitlines()
    assert first == (
        "Same outputs: git: against git:HEAD, in 10 runs of 20 steps of each of 2 cells "
        "(4x8, 16x8)."
    )
    assert rest[1].endswith(", with changes, sha256 " + rest[1][-13:])


def test_the_first_step_of_the_smallest_cell_that_differs(run_here: Run, project: Path):
    change(WRONG)

    ran = run_here("verify", "git:", "--against", "git:one", *SUBJECT, "--json")
    found = json.loads(ran.out)["difference"]

    assert ran.code == 1
    assert found == {
        "arm": "git:",
        "cell": "4x8",
        "run": 0,
        "step": 5,
        "place": "output.ids[3]",
        "expected": "tuple of 2",
        "actual": "nothing",
        "is_late": False,
    }
    told = run_here("verify", "git:", "--against", "git:one", *SUBJECT).out
    repeat = next(line for line in told.splitlines() if line.startswith("Repeat with: "))
    again = run_here(*repeat.removeprefix("Repeat with: stepbench ").split(), "-q")
    assert again.out == told
    assert f"--subject {project}/bench_join.py --cells 4x8 --run 0 --steps 5 --seed 0" in repeat


def test_an_output_that_a_later_step_changes(run_here: Run):
    change(LATE)

    ran = run_here("verify", *SUBJECT, "--json", "--steps", "3")
    found = json.loads(ran.out)["difference"]

    assert ran.code == 1
    assert (found["step"], found["place"], found["is_late"]) == (1, "output.ids[0][1]", True)
    assert (found["expected"], found["actual"]) == ("1", "3")
    told = run_here("verify", *SUBJECT, "--steps", "3").out
    repeat = next(line for line in told.splitlines() if line.startswith("Repeat with: "))
    assert "--run 0 --steps 3 --seed 0" in repeat


def test_the_first_of_many_outputs_that_are_changed_is_named(run_here: Run):
    change(LATE)

    found = json.loads(run_here("verify", *SUBJECT, "--json").out)["difference"]

    assert (found["step"], found["actual"]) == (1, "20")


def test_a_world_that_is_not_the_same_twice_is_called_that(run_here: Run):
    own = Path("bench_join.py").read_text()
    change(own.replace("joiner.step,", "lambda: __import__('os').urandom(4),"), "bench_join.py")

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (2, "")
    assert "cell 4x8, run 0: the world or the step is not the same twice, with the same" in ran.err


def test_an_import_within_the_function_that_fails(run_here: Run):
    own = Path("bench_join.py").read_text()
    change(own.replace("import Joiner", "import Joinre"), "bench_join.py")

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (2, "")
    last = ran.err.splitlines()[-1]
    assert "its world cannot be built: ImportError: cannot import name 'Joinre'" in last
    assert "(git:HEAD joiner/__init__.py)" in last or "(git: joiner/__init__.py)" in last
    assert "/arm-" not in ran.err


def test_what_the_users_code_raises_has_its_traceback_and_nothing_of_ours(run_here: Run):
    change("def weight(length):\n    return 1 // (length - 2)\n", "src/joiner/weights.py")

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[0] == "stepbench: Traceback (most recent call last):"
    files = [line.split('"')[1] for line in ran.err.splitlines() if line.startswith("  File ")]
    assert files == ["git: joiner/batching.py"] * (len(files) - 1) + ["git: joiner/weights.py"]
    assert ran.err.splitlines()[-1].endswith(
        "::join, cell 4x8, arm 'git:', step 2: call raised: ZeroDivisionError: integer division or "
        "modulo by zero"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nix\n", "cannot be imported: ModuleNotFoundError: No module named 'nix'"),
        (
            "x = (\n",
            "cannot be imported: SyntaxError: '(' was never closed (bench_join.py, line 1)",
        ),
        ("", "declares no function with @stepbench.step(cells=...)"),
        (
            "import stepbench\n@stepbench.step(cells={'a': {}})\ndef join(cell, seed): pass\n",
            "must return stepbench.Step(call, advance), not a NoneType",
        ),
        (
            "import stepbench\n@stepbench.step(cells={'a': {}})\ndef join(cell, seed):\n"
            "    return stepbench.Step(int, advance=int)\n",
            "advance must return nothing, and returned a int: what is to be compared is what call "
            "returns",
        ),
        (
            "import stepbench\n@stepbench.step(cells={})\ndef join(cell, seed):\n    pass\n",
            'cells must be a dictionary such as {"64x2048": {"requests": 64}}, not {}',
        ),
    ],
)
def test_a_file_that_is_wrong(run_here: Run, text: str, words: str):
    change(text, "bench_join.py")

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (2, "")
    last = ran.err.splitlines()[-1]
    assert last.startswith("stepbench: error: ")
    assert words in last


def test_of_several_functions_one_has_to_be_named(run_here: Run):
    own = Path("bench_join.py").read_text()
    change(own + own.partition("import stepbench\n")[2].replace("join(", "leave("), "bench_join.py")

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "stepbench: error: bench_join.py declares join, leave: name one, as in --subject "
        "bench_join.py::join\n"
    )
    named = run_here("verify", "--subject", "bench_join.py::leave", "-q", "--runs", "1")
    assert named.code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trace", "x"), "--trace is about TensorRT-LLM's connector: it does not go with"),
        (("--provider", "python"), "--provider is about TensorRT-LLM's connector"),
        (("--cells", "3x3"), "unknown cell '3x3': known: 4x8, 16x8"),
        (("--instructions",), "--instructions counts for the connector's arms alone"),
    ],
)
def test_options_that_do_not_go_with_it(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
):
    if "--instructions" in options:
        monkeypatch.setattr("stepbench.compare.find_valgrind", object)

    ran = run_here("compare", "git:one", "git:", *SUBJECT, *options)

    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err


def count(run_here: Run, *options: str) -> dict[str, Any]:
    ran = run_here("count", *SUBJECT, "--json", *options)
    assert (ran.code, ran.err) == (0, "")
    return json.loads(ran.out)


def test_work_is_counted_exactly_and_grows_with_the_requests(run_here: Run):
    change(TWICE)

    document = count(run_here)
    works = {(work["arm"], work["cell"]["name"]): work for work in document["works"]}

    assert list(works) == [
        *(("git:HEAD", "4x8"), ("git:", "4x8"), ("git:HEAD", "16x8"), ("git:", "16x8"))
    ]
    for cell in ("4x8", "16x8"):
        before, after = (works[arm, cell]["figures"] for arm in ("git:HEAD", "git:"))
        assert after["bytecodes"] > before["bytecodes"]
        assert after["native_calls"] == before["native_calls"] + 1
    assert works["git:", "4x8"]["calls"]["sum"] == 2 * 16
    slopes = {(one["arm"], one["size"], one["figure"]): one["slope"] for one in document["growth"]}
    assert 0.7 < slopes["git:", "requests", "bytecodes"] < 1
    again = count(run_here)
    assert [work["figures"] for work in again["works"]] == [
        work["figures"] for work in document["works"]
    ]


def test_the_table_of_work_has_the_change_beside_it(run_here: Run):
    change(TWICE)

    ran = run_here("count", *SUBJECT, "--cells", "4x8", "--calls")

    assert ran.code == 0
    rows = [line.split("|") for line in ran.out.splitlines() if line.startswith("| 4x8")]
    assert [row[4].strip() for row in rows[:2]] == ["`git:HEAD`", "`git:`"]
    assert "(+" in rows[1][5]
    assert any("sum" in row[5] for row in rows[2:])


@pytest.mark.thorough
def test_equal_code_is_not_called_different_and_slower_code_is(run_here: Run):
    change(TWICE)
    options = (*SUBJECT, "--cells", "16x8", "--threshold", "5%", "-o", "x.json", "--force")
    options += ("--seconds", "2")

    ran = run_here("compare", "git:one", "git:", *options, "--json")
    document = json.loads(ran.out)

    assert ran.code in (1, 3)
    assert document["cells"][0]["kind"] in ("slower", "inconclusive")
    assert document["cells"][0]["ratio"]["value"] > 1.1
    assert document["cells"][0]["scenario"]["sizes"] == {"requests": 16, "tokens": 8}
    # What was kept can be read again.
    shown = run_here("report", "x.json")
    assert shown.code == 0
    assert "16x8" in shown.out
    same = run_here("compare", "git:", "git:", *options)
    assert same.code in (0, 3)
    assert "Both arms are the same code" in same.out


def test_arms_that_differ_are_not_timed(run_here: Run):
    change(WRONG)

    ran = run_here("compare", "git:one", "git:", *SUBJECT)

    assert ran.code == 1
    assert ran.out.startswith("Different outputs: git: against git:one, cell 4x8, step 5:\n")
    assert "outputs differ, so nothing was timed; --no-verify times them anyway" in ran.err
    assert not Path("results").exists()


def test_an_error_in_a_call_is_a_finding_and_its_cell_is_named(run_here: Run):
    change("def weight(length):\n    return 1 // (length - 2)\n", "src/joiner/weights.py")

    ran = run_here("compare", "git:one", "git:", *SUBJECT, "--no-verify", "--cells", "4x8")

    assert ran.code == 1
    assert "cell 4x8, arm 'git:', step 2: call raised: ZeroDivisionError" in ran.err


def test_compiled_packages_are_compared_between_processes(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
):
    write(Path(), {".gitignore": "*.so\n", "src/joiner/unused.abi3.so": ""})
    commit(Path())
    taken = []

    def stop(duet: Any, *_: object) -> None:  # noqa: ANN401
        taken.append(duet.is_apart)
        raise KeyboardInterrupt

    monkeypatch.setattr("stepbench.compare.compare_cell", stop)
    ran = run_here("compare", "git:", "git:", *SUBJECT, "--no-verify")

    assert (ran.code, taken) == (130, [True])
    assert "compiled modules: each copy gets a process of its own" in ran.err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("raise KeyboardInterrupt", "step 1: call raised: KeyboardInterrupt"),
        ("sys.exit(3)", "step 1: call raised: SystemExit: 3"),
        ("return Odd()", "step 1: its output cannot be compared: ValueError: no text"),
    ],
)
def test_odd_things_that_a_call_does_are_its_own(run_here: Run, lines: str, words: str):
    odd = "import sys\nclass Odd:\n    def __repr__(self):\n        raise ValueError('no text')\n"
    change(
        f"{odd}{BATCHING}".replace(
            "        from .weights", f"        {lines}\n        from .weights"
        )
    )

    ran = run_here("verify", *SUBJECT)

    assert (ran.code, ran.out) == (1, "")
    assert f"::join, cell 4x8, arm 'git:', {words}" in ran.err.splitlines()[-1]


def test_a_call_that_forks_is_called_on_by_one_process_alone(run_here: Run):
    change(
        BATCHING.replace(
            "        from .weights", "        __import__('os').fork()\n        from .weights"
        )
    )

    ran = run_here("verify", *SUBJECT, "--runs", "1", "--steps", "3", "--cells", "4x8")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Same outputs: ")


def test_a_function_is_called_by_the_name_that_it_is_bound_to(run_here: Run):
    own = Path("bench_join.py").read_text()
    change(
        own + "\nleave = stepbench.step(cells={'a': {'requests': 2}})(join.function)\n",
        "bench_join.py",
    )

    listed = run_here("list", "--subject", "bench_join.py::leave")
    verified = run_here("verify", "--subject", "bench_join.py::leave", "-q", "--runs", "1")

    assert "bench_join.py::leave\n  a  requests 2\n" in listed.out
    assert verified.code == 0


def test_a_module_of_another_arm_hides_none_of_the_standard_library(run_here: Run):
    change("import queue\ndef weight(length):\n    return length * 2\n", "src/joiner/weights.py")
    commit(Path())
    change("def other():\n    pass\n", "src/queue.py")
    change("def weight(length):\n    return length * 2\n", "src/joiner/weights.py")

    ran = run_here("verify", *SUBJECT, "--runs", "1")

    assert (ran.code, ran.err) == (0, "")


def test_a_size_of_nothing_has_no_slope(run_here: Run):
    own = Path("bench_join.py").read_text()
    change(own.replace("requests=[4, 16]", "requests=[0, 4]"), "bench_join.py")

    document = count(run_here, "--arms", "git:")

    assert {each["size"] for each in document["growth"]} == set()


def test_what_registers_globally_and_a_helper_beside_the_file(run_here: Run):
    """Each run and each pass imports all anew: nothing is left of the one before."""
    write(
        Path(),
        {
            "src/joiner/__init__.py": "import sys\nif hasattr(sys, 'joined'):\n    raise ValueError"
            "('twice')\nsys.joined = True\nfrom .batching import Joiner\n",
            "helper_of_join.py": "from joiner import Joiner\n",
        },
    )
    commit(Path())
    own = Path("bench_join.py").read_text()
    change(own.replace("from joiner import", "from helper_of_join import"), "bench_join.py")

    assert run_here("verify", *SUBJECT, "--runs", "3").code == 0
    assert count(run_here, "--cells", "4x8")["works"][0]["figures"]["native_calls"] > 0


def test_under_apart_an_error_in_a_call_is_a_finding_too(run_here: Run):
    change("def weight(length):\n    return 1 // (length - 2)\n", "src/joiner/weights.py")
    options = ("--no-verify", "--cells", "4x8", "--apart")

    ran = run_here("compare", "git:one", "git:", *SUBJECT, *options)

    assert ran.code == 1
    assert "arm 'git:', step 2: call raised: ZeroDivisionError" in ran.err


def test_what_advance_keeps_is_no_work_of_the_step(run_here: Run):
    own = Path("bench_join.py").read_text()
    keeps = "advance=lambda: (joiner.receive(), kept.append(bytes(100_000)), None)[2])"
    change(
        own.replace("    joiner = ", "    kept = []\n    joiner = ").replace(
            "advance=joiner.receive)", keeps
        ),
        "bench_join.py",
    )

    (work,) = count(run_here, "--arms", "git:", "--cells", "4x8")["works"]

    assert work["figures"]["retained_bytes"] < 1_000
