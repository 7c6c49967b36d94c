"""The guide for a pull request: its commands are ones that there are."""

import re
import shlex
from pathlib import Path

import click
import pytest

from stepbench.cli import cli

GUIDE = Path(__file__).parent.parent / "docs" / "pull-request.md"
SHELL = {
    '"$BASE"': "'trtllm:~/TensorRT-LLM@origin/main'",
    '"$CHANGE"': "'trtllm:~/TensorRT-LLM'",
    '"$BASE,$CHANGE"': "'trtllm:~/TensorRT-LLM@origin/main,trtllm:~/TensorRT-LLM'",
}


def commands() -> list[str]:
    return re.findall(r"^    (stepbench .*)$", GUIDE.read_text(), re.MULTILINE)


def test_the_guide_goes_through_all_steps():
    named = [line.split()[1] for line in commands()]
    assert named == [
        *("list", "verify", "count", "compare", "speedup", "overlap", "report", "report")
    ]


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_guide_is_understood(line: str):
    for name, value in SHELL.items():
        line = line.replace(name, value)
    assert "$" not in line
    _, name, *words = shlex.split(line.partition(" > ")[0])
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    with command.make_context(name, words) as context:
        assert context.params
    arms = re.findall(r"trtllm:[^,' ]*", line)
    given = " ".join(map(str, context.params.values()))
    assert all(arm in given for arm in arms)


def test_every_option_that_the_guide_names_is_one():
    text = GUIDE.read_text()
    known = {
        option
        for name in cli.list_commands(click.Context(cli))
        if (command := cli.get_command(click.Context(cli), name)) is not None
        for parameter in command.params
        for option in parameter.opts
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert named
    assert named <= known
