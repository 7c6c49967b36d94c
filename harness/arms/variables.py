"""Environment variables of an arm's own: ``NAME=VALUE`` in front of its specification.

As in a shell, there may be several with blanks between them, and a value may be quoted:
``FOO=1 BAR='a b' file:arm.py``.
"""

from __future__ import annotations

import re
import shlex

from stepbench_core.errors import InputError

_NAME = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=")
# The rest of a word of a shell; in a list of arms a comma ends it.
_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*""")
_WORD_IN_LIST = re.compile(r"""(?:[^\s,'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*""")

# What the interpreter, the loader or the C library reads when a process starts.
_OF_THE_PROCESS = ("PYTHON", "LD_", "MALLOC_", "GLIBC_")
_SECRET = re.compile(
    r"(TOKEN|KEYS?)(?![A-Z])|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL", re.IGNORECASE
)


def is_secret(name: str) -> bool:
    """Return whether a variable of this name may hold what nobody else should read."""
    return _SECRET.search(name) is not None


def split_variables(spec: str) -> tuple[dict[str, str], str]:
    """Return the variables in front of an arm's specification, by name, and the rest of it.

    Raises:
        InputError: a quote is not closed, a name stands twice or cannot be an arm's own, or no arm
            follows.
    """
    variables: dict[str, str] = {}
    place = 0
    while found := _NAME.match(spec, place):
        name, place = found[1], _end(_WORD, spec, found.end())
        if place < len(spec) and not spec[place].isspace():
            raise InputError(f"arm {spec!r}: a quote in the value of {name} is not closed")
        _check(spec, name, variables)
        variables[name] = "".join(shlex.split(spec[found.end() : place]))
    rest = spec[place:].strip() if variables else spec
    if not rest and variables:
        raise InputError(
            f"arm {spec!r}: no arm follows its variables; quote a value that holds a blank or, in "
            "a list, a comma"
        )
    return variables, rest


def split_list(text: str) -> list[str]:
    """Return the items of a list of arms. A comma within quotes of a variable's value is no end."""
    items, start = [], 0
    while start <= len(text):
        place = start
        while found := _NAME.match(text, place):
            place = _end(_WORD_IN_LIST, text, found.end())
        end = text.find(",", place)
        end = len(text) if end < 0 else end
        items.append(text[start:end].strip())
        start = end + 1
    return items


def _end(word: re.Pattern[str], text: str, place: int) -> int:
    found = word.match(text, place)
    return found.end() if found else place


def _check(spec: str, name: str, known: dict[str, str]) -> None:
    """Raise InputError unless a variable of this name can be an arm's own."""
    if name in known:
        raise InputError(f"arm {spec!r}: {name} stands twice")
    if name.startswith(_OF_THE_PROCESS):
        raise InputError(
            f"arm {spec!r}: {name} is read when a process starts, for all arms in it: it cannot be "
            "one arm's own"
        )
    if is_secret(name):
        raise InputError(
            f"arm {name}=... : its name looks like a secret, and an arm's name stands in every "
            f"report: export {name} instead, of which only a digest is kept"
        )
