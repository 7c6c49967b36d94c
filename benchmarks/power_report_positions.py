"""The section of the power study's report on order, cores, and processes at once."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

from power_file import Record, cells_of, of
from power_words import by_cell, mean, ratio, table

# How far from 1 the mean A/A ratio may lie, whichever arm is first.
_NO_BIAS = 0.0005
# Fewer tell nothing about a correlation.
_FEWEST_PAIRS = 30


def positions_section(trials: Sequence[Record]) -> str:
    """Return what it is worth to be first, and on which core, where both arms are the same."""
    grids = of(trials, "a/a grid")
    cells = cells_of(grids)
    if not cells:
        return ""
    effects = [effect for cell in cells for effect in cell["effects"]]
    first = [flag for cell in cells for flag in cell["imported_first"]]
    groups = {
        "all: B against A, named second": effects,
        "A imported first": list(itertools.compress(effects, first)),
        "B imported first": list(itertools.compress(effects, [not flag for flag in first])),
        "the second copies against the first": [
            statistics.fmean(pair) for cell in cells for pair in cell["controls"]
        ],
    }
    for core in sorted({str(core) for cell in cells for core in cell["cores"]}):
        own = [str(each) == core for cell in cells for each in cell["cores"]]
        groups[f"on core {core}"] = list(itertools.compress(effects, own))
    rows = []
    for name, values in groups.items():
        if len(values) > 1:
            found = mean(values)
            within = "yes" if abs(found.value - 1) <= _NO_BIAS else "no"
            rows.append((name, f"{len(values)}", ratio(found), within))
    places, means = [], []
    for name, own in by_cell(grids).items():
        pairs = [pair for cell in own for pair in cell["by_place"]]
        before = [pair[0] for pair in pairs if pair[0] is not None]
        after = [pair[1] for pair in pairs if pair[1] is not None]
        both = mean([effect for cell in own for effect in cell["effects"]])
        means.append(both.value)
        places.append((name, *map(ratio, (mean(before), mean(after), both))))
    far = sum(abs(value - 1) > _NO_BIAS for value in means)
    head = ("Position", "Processes", "Mean A/A ratio", f"Mean within {_NO_BIAS:.2%}")
    place_head = ("Cell", "A ran before B", "B ran before A", "Both orders")
    words = (
        "What a place within an iteration is worth: the arm that runs later finds other caches. "
        "The orders come equally often in each process, so that a process's figure, the last "
        f"column, does not have it. Of these means {far} of {len(means)} lie further than "
        f"{_NO_BIAS:.2%} from 1.{_of_pairs(grids)}"
    )
    return f"{table(head, rows)}\n\n{table(place_head, places)}\n\n{words}"


def _of_pairs(grids: Sequence[Record]) -> str:
    """Say whether processes that run at once depend on each other.

    Around 0, which is what the same arm differs by, and each in units of the noise of its cell.
    """
    noise = {
        name: statistics.fmean(effect**2 for cell in own for effect in cell["effects"])
        for name, own in by_cell(grids).items()
    }
    products = [
        one * other / noise[cell["cell"]]
        for cell in cells_of(grids)
        for (one, core), (other, next_core) in itertools.pairwise(
            zip(cell["effects"], cell["cores"], strict=True)
        )
        # Within a batch the cores ascend.
        if core is not None and next_core is not None and core < next_core
    ]
    if len(products) < _FEWEST_PAIRS:
        return ""
    return (
        f" What two processes say that ran at once correlates by {statistics.fmean(products):.2f} "
        f"({len(products)} pairs; chance is up to about {2 / math.sqrt(len(products)):.2f})."
    )
