"""From what a user asks for to scenarios."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from stepbench_core.errors import InputError

from .catalogue import find_scenarios
from .scenario import SteadyDecode, TraceReplay, is_number

Scenarios = list[SteadyDecode | TraceReplay]

_STEADY_ONLY = ("boundaries",)
_TRACE_ONLY = ("max_batch", "max_num_tokens")
_V2_ONLY = ("layer_groups", "page_backend")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the cells come from: at most one of these; none means the reference cells.

    Attributes:
        scenario: name of a catalogue entry.
        cells: steady cells, such as ``16x8192,64x2048``.
        requests, tokens: the two sides of a grid of steady cells, such as ``1,8,64``.
        trace: a trace file.
    """

    scenario: str | None = None
    cells: str | None = None
    requests: str | None = None
    tokens: str | None = None
    trace: str | None = None


def select(source: Source, settings: Mapping[str, Any]) -> tuple[Scenarios, list[str]]:
    """Return the scenarios of ``source`` with ``settings``, and the names of those left out.

    Args:
        source: where the cells come from.
        settings: fields of the scenarios that differ from their defaults.

    Raises:
        InputError: the source is ambiguous or unreadable, or does not go with the settings.
    """
    _check_source(source)
    foreign = _TRACE_ONLY if source.trace is None else _STEADY_ONLY
    for name in foreign:
        if name in settings:
            goes = "only with" if source.trace is None else "not with"
            raise InputError(f"--{name.replace('_', '-')} goes {goes} --trace")
    if source.trace is not None:
        try:
            path = Path(source.trace).expanduser().absolute()
        except RuntimeError:
            raise InputError(f"{source.trace}: there is no such home folder") from None
        return [TraceReplay(path=str(path), **settings)], []
    if source.cells is not None:
        return _from_cells(source.cells, settings), []
    if source.requests is not None and source.tokens is not None:
        return _from_grid(source.requests, source.tokens, settings), []
    name = "reference" if source.scenario is None else source.scenario
    return _from_catalogue(name, settings)


def split(what: str, text: str) -> list[str]:
    """Return the entries of a list such as ``full-copy,incremental``.

    Raises:
        InputError: an entry is empty.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{what} {text!r}: an entry is empty")
    return parts


def _check_source(source: Source) -> None:
    grid = source.requests is not None or source.tokens is not None
    given = {
        "--scenario": source.scenario is not None,
        "--cells": source.cells is not None,
        "--requests and --tokens": grid,
        "--trace": source.trace is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise InputError(f"{names[0]} and {names[1]} exclude each other")
    if grid and (source.requests is None or source.tokens is None):
        raise InputError("a grid takes both --requests and --tokens")


def _from_catalogue(name: str, settings: Mapping[str, Any]) -> tuple[Scenarios, list[str]]:
    """Take the cells of an entry, changed.

    A V1 cell among V2 cells is left out where a setting exists with V2 alone, and a cell that
    becomes the same as another one is taken once.
    """
    chosen: Scenarios = []
    left_out = []
    found = find_scenarios(name)
    has_v2 = any(scenario.manager == "v2" for scenario in found)
    v2_settings = "manager" not in settings and any(map(settings.get, _V2_ONLY))
    for scenario in found:
        if v2_settings and has_v2 and scenario.manager == "v1":
            left_out.append(scenario.name)
            continue
        changed = replace(scenario, **settings)
        if changed not in chosen:
            chosen.append(changed)
    return chosen, left_out


def _from_cells(text: str, settings: Mapping[str, Any]) -> Scenarios:
    cells: Scenarios = []
    for part in split("cells", text):
        requests, x, tokens = part.partition("x")
        if not x:
            raise InputError(f"cell {part!r} is not REQUESTSxTOKENS, such as 64x2048")
        what = f"cell {part!r}"
        size, length = _number(what, requests), _number(what, tokens)
        cells.append(SteadyDecode(requests=size, tokens=length, **settings))
    return cells


def _from_grid(requests: str, tokens: str, settings: Mapping[str, Any]) -> Scenarios:
    sizes = [_number("requests", part) for part in split("requests", requests)]
    lengths = [_number("tokens", part) for part in split("tokens", tokens)]
    return [
        SteadyDecode(requests=size, tokens=length, **settings)
        for size, length in product(sizes, lengths)
    ]


def _number(what: str, text: str) -> int:
    if not is_number(text.strip().removeprefix("-")):
        raise InputError(f"{what}: {text!r} is not a whole number")
    return int(text)
