"""Words around numbers, and names in running text."""

import itertools
import re
from collections.abc import Mapping

# What Markdown, or GitHub beyond it, could take for markup: also a mention, an issue's number, an
# address. Within a word an underscore is none.
_MARKUP = re.compile(
    r"[\\`*\[<|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|#(?=\d)|@(?=\w)|:(?=//|[a-z+-][\w+-]*:)"
    r"|(?<=www)\.|(?<=\bGH)-(?=\d)"
)
# A list, a heading, a quotation or a rule begins so.
_AT_START = re.compile(r"^\s*(\d*)(?:([-+#.)=]+)(?=\s|$)|(>))")
_TICKS = re.compile("`+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def counted(number: int, noun: str) -> str:
    """Return ``number`` with ``noun``, in the plural unless it is one: ``3 rounds``."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def code(text: str) -> str:
    """Return ``text`` as Markdown shows it as it is: between more backticks than it holds."""
    runs = [len(list(run)) for is_tick, run in itertools.groupby(text, "`".__eq__) if is_tick]
    if not runs:
        return f"`{text}`"
    fence = "`" * (max(runs) + 1)
    return f"{fence} {text} {fence}"


def plain(text: str, *, in_table: bool = False) -> str:
    """Return ``text`` so that GitHub shows it as it is, whatever a file or an arm is called.

    What stands between backticks, as ``code`` puts it there, stays: nothing in it is taken for
    anything. No address becomes a link, and nobody is mentioned.

    Args:
        text: the text; line breaks become spaces, since they could begin a heading or a list.
        in_table: whether it is for a cell of a table, where a bar has to be escaped in code, too.
    """
    parts = []
    for fence, content in spans(visible(" ".join(text.splitlines()))):
        if fence:
            span = f"{fence}{content}{fence}"
            parts.append(span.replace("|", "\\|") if in_table else span)
        else:
            parts.append(_MARKUP.sub(_escape, content))
    shown = "".join(parts)
    return shown if in_table else _AT_START.sub(r"\1\\\2\3", shown)


def visible(text: str) -> str:
    """Return ``text`` without what would move a cursor, ring or colour: a mark in its place."""
    return _CONTROLS.sub("\ufffd", text)


def spans(text: str) -> list[tuple[str, str]]:
    """Return a text cut into code and the rest, as Markdown does it.

    Returns:
        Pairs of the backticks around a piece, empty for what is no code, and the piece.
    """
    found, place = [], 0
    for opening in _TICKS.finditer(text):
        if opening.start() < place:
            continue  # Within a piece of code.
        runs = _TICKS.finditer(text, opening.end())
        closing = next((run for run in runs if run.group() == opening.group()), None)
        if closing is not None:  # Else it stands for itself.
            found.append(("", text[place : opening.start()]))
            found.append((opening.group(), text[opening.end() : closing.start()]))
            place = closing.end()
    return [(fence, piece) for fence, piece in [*found, ("", text[place:])] if piece]


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    # A backslash does not keep GitHub from mentioning or linking: an empty character does.
    if character in "@#:.-":
        return f"{character}\u200b"
    return {"<": "&lt;", "&": "&amp;"}.get(character, f"\\{character}")


def sentences(origins: Mapping[str, str]) -> list[str]:
    """Return a sentence on each arm that is named by where its source is.

    Args:
        origins: where it is from, by arm.
    """
    return [f"{code(arm)}: {origin}." for arm, origin in origins.items()]
