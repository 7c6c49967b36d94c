"""Options that several commands share."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from harness.system.affinity import allowed_cpus
from scenarios.scenario import SteadyDecode, TraceReplay, parse_layer_group
from scenarios.selection import Source, select, split
from scenarios.traces import read_trace
from stepbench_core.errors import InputError
from stubs.providers import AUTO, PROVIDERS, ProviderError, load_provider

from .messages import say

if TYPE_CHECKING:
    from reports.render.formats import Format

F = TypeVar("F", bound=Callable[..., object])

# Options that are fields of a scenario.
_SETTINGS = (
    "manager",
    "tokens_per_block",
    "page_backend",
    "boundaries",
    "draft_tokens",
    "overlap",
    "max_batch",
    "max_num_tokens",
)

_SELECTION = (
    click.option(
        "--scenario", metavar="NAME", help="Named cells (stepbench list).  [default: reference]"
    ),
    click.option(
        "--cells", metavar="LIST", help="Cells as REQUESTSxTOKENS, such as 16x8192,64x2048."
    ),
    click.option("--requests", metavar="LIST", help="With --tokens: a grid of cells."),
    click.option(
        "--tokens", metavar="LIST", help="With --requests: tokens per request of the grid."
    ),
    click.option("--trace", metavar="FILE", help="Replay a trace: Azure, BurstGPT or Mooncake."),
    click.option("--max-batch", type=int, help="Requests in the batch of a trace.  [default: 64]"),
    click.option(
        "--max-num-tokens", type=int, help="Token budget of an iteration.  [default: 8192]"
    ),
    click.option(
        "--manager", type=click.Choice(["v1", "v2"]), help="KV cache manager.  [default: v2]"
    ),
    click.option("--tokens-per-block", type=int, help="Block size in tokens.  [default: 32]"),
    click.option(
        "--layer-groups",
        metavar="LIST",
        help="V2 layer groups, such as full,window=4096 or window=4096:sink=64.  [default: full]",
    ),
    click.option(
        "--page-backend",
        type=click.Choice(["list", "generator"]),
        help="V2 page indices from the native or the Python backend.  [default: list]",
    ),
    click.option(
        "--boundaries",
        type=click.Choice(["aligned", "staggered"]),
        help="Whether all requests cross block boundaries together.  [default: aligned]",
    ),
    click.option("--draft-tokens", type=int, help="Draft tokens per request.  [default: 0]"),
    click.option("--overlap", is_flag=True, default=None, help="The overlap scheduler's order."),
)

FORMATS = ("terminal", "markdown", "csv", "json")


def selection_options(function: F) -> F:
    """Add the options that say which cells there are; ``selected_scenarios`` takes them."""
    for option in reversed(_SELECTION):
        function = option(function)
    return function


def selected_scenarios(options: Mapping[str, Any]) -> tuple[SteadyDecode | TraceReplay, ...]:
    """Return the cells that a command's options name.

    Raises:
        InputError: they contradict each other, or name none.
    """
    settings = {name: options[name] for name in _SETTINGS if options[name] is not None}
    if options["layer_groups"] is not None:
        groups = split("layer groups", options["layer_groups"])
        settings["layer_groups"] = tuple(map(parse_layer_group, groups))
    source = Source(**{name: options[name] for name in Source.__dataclass_fields__})
    scenarios, left_out = select(source, settings)
    if left_out:
        say(f"left out {', '.join(left_out)}: layer groups and page backends are V2's")
    if source.trace is not None:
        _say_what_failed(scenarios)
    return tuple(scenarios)


def _say_what_failed(scenarios: Sequence[SteadyDecode | TraceReplay]) -> None:
    """Say how many requests of a trace are not replayed."""
    for path in {scenario.path for scenario in scenarios if isinstance(scenario, TraceReplay)}:
        count = read_trace(path).without_output
        if count:
            words = "request without output was" if count == 1 else "requests without output were"
            say(f"{path}: {count:,} {words} left out")


def format_options(formats: Sequence[str] = FORMATS) -> Callable[[F], F]:
    """Return what adds ``--format``, with these formats, and ``--json``."""

    def add(function: F) -> F:
        function = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")(
            function
        )
        return click.option(
            "--format",
            "style",
            type=click.Choice(formats),
            help="How to print the result.  [default: terminal on a terminal, else markdown]",
        )(function)

    return add


def seed_option(function: F) -> F:
    """Add ``--seed``, a number."""
    return click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="Input seed."
    )(function)


def gc_option(function: F) -> F:
    """Add ``--gc`` of commands that time, ``on`` or ``off``."""
    return click.option(
        "--gc",
        type=click.Choice(["on", "off"]),
        default="off",
        show_default=True,
        help="Whether the garbage collector runs while it is measured.",
    )(function)


def no_verify_option(function: F) -> F:
    """Add ``--no-verify`` of commands that time."""
    return click.option(
        "--no-verify", is_flag=True, help="Time arms even if their outputs differ."
    )(function)


def quiet_option(function: F) -> F:
    """Add ``--quiet``."""
    return click.option("-q", "--quiet", is_flag=True, help="No progress.")(function)


def samples_options(stem: str) -> Callable[[F], F]:
    """Return what adds ``--output`` and ``--force`` of commands that keep samples.

    Args:
        stem: how the name of a file begins by default.
    """

    def add(function: F) -> F:
        function = click.option("--force", is_flag=True, help="Overwrite that file.")(function)
        return click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            help=f"File for the samples.  [default: results/{stem}-DATE-TIME.json]",
        )(function)

    return add


def jobs_option(function: F) -> F:
    """Add ``--jobs``, whose value is a number of processes."""
    return click.option(
        "--jobs",
        default="auto",
        show_default=True,
        callback=lambda _ctx, _parameter, text: _processes(text),
        help="Processes, or auto: one a core.",
    )(function)


def cpu_option(function: F) -> F:
    """Add ``--cpu`` of commands that measure on one core; a text."""
    return click.option(
        "--cpu", metavar="N", help="Core to pin to, or none.  [default: the last allowed]"
    )(function)


def cpus_option(function: F) -> F:
    """Add ``--cpu`` of commands that measure on several cores at once; a text."""
    return click.option(
        "--cpu",
        metavar="N[,N...]",
        help="Cores to pin to, one process on each at once, or none.  [default: the last and the "
        "last other one that is no thread of the same core; the last alone if there is none or a "
        "CPU quota is below two]",
    )(function)


def provider_option(function: F) -> F:
    """Add ``--provider``, whose value is the name of a provider that is there."""
    return click.option(
        "--provider",
        default=AUTO,
        show_default=True,
        type=click.Choice([AUTO, *PROVIDERS]),
        callback=lambda _ctx, _parameter, name: check_provider(name),
        help="Where the stand-ins' native part comes from; auto: nanobind if it is built.",
    )(function)


def check_provider(name: str) -> str:
    """Return the name of the provider that ``name`` stands for. Raises InputError without it."""
    try:
        return load_provider(name).name
    except ProviderError as error:
        raise InputError(str(error)) from None


def _processes(text: str) -> int:
    if text == "auto":
        return len(allowed_cpus())
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and int(text)):
        raise InputError(f"--jobs takes a number of processes or 'auto', not {text!r}")
    return int(text)


def chosen_format(style: str | None, as_json: bool) -> "Format":
    """Return the format to print in.

    Raises:
        click.UsageError: ``--json`` and another ``--format`` were given.
    """
    if as_json:
        if style not in (None, "json"):
            raise click.UsageError(f"--json contradicts --format {style}")
        return "json"
    if style is None:
        return "terminal" if sys.stdout.isatty() else "markdown"
    return cast("Format", style)


def unused_file(stem: str) -> Path:
    """Return a dated file in ``results`` that does not exist, even twice in a second."""
    stem = f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    names = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(file for name in names if not (file := Path("results") / f"{name}.json").exists())


def print_summaries(files: Sequence[Path], style: "Format") -> None:
    """Print the tables of results files to stdout. Raises InputError for a file that is none."""
    # pandas takes a quarter of a second to import, and no measuring process should hold it.
    from harness.speedup.file import load
    from reports.speedup.formats import write
    from reports.speedup.summary import summarise

    write([summarise(load(file)) for file in files], style, sys.stdout)


def share(option: str, text: str) -> float:
    """Return the fraction of what an option was given, such as ``0.5%`` or ``0.005``.

    Raises:
        InputError: it is none, or looks like a forgotten per cent sign.
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if not percent and 0.1 <= value < 1:
        raise InputError(
            f"{option} {text!r}: write {number}% or, if it is meant, a fraction below 0.1"
        )
    if not 0 < value < 1:
        raise InputError(f"{option} takes a share such as 0.5% or 0.005, not {text!r}")
    return value
