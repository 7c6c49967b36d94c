"""The peers: what the usual tools say of two arms that our own duet compares.

Each is used as its users would, in its own processes: a run of A is the baseline, and a run of B is
compared with it. All time the same call as we do, on the same cell, core and time. What differs is
what the tools' defaults are, and stays: the collector runs under pyperf and pytest-benchmark, and
not under asv. ``power_study.py`` beside this file counts their alarms.

    python benchmarks/peers.py --a incremental --b incremental
    python benchmarks/peers.py --cell v2-16x8192 --a incremental --b file:slower.py --seconds 20
    python benchmarks/peers.py --peer asv --cpu 1 --json

pytest-benchmark and asv are in the dependency group ``study``; one that is not installed is left
out with a line on stderr. Exit codes: 0 done, alarm or not; 1 a tool failed; 2 bad input; 4 a git
revision lacks its arm.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import peers_asv
import peers_pyperf
import peers_pytest
from peers_trial import PeerTrial, Trial, check

from stepbench_core.errors import InputError, NoBaselineError, WorkerError, unknown

__all__ = ["PEERS", "PeerTrial", "Trial", "absent", "main"]

# What runs a trial, by the tool's name. Each reads the one run that it makes by several rules.
PEERS: Mapping[str, Callable[[Trial], list[PeerTrial]]] = {
    "pyperf": peers_pyperf.compare_arms,
    "pytest-benchmark": peers_pytest.compare_arms,
    "asv": peers_asv.compare_arms,
}


def absent(peer: str) -> str | None:
    """Return why a peer cannot be asked here and how to get it, in one line; None if it can.

    Raises:
        InputError: there is no such peer.
    """
    if peer not in PEERS:
        raise unknown("peer", peer, PEERS)
    if importlib.util.find_spec(peer.replace("-", "_")) is None:
        return f"{peer} is not installed: nox -s power_study has it, or pip install {peer}"
    if peer == "asv" and shutil.which("git") is None:
        return "asv takes the arms from a git repository, and git is not on the path"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one trial of each peer, print what they say and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        trials = _run(options)
    except (InputError, NoBaselineError, WorkerError) as error:
        print(f"peers: {error}", file=sys.stderr)
        return {InputError: 2, NoBaselineError: 4, WorkerError: 1}[type(error)]
    except KeyboardInterrupt:
        print("peers: interrupted", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps([asdict(trial) for trial in trials], indent=2))
    else:
        print("\n".join(map(_line, trials)))
    return 0


def _run(options: argparse.Namespace) -> list[PeerTrial]:
    trials: list[PeerTrial] = []
    missing = {peer: absent(peer) for peer in options.peer or PEERS}
    for left_out in filter(None, missing.values()):
        if options.peer:
            raise InputError(left_out)
        print(f"peers: left out: {left_out}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        trial = Trial(
            options.cell, options.a, options.b, options.seconds, options.cpu, Path(folder)
        )
        check(trial)
        for peer, reason in missing.items():
            if reason is None:
                print(f"{peer}: about {trial.seconds:g} s ...", file=sys.stderr, flush=True)
                trials += PEERS[peer](trial)
    return trials


def _line(trial: PeerTrial) -> str:
    word = "alarm" if trial.alarm else "-"
    percent = {name: 100 * (ratio - 1) for name, ratio in trial.ratios.items()}
    ratios = "  ".join(f"{name} {value:+6.2f} %" for name, value in percent.items())
    return f"{trial.peer:<28} {word:<5}  {ratios}  {trial.seconds:5.1f} s"


def _parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python benchmarks/peers.py",
        description=summary,
        epilog=rest,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cell", default="v2-64x2048", help="a scenario's name (%(default)s)")
    parser.add_argument("--a", default="incremental", help="the baseline (%(default)s)")
    parser.add_argument("--b", default="incremental", help="compared with it (%(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=10, help="for A and B together (%(default)s)"
    )
    parser.add_argument("--cpu", type=int, help="the core that all is pinned to (none)")
    parser.add_argument("--peer", action="append", help="one of them; can be given again (all)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


if __name__ == "__main__":
    sys.exit(main())
