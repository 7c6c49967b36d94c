"""What commands that time arms have in common once these were verified."""

from __future__ import annotations

from collections.abc import Mapping

import click

from harness.verify.runs import Verification
from harness.verify.worlds import WorldsVerification
from reports.kinds import worlds
from reports.kinds.equivalence import partial, render_json, render_text
from reports.render.words import sentences

from .messages import say, unread_is_fine
from .own_function import OwnFunction


def are_refused(verification: Verification | None, style: str, origins: Mapping[str, str]) -> bool:
    """Return whether arms differ, and then print how and say that they are not measured.

    Args:
        verification: what was found; None where nothing was verified.
        style: the format of the command's result.
        origins: where arms are from, of those that are named by where their source is.
    """
    if verification is None or verification.failure is None:
        return False
    render = render_json if style == "json" else render_text
    with unread_is_fine():
        click.echo(render(verification, origins), nl=False)
    say("the arms differ, so they are not measured; --no-verify insists")
    return True


def are_different(found: WorldsVerification, own: OwnFunction, style: str) -> bool:
    """Return whether versions of a user's own function differ, and then print how."""
    if found.difference is None:
        return False
    render = worlds.render_json if style == "json" else worlds.render_text
    with unread_is_fine():
        click.echo(render(found, own.project.spec, own.origins), nl=False)
    say("outputs differ, so nothing was timed; --no-verify times them anyway")
    return True


def verified_words(verification: Verification | None, origins: Mapping[str, str]) -> list[str]:
    """Return whether the outputs were verified, and where arms are from, for a provenance."""
    words = ["outputs not verified"]
    if verification is not None:
        words = ["outputs verified in a few random runs first"]
        words += [line[0].lower() + line[1:].rstrip(".") for line in partial(verification)]
    return [*words, *(line.rstrip(".") for line in sentences(origins))]
