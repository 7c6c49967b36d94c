"""``stepbench list``."""

import json

import click

from harness.arms.inspection import inspect_arm
from harness.arms.registry import ARMS, describe_arm
from harness.arms.sources import find_source
from scenarios.catalogue import CATALOGUE
from stubs.providers import PROVIDERS, absent

from .own_function import subject_option
from .own_work import list_subject

# Where arms may come from that are none of this project.
_FOREIGN = {
    "git:REV:NAME": "one of these as of a git revision of this project",
    "file:PATH": "a Python file that holds a connector module",
    "trtllm:CHECKOUT": "the connector module of a TensorRT-LLM checkout, as it is",
    "trtllm:CHECKOUT@REV": "the same as of a git revision",
}


@click.command()
@click.option("--arm", metavar="SPEC", help="Load this arm and show what was found.")
@subject_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(arm: str | None, subject: str | None, as_json: bool) -> None:
    """List the arms, the providers and the named scenarios.

    With an arm, which may be any that the other commands take, show where it is from, what its
    module imports and was given, and which classes and calls were found.

    With a subject, a file of your own, show the functions in it, their cells and the packages that
    arms have versions of.

    \b
    Examples:
      stepbench list
      stepbench list --subject bench_join.py
      stepbench list --json
      stepbench list --arm trtllm:~/TensorRT-LLM@v1.2.0
    """
    if subject is not None:
        if arm is not None:
            raise click.UsageError("--arm and --subject exclude each other")
        list_subject(subject, as_json=as_json)
        return
    if arm is not None:
        from reports.kinds.inspection import render_json, render_text

        source = find_source(arm)
        found = inspect_arm(source)
        click.echo((render_json if as_json else render_text)(source, found), nl=False)
        return
    arms = {name: describe_arm(name) for name in ARMS}
    missing = {name: absent(name) for name in PROVIDERS}
    if as_json:
        scenarios = {
            name: {"summary": line, "cells": [scenario.to_dict() for scenario in cells]}
            for name, (line, cells) in CATALOGUE.items()
        }
        providers = {
            name: {"summary": line, "absent": missing[name]} for name, line in PROVIDERS.items()
        }
        document = {"arms": arms, "providers": providers, "scenarios": scenarios}
        click.echo(json.dumps(document, indent=2))
        return
    click.echo("Arms (--arms):")
    for name, line in arms.items():
        click.echo(f"  {name:<21}{line}")
    for name, line in _FOREIGN.items():
        click.echo(f"  {name:<21}{line}")
    click.echo("\nProviders of the stand-ins (--provider):")
    for name, line in PROVIDERS.items():
        click.echo(f"  {name:<16}{line}")
        if missing[name]:
            click.echo(f"  {'':<16}absent: {missing[name]}")
    click.echo("\nScenarios (--scenario):")
    for name, (line, cells) in CATALOGUE.items():
        click.echo(f"  {name:<16}{line}")
        for scenario in cells:
            click.echo(f"  {'':<16}  {scenario.name}")
