"""``stepbench list``."""

import json

import click

from harness.arms import ARMS, describe_arm
from scenarios.catalogue import CATALOGUE
from stubs.providers import PROVIDERS, absent


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """List the arms, the providers and the named scenarios.

    \b
    Examples:
      stepbench list
      stepbench list --json
    """
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
        click.echo(f"  {name:<16}{line}")
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
