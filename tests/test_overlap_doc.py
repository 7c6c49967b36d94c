"""The document on overlap: its commands are ones that there are, and its lines can be read."""

import re
import shlex
from pathlib import Path

import click
import pytest

from harness.forward.specs import GPUS, MODELS
from stepbench.cli import cli

DOCUMENT = Path(__file__).parent.parent / "docs" / "overlap.md"
TEXT = DOCUMENT.read_text()


@pytest.mark.parametrize("line", re.findall(r"^    (stepbench .*)$", TEXT, re.MULTILINE))
def test_every_command_of_it_is_understood(line: str):
    _, name, *words = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    with command.make_context(name, words) as context:
        assert context.params


def test_every_option_that_it_names_is_one_of_the_command():
    command = cli.get_command(click.Context(cli), "overlap")
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"`(--[a-z][a-z-]*)", TEXT))
    assert named
    assert named <= known


def test_the_defaults_that_it_names_are_those_of_the_command():
    (model, gpu) = re.findall(r"by default `(.*?)` on `(.*?)`", TEXT)[0]
    assert model in MODELS
    assert gpu in GPUS
    command = cli.get_command(click.Context(cli), "overlap")
    assert command is not None
    helps = {parameter.opts[0]: getattr(parameter, "help", "") for parameter in command.params}
    assert f"[default: {model}]" in helps["--model"]
    assert f"[default: {gpu}]" in helps["--gpu"]


def test_its_lines_have_at_most_110_characters():
    lines = [line for line in TEXT.splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 110] == []
