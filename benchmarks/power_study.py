"""What the duet finds on this machine and how often it cries wolf, and what its peers do.

Live trials, a line of JSON each, that are added to a file: interrupted or started again, the study
goes on where it was, so that it can grow over days. Then the report and the plot are written from
all trials in the file. Nothing else should run meanwhile.

A round is a grid of twelve cells with the same arm on both sides, through ``stepbench compare``;
a slowdown of 1 % in each cell and some of 0.5 to 5 %; the same beside a process that keeps a core
busy, at half the threshold, and with ``--apart``; and the peers on the same arms. All parts are
spread over the whole time.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import peers
from power_file import Record, add_line, load_trials
from power_report import write_report
from power_trials import DUET, Setting, beside_peers, each_cell, grid, hogged, slowdown

from harness.arms.revision import ROOT
from harness.system.affinity import allowed_cpus
from harness.system.cores import choose_cpus, lock_file
from harness.system.fingerprint import DIGEST, UNKNOWN, machine_fields
from stepbench.interruption import heed_signals
from stepbench.metadata import run_metadata
from stepbench.options import check_provider, cpus_option
from stepbench_core.errors import InputError, NoBaselineError, WorkerError

DOCS = ROOT / "docs"
# What decides a verdict: after a change of it trials begin anew.
_DECIDING = (
    *(f"compare/{name}" for name in ("apart_leader", "apart_worker", "calls", "duet", "figure")),
    *("compare/processes", "compare/verdict", "compare/worker", "stats/estimates", "stats/means"),
    *("system/background", "system/turns", "system/worker_process"),
)

# Name -> (trials a round, what runs one).
PARTS: dict[str, tuple[float, Callable[[Setting, int, int], Record]]] = {
    "a/a grid": (1, grid),
    "1 % in each cell": (12, partial(each_cell, share=0.01)),
    # Of the twelve cells, and of each with both kinds of hog, as many trials in 100 rounds.
    "0.5 % in each cell": (2.4, partial(each_cell, share=0.005)),
    "2 % in each cell": (2.4, partial(each_cell, share=0.02)),
    "5 % in each cell": (2.4, partial(each_cell, share=0.05)),
    "a/a beside a hog": (0.48, partial(hogged, share=0.0)),
    "1 % beside a hog": (0.24, partial(hogged, share=0.01)),
    "a/a grid at 0.25 %": (0.4, partial(grid, threshold=0.0025)),
    "0.5 % at 0.25 %": (1, partial(slowdown, share=0.005, threshold=0.0025)),
    "a/a apart": (1, partial(each_cell, share=0.0, is_apart=True)),
    "3 % apart": (1, partial(each_cell, share=0.03, is_apart=True)),
    "5 % apart": (1, partial(each_cell, share=0.05, is_apart=True)),
    **{
        f"{name}: {label}": (rate, partial(beside_peers, name=name, share=share))
        for name in (DUET, *peers.PEERS)
        for label, rate, share in (("a/a", 0.2, 0.0), ("1 %", 0.2, 0.01), ("5 %", 0.1, 0.05))
    },
}


def schedule(rounds: int) -> list[tuple[str, int]]:
    """Return which part's which trial comes when: each part evenly over the whole study."""
    places = []
    for order, (part, (rate, _)) in enumerate(PARTS.items()):
        total = round(rate * rounds)
        places += [((index + 0.5) / total, order, part, index) for index in range(total)]
    return [(part, index) for _, _, part, index in sorted(places)]


def check_same(trials: Sequence[Record], run: Record) -> None:
    """Raise NoBaselineError if a trial was made on another machine than a run, or differently."""
    for name in ("machine", "python", "provider", "budget", "cpus", "code"):
        others = {trial.get(name) for trial in trials} - {run[name]}
        if others:
            raise NoBaselineError(
                f"the file holds trials of another {name}, {others.pop()} instead of {run[name]}: "
                "give these a file of their own (--trials)"
            )


def run_trials(
    path: Path, rounds: int, setting: Setting, only: Sequence[str], until: float
) -> None:
    """Run what is still missing of so many rounds, until a monotonic time is reached."""
    run = _describe(setting)
    trials = load_trials(path, PARTS)
    check_same(trials, run)
    done = {(trial["part"], trial["index"]) for trial in trials if "failed" not in trial}
    plan = [one for one in schedule(rounds) if not only or one[0] in only]
    missing = [one for one in plan if one not in done and not absent(one[0])]
    if missing:
        add_line(path, run)
    for number, (part, index) in enumerate(missing, 1):
        if time.monotonic() > until:
            setting.progress(f"out of time: {len(missing) - number + 1} trials are missing")
            return
        began, load = time.monotonic(), os.getloadavg()[0]
        seed = zlib.crc32(f"{part} {index}".encode())
        try:
            found = PARTS[part][1](setting, seed, index)
        except (InputError, WorkerError, ValueError) as error:
            # The next call of the study tries it again, and the report says that it failed.
            add_line(path, {"part": part, "index": index, "failed": str(error)})
            setting.progress(f"{number}/{len(missing)} {part} {index}: failed: {error}")
            continue
        spent = round(time.monotonic() - began, 2)
        trial = {"part": part, "index": index, "seconds": spent, "load": round(load, 2), **found}
        add_line(path, trial)
        setting.progress(f"{number}/{len(missing)} {part} {index}: {_told(trial)}")


def _describe(setting: Setting) -> dict[str, Any]:
    metadata = run_metadata(setting.cpu)
    return {
        "machine": metadata.get(DIGEST, UNKNOWN),
        "code": _code(),
        "processor": machine_fields()["cpu_model_name"],
        "cores": len(allowed_cpus()),
        "cpus": ",".join(map(str, setting.cpus)) or "none",
        "python": platform.python_version(),
        "provider": setting.provider,
        "budget": setting.seconds,
        "revision": metadata.get("stepbench_revision", "unknown"),
        "dirty": bool(metadata.get("stepbench_dirty")),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _code() -> str:
    """Return a digest of what decides verdicts."""
    own = [ROOT / "harness" / f"{name}.py" for name in _DECIDING]
    files = [*own, Path(__file__).with_name("power_trials.py")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made: {error.strerror}") from None


def absent(part: str) -> str | None:
    """Return why a part cannot be run here; None if it can."""
    name = part.partition(":")[0]
    return peers.absent(name) if name in peers.PEERS else None


def _told(trial: Record) -> str:
    if "peers" in trial:
        alarms = [one["peer"] for one in trial["peers"] if one["alarm"]]
        return f"alarm from {', '.join(alarms)}" if alarms else "no alarm"
    kinds = [cell["kind"] for cell in trial["cells"]]
    words = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return f"{words}; {trial['seconds']:.0f} s"


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--minutes", type=click.FloatRange(0), help="Stop before the first trial after that.")
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Time budget of a cell, and of a trial of a tool.",
)
@click.option("--only", multiple=True, type=click.Choice(list(PARTS)), help="Only this part.")
@cpus_option
@click.option("--provider", default="auto", show_default=True, help="Where the stand-ins are from.")
@click.option(
    "--trials",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DOCS / "power-study.jsonl",
    help="File of the trials; report and plot lie beside it.  [default: docs/power-study.jsonl]",
)
@click.option("--report-only", is_flag=True, help="Run nothing: write the report and the plot.")
def main(**options: Any) -> None:  # noqa: ANN401
    """Run the study."""
    path: Path = options["trials"]
    if math.isnan(options["seconds"]):
        raise click.UsageError("--seconds takes a number of seconds")
    heed_signals()
    try:
        _make_folder(path.parent)
        with lock_file(path):
            if not options["report_only"]:
                setting = Setting(
                    choose_cpus(options["cpu"]),
                    check_provider(options["provider"]),
                    options["seconds"],
                    lambda words: click.echo(words, err=True),
                )
                minutes = options["minutes"]
                until = float("inf") if minutes is None else time.monotonic() + 60 * minutes
                for name in peers.PEERS:
                    if reason := peers.absent(name):
                        setting.progress(reason)
                run_trials(path, options["rounds"], setting, options["only"], until)
            click.echo(write_report(load_trials(path, PARTS), path))
    except KeyboardInterrupt:
        click.echo("interrupted; the same command goes on from here", err=True)
        sys.exit(130)
    except (InputError, NoBaselineError, WorkerError) as error:
        click.echo(f"power_study: error: {error}", err=True)
        code = {InputError: 2, NoBaselineError: 4, WorkerError: 1}
        sys.exit(next(value for kind, value in code.items() if isinstance(error, kind)))


if __name__ == "__main__":
    main()
