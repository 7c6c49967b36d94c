"""The first screen of the power study's report: what a reader can rely on, and what not."""

from __future__ import annotations

from collections.abc import Sequence

from power_file import Record, cells_of, of
from power_words import by_cell, count, grids_with_alarm, seconds, slower

# From which share on a slowdown counts as found in a cell.
_FOUND = 0.95
_NONE_YET = "no trials yet"


def first_screen(trials: Sequence[Record]) -> str:
    """Return five lines: equal code, 1 %, half a per cent, beside other work, and apart."""
    lines = {
        "Equal code is not called different": _equal(trials),
        "One per cent slower is found": _one(trials),
        "Half a per cent needs its own threshold": _half(trials),
        "A busy core costs verdicts, not truth": _busy(trials),
        "Arms in processes of their own (`--apart`) need larger differences": _apart(trials),
    }
    return "\n".join(f"- **{title}**: {text}" for title, text in lines.items())


def _equal(trials: Sequence[Record]) -> str:
    grids = of(trials, "a/a grid")
    if not grids:
        return f"{_NONE_YET}."
    return f"{count(grids_with_alarm(grids), len(grids))} grids of twelve cells had a false alarm."


def _one(trials: Sequence[Record]) -> str:
    cells = by_cell(of(trials, "1 % in each cell"))
    if not cells:
        return f"{_NONE_YET}."
    shares = {name: (slower(own), len(own)) for name, own in cells.items()}
    weak = {name: share for name, share in shares.items() if share[0] < _FOUND * share[1]}
    good = [cell for name, own in cells.items() if name not in weak for cell in own]
    text = "in no cell reliably"
    if good:
        text = (
            f"{count(slower(good), len(good))} trials in {len(cells) - len(weak)} of {len(cells)} "
            f"cells, in {seconds([cell['took'] for cell in good])}"
        )
    if not weak:
        return f"{text}."
    told = ", ".join(f"{found} of {tried} in {name}" for name, (found, tried) in weak.items())
    return f"{text}. Not to rely on: {told}, where it mostly stays inconclusive."


def _half(trials: Sequence[Record]) -> str:
    usual = cells_of(of(trials, "0.5 % in each cell"))
    own = cells_of(of(trials, "0.5 % at 0.25 %"))
    grids = of(trials, "a/a grid at 0.25 %")
    texts = []
    if usual:
        texts.append(
            f"at the usual 0.5 % it is called slower in {count(slower(usual), len(usual))}"
        )
    if own:
        texts.append(f"at `--threshold 0.25%` in {count(slower(own), len(own))} at 64 x 2,048")
    if grids:
        alarms = count(grids_with_alarm(grids), len(grids))
        texts.append(f"there {alarms} grids of equal code had a false alarm")
    return f"{'; '.join(texts) or _NONE_YET}."


def _busy(trials: Sequence[Record]) -> str:
    same, slowed = (cells_of(of(trials, f"{label} beside a hog")) for label in ("a/a", "1 %"))
    if not same or not slowed:
        return f"{_NONE_YET}."
    wrong = sum(cell["kind"] in ("slower", "faster") for cell in same)
    wrong += sum(cell["kind"] in ("no difference", "faster") for cell in slowed)
    return (
        f"beside a process that keeps a core busy {count(wrong, len(same) + len(slowed))} verdicts "
        f"were wrong, and 1 % was found in {count(slower(slowed), len(slowed))}."
    )


def _apart(trials: Sequence[Record]) -> str:
    asked = {label: cells_of(of(trials, f"{label} apart")) for label in ("3 %", "5 %")}
    texts = [f"{label} in {count(slower(own), len(own))}" for label, own in asked.items() if own]
    return f"{', '.join(texts) or _NONE_YET}."
