"""What arms read of the environment, as it is kept, told, compared and repeated.

Of what may be a secret, and of what is no text, a digest is kept instead of the value.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from .own_os import Reads
from .variables import is_secret

# The name of the metadata that hold it, by arm, as JSON.
ENVIRONMENT = "stepbench_environment"

# Characters of a value that are shown.
_LONGEST = 60
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Environment:
    """What one arm read of the environment.

    Attributes:
        values: by name the value; None where the variable was asked for and not set.
        hidden: by name the digest of a value that is not kept.
        others: where the whole environment was looked at, the digests of all other variables.
        own: names of those that are the arm's own.
    """

    values: Mapping[str, str | None] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything was read."""
        return bool(self.values or self.hidden or self.others)

    def words(self) -> str:
        """Return what was read, in words: ``reads FOO=1, BAR (unset)``."""
        parts = [
            f"{name} (unset)" if value is None else f"{name}={_shown(value)}"
            for name, value in self.values.items()
        ]
        parts += [f"{name} (set, its value is not kept)" for name in self.hidden]
        if self.others:
            parts.append(f"the whole environment ({len(self.others)} other variables)")
        return f"reads {', '.join(parts)}"

    def states(self) -> dict[str, str]:
        """Return by name what can be compared: ``unset``, the value, or its digest."""
        found = {
            name: "unset" if value is None else _whole(value) for name, value in self.values.items()
        }
        digests = {**self.hidden, **self.others}
        return found | {name: f"(sha256 {digest})" for name, digest in digests.items()}


def environment_of(
    reads: Reads, text: str, whole: Mapping[str, str], own: Iterable[str]
) -> Environment:
    """Return what is kept of what an arm read.

    Where it looked at the whole environment, its source tells which variables it is after: those
    whose names, or beginnings of names such as ``TLLM_``, stand in it.

    Args:
        reads: what it read.
        text: its source.
        whole: the whole environment.
        own: names of the variables that are its own.
    """
    values, others = dict(reads.values), {}
    if reads.is_whole:
        names = _names(text)
        for name, value in whole.items():
            if name in names or any(each.isupper() and name.startswith(each) for each in names):
                values[name] = value
            else:
                values.pop(name, None)
                others[name] = _digest(value)
    hidden = {
        name: _digest(value)
        for name, value in values.items()
        if value is not None and (is_secret(name) or not _is_text(value))
    }
    kept = {name: value for name, value in values.items() if name not in hidden}
    return Environment(kept, hidden, others, tuple(own))


def to_json(environments: Mapping[str, Environment]) -> str:
    """Return what arms read, by arm, as JSON."""
    return json.dumps({arm: asdict(each) for arm, each in environments.items()})


def from_metadata(metadata: Mapping[str, object]) -> dict[str, Environment]:
    """Return what arms read, by arm, as metadata note it; nothing where they do not."""
    try:
        found = json.loads(str(metadata.get(ENVIRONMENT, "{}")))
        return {
            arm: Environment(
                dict(each["values"]), dict(each["hidden"]), dict(each["others"]), (*each["own"],)
            )
            for arm, each in found.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # Of another version, or damaged: it is not what the file is about.


def with_environment(command: str, environments: Iterable[Environment]) -> str:
    """Return a command line that is run in the same environment, as far as arms read of it."""
    values: dict[str, str | None] = {}
    for each in environments:
        values |= {name: value for name, value in each.values.items() if name not in each.own}
    unset = [f"-u {shlex.quote(name)}" for name, value in values.items() if value is None]
    given = [
        f"{name}={shlex.quote(value)}"
        for name, value in values.items()
        if value is not None and _NAME.fullmatch(name)
    ]
    return " ".join([*(["env", *unset] if unset else []), *given, command])


def _names(text: str) -> set[str]:
    """Return the texts in a source that can be names of variables, or their beginnings."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Constant) else None
        name = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if isinstance(name, str) and _NAME.fullmatch(name):
            found.add(name)
    return found


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _is_text(value: str) -> bool:
    return value.isprintable()


def _whole(value: str) -> str:
    """Return what tells a value from every other, however long it is."""
    is_cut = len(value) > _LONGEST
    return f"{_shown(value)} (sha256 {_digest(value)})" if is_cut else _shown(value)


def _shown(value: str) -> str:
    short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
    return shlex.quote(short)
