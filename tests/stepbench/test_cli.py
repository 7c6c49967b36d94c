import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import stepbench
from stepbench import cli

from .conftest import SCRIPT, Run, assert_refused, run_script

COMMANDS = cli.cli.list_commands(None)  # type: ignore[arg-type]


def test_help_lists_commands_and_exit_codes():
    ran = run_script("--help")

    assert (ran.code, ran.err) == (0, "")
    assert {"speedup", "report", "list"} <= set(COMMANDS)
    for command in COMMANDS:
        assert re.search(rf"^  {command}\s+\w", ran.out, re.MULTILINE)
    for text in ("Exit codes:", "0 done", "1 a finding", "2 usage", "4 nothing", "130 interrupted"):
        assert text in ran.out


def test_no_arguments_are_a_call_for_help():
    assert run_script() == run_script("--help")


def test_the_version_is_the_packages():
    ran = run_script("--version")

    assert (ran.code, ran.out, ran.err) == (0, f"stepbench {stepbench.__version__}\n", "")


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "stepbench", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, f"stepbench {stepbench.__version__}\n")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_only_prints_a_text_imports_nothing_heavy(option: str):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", SCRIPT, option],
        capture_output=True,
        text=True,
        check=True,
    )

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"click", "stepbench.cli"} <= imported
    top = {name.partition(".")[0] for name in imported}
    assert top.isdisjoint({"numpy", "pandas", "pyperf", "rich", "psutil", "filelock", "harness"})


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
def test_examples_stand_on_lines_of_their_own(run_here: Run, arguments: tuple[str, ...]):
    ran = run_here(*arguments, "--help")

    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert "Examples:" in lines
    examples = [line for line in lines if line.startswith("stepbench ")]
    assert len(examples) >= 2
    assert "\\b" not in ran.out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_a_command_is_valid(name: str):
    command = cli.cli.get_command(None, name)  # type: ignore[arg-type]

    lines = [line.strip() for line in (command.help or "").splitlines()]
    examples = [line for line in lines if line.startswith("stepbench ")]
    assert examples
    for example in examples:
        script, called, *arguments = shlex.split(example.partition(" > ")[0])
        assert (script, called) == ("stepbench", name)
        command.make_context(name, arguments)  # Raises for an unknown option or a bad value.


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_of_commands_is_the_commands_own(name: str):
    command = cli.cli.get_command(None, name)  # type: ignore[arg-type]

    assert (command.help or "").splitlines()[0] == cli._COMMANDS[name][1]


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["speedpu"], ["unknown command 'speedpu'", "did you mean 'speedup'?"]),
        (["zzz"], ["unknown command 'zzz'", "known: speedup, "]),
        (["--nonsense"], ["--nonsense"]),
        (["speedup", "--cels", "1x1"], ["--cels", "--cells"]),
        (["report", "--nonsense"], ["--nonsense"]),
        (["list", "extra"], ["extra"]),
        (["report"], ["FILES"]),
    ],
)
def test_what_does_not_exist_is_refused_in_one_line(
    run_here: Run, arguments: list[str], texts: list[str]
):
    assert_refused(run_here(*arguments), *texts)


def test_a_refusal_of_the_script_is_one_line_as_well():
    assert_refused(run_script("speedup", "--cells", "0x64"), "requests", "not 0")


@pytest.mark.parametrize(
    ("style", "copies"),
    # Forty tables do not fit the buffer that a single one stays in until the end.
    [("markdown", 1), ("terminal", 1), ("csv", 1), ("json", 1), ("markdown", 40)],
)
def test_a_reader_that_has_seen_enough_is_no_error(results: str, style: str, copies: int):
    # Before anything is written: ``head -1`` may be that quick.
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, "report", *[results] * copies, "--format", style],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)

    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.thorough
def test_the_first_line_can_be_cut_off(results: str):
    # More than the pipe holds, so that the command still writes when its reader is gone.
    with subprocess.Popen(
        [SCRIPT, "report", *[results] * 100],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert first == f"### {results}\n"
    assert errors == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_behind_stdout_is_an_error_of_one_line(results: str):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [SCRIPT, "report", results], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.stderr == "stepbench: error: output: No space left on device\n"
    assert done.returncode == 2


def test_without_a_stdout_there_is_no_traceback(results: str):
    done = subprocess.run(
        ["sh", "-c", f"{shlex.quote(SCRIPT)} report {results} >&-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert "Traceback" not in done.stderr
