"""What a connector may do with an output: keep it, or write into it. Neither may show elsewhere."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from connector.data import SchedulerOutput
from harness.arms.outputs import (
    ATOMS,
    REQUESTS,
    comparable,
    field_names,
    field_of,
    field_values,
    overwrite,
)

_PLAIN = ATOMS | {list}


@dataclass(frozen=True)
class Change:
    """What shows that an output is not its reader's own.

    Attributes:
        reported: number of the report that handed it out, from 1.
        field: path of the field of that output.
        before, after: what was reported and what stands there now; or what stands there and with
            what it is shared.
    """

    reported: int
    field: str
    before: str
    after: str


class Consumer:
    """Reads the outputs of one arm: writes into some at once, and keeps others for a while."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []

    def take(
        self, output: SchedulerOutput | BaseException, step: int, reports: int
    ) -> Change | None:
        """Take an output, look at those that were kept, and write into what is kept no longer.

        Args:
            output: what the arm reported; of an exception there is nothing to read.
            step: number of the report.
            reports: for how many reports it is kept; 0 writes into it at once.

        Returns:
            What was found wrong first, if anything.
        """
        if isinstance(output, BaseException):
            return None
        shared = None
        if not reports:
            overwrite(output)
        elif (shared := _shared(output, step)) is None:
            self._kept.append(_Kept(output, step, step + reports))
        # Only now: what was overwritten must not show in what was kept either.
        found = next(filter(None, (kept.change() for kept in self._kept)), shared)
        for kept in self._kept:
            if kept.until == step:
                overwrite(kept.output)
        self._kept = [kept for kept in self._kept if kept.until > step]
        return found


class _Kept:
    """An output that a consumer keeps unchanged.

    Args:
        output: the output.
        step: number of the report that handed it out.
        until: number of the report after which the consumer writes into it.
    """

    def __init__(self, output: SchedulerOutput, step: int, until: int) -> None:
        self.output = output
        self.until = until
        self._step = step
        self._copies = {name: list(map(_Copied, field_of(output, name))) for name in REQUESTS}

    def change(self) -> Change | None:
        """Return the first field that is not what it was; None if all is."""
        for name, copies in self._copies.items():
            requests = field_of(self.output, name)
            for index, (data, copied) in enumerate(zip(requests, copies, strict=False)):
                found = copied.change(data)
                if found is not None:
                    field, before, after = found
                    path = f"{name}[{index}].{field}"
                    return Change(self._step, path, repr(before), repr(after))
            if len(requests) != len(copies):
                words = [f"{len(entries)} entries" for entries in (copies, requests)]
                return Change(self._step, name, *words)
        return None


class _Copied:
    """The fields of what is said of a request, with values that nobody else can change.

    Args:
        data: what is said.
    """

    def __init__(self, data: object) -> None:
        values = field_values(data)
        self._names = field_names(data)
        self._values = tuple(map(_frozen, values))
        # Whether comparing all at once says whether any is another: an array says it one by one.
        self._is_plain = all(type(value) in _PLAIN for value in values)

    def change(self, data: object) -> tuple[str, object, object] | None:
        """Return the first field that is not what it was, with what it was and is; else None."""
        now = field_values(data)
        if self._is_plain and now == self._values:
            return None
        for name, before, after in zip(self._names, self._values, now, strict=False):
            if type(after) in _PLAIN:
                differs, shown = after != before, after
            else:
                shown = comparable(after)
                differs = shown != before
            if differs:
                return name, before, shown
        return None


def _frozen(value: object) -> object:
    """Return a value that compares as a value does, and stays as it is now."""
    if type(value) in ATOMS:
        return value
    if isinstance(value, list):
        # What begins with a number holds numbers alone, as most do.
        is_flat = not value or type(value[0]) in ATOMS
        return value.copy() if is_flat else list(map(_frozen, value))
    return copy.deepcopy(comparable(value))


# Where something stands: the list, the index in it, the field there and the path in that; the last
# ones are None where it is no part of a field.
_Place = tuple[str | None, int | None, str | None, str | None]


def _shared(output: SchedulerOutput, step: int) -> Change | None:
    """Return the first of an output that stands in two places and must not; None if nothing.

    What a request's flat list holds may be what the list of its only group holds, as upstream.
    """
    if _is_unshared(output):
        return None
    seen: dict[int, _Place] = {}
    for part, place in _places(output):
        first = seen.setdefault(id(part), place)
        if first is not place and (first[:2] != place[:2] or first[2] == place[2]):
            return Change(step, _path(place), "its own", f"shared with {_path(first)}")
    return None


def _is_unshared(output: SchedulerOutput) -> bool:
    """Return whether nothing stands in two places; soon, and only where it holds plain lists."""
    parts: list[int] = []
    for name in REQUESTS:
        for data in field_of(output, name):
            own: list[int] = []
            inner: list[int] = []
            for value in field_values(data):
                kind = type(value)
                if kind is list:
                    own.append(id(value))
                    if value and type(value[0]) not in ATOMS:
                        inner += map(id, value)
                elif kind not in ATOMS:
                    return False
            # The list of the only group may be the flat one.
            if len(inner) > 1 or (inner and inner[0] not in own):
                parts += inner
            parts += own
            parts.append(id(data))
    return len(set(parts)) == len(parts)


def _places(output: SchedulerOutput) -> Iterator[tuple[object, _Place]]:
    """Yield all in an output that can be written into."""
    yield output, (None, None, None, None)
    for name in REQUESTS:
        requests = field_of(output, name)
        yield requests, (name, None, None, None)
        for index, data in enumerate(requests):
            yield data, (name, index, None, None)
            for field, value in zip(field_names(data), field_values(data), strict=True):
                if type(value) not in ATOMS:
                    for part, path in _held(value):
                        yield part, (name, index, field, path)


def _path(place: _Place) -> str:
    name, index, field, path = place
    return (
        (name or "output")
        + (f"[{index}]" if index is not None else "")
        + (f".{field}{path}" if field is not None else "")
    )


def _held(value: object) -> Iterator[tuple[object, str]]:
    """Yield what of a value can be written into, itself and what it holds, each with its path."""
    if isinstance(value, set) or hasattr(value, "__setitem__"):
        yield value, ""
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        entries = value.items()
    elif isinstance(value, list | tuple) and value and type(value[0]) not in ATOMS:
        entries = enumerate(value)
    for key, entry in entries:
        for part, path in _held(entry):
            yield part, f"[{key!r}]{path}"
