"""``stepbench list``."""

import json

import click

from harness.arms import ARMS, describe_arm
from scenarios.catalogue import CATALOGUE


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """List the arms and the named scenarios.

    \b
    Examples:
      stepbench list
      stepbench list --json
    """
    arms = {name: describe_arm(name) for name in ARMS}
    if as_json:
        scenarios = {
            name: {"summary": line, "cells": [scenario.to_dict() for scenario in cells]}
            for name, (line, cells) in CATALOGUE.items()
        }
        click.echo(json.dumps({"arms": arms, "scenarios": scenarios}, indent=2))
        return
    click.echo("Arms (--arms):")
    for name, line in arms.items():
        click.echo(f"  {name:<16}{line}")
    click.echo("\nScenarios (--scenario):")
    for name, (line, cells) in CATALOGUE.items():
        click.echo(f"  {name:<16}{line}")
        for scenario in cells:
            click.echo(f"  {'':<16}  {scenario.name}")
