"""What a report is made of, before any markup."""

from __future__ import annotations

from dataclasses import dataclass

from .table import State, Table


@dataclass(frozen=True)
class Verbatim:
    """Lines that are shown as they are."""

    text: str


Part = Table | Verbatim | str


@dataclass(frozen=True)
class Section:
    """What a report says of one file.

    Attributes:
        title: its heading.
        state: whether it speaks for the change.
        verdict: the same in one sentence.
        parts: tables, paragraphs and lines as they are, in order, that a reader must not miss.
        details: more of them, which may be folded.
        provenance: how it was found, and how to repeat it.
    """

    title: str
    state: State
    verdict: str
    parts: tuple[Part, ...]
    details: tuple[Part, ...] = ()
    provenance: str = ""
