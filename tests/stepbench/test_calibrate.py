"""``stepbench calibrate`` through its entry point: made-up costs, and one real worker."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyperf
import pytest

from harness.calibrate.calibration import LENGTHS, Cost
from harness.speedup.plan import Protocol
from harness.system.cores import lock_cpu
from harness.system.worker_process import WorkerError, run_child
from scenarios.scenario import SteadyDecode
from stepbench import calibrate
from stepbench_core.errors import InputError
from stubs import providers

from .conftest import Run, assert_refused

QUIET = ("--cpu", "none", "-q")
NO_TABLE = (*QUIET, "--no-table")


class Workers:
    """Stands in for real workers: a token costs 10 in the first process, 11 in the second, ..."""

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.seeds: list[int] = []
        self.what: list[str] = []
        self.answers: dict[str, str | WorkerError] = {}

    def __call__(self, what: str, command: list[str], seed: int, text: str, timeout: float) -> str:
        assert (command[0], command[-1]) == (sys.executable, "harness.calibrate.worker")
        assert timeout > 0
        self.what.append(what)
        self.seeds.append(seed)
        self.jobs.append(json.loads(text))
        answer = self.answers.get(what)
        if isinstance(answer, WorkerError):
            raise answer
        own = [job for job in self.jobs if job["provider"] == self.jobs[-1]["provider"]]
        costs = [
            Cost("get_tokens(0)", "token", 256, 9.0 + len(own)),
            Cost("get_num_tokens(0)", "call", None, 60.0),
        ]
        return json.dumps([asdict(cost) for cost in costs]) if answer is None else answer


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    workers = Workers()
    monkeypatch.setattr(calibrate, "run_child", workers)
    return workers


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """Why each provider is absent, None for one that is there: all but the engine."""
    reasons: dict[str, str | None] = {"python": None, "nanobind": None, "tensorrt_llm": "is not"}
    really = providers.absent
    for module in (providers, calibrate):
        monkeypatch.setattr(
            module, "absent", lambda name: reasons[name] if name in reasons else really(name)
        )
    # None is imported here; it is the workers that need them.
    own = providers._import_classes("python")
    monkeypatch.setattr(providers, "_import_classes", lambda _name: own)
    return reasons


@pytest.mark.usefixtures("there")
def test_the_providers_that_are_there_take_turns(run_here: Run, workers: Workers):
    ran = run_here("calibrate", *NO_TABLE)

    assert (ran.code, ran.err) == (0, "")
    # Three processes each, the order turned round in every second one.
    assert [job["provider"] for job in workers.jobs] == [
        *("python", "nanobind"),
        *("nanobind", "python"),
        *("python", "nanobind"),
    ]
    assert workers.what[2:4] == ["provider nanobind, process 2", "provider python, process 2"]
    assert {job["cpu"] for job in workers.jobs} == {None}
    assert {tuple(job["lengths"]) for job in workers.jobs} == {LENGTHS}
    # The same hash seeds for each of them, and another in each process.
    assert workers.seeds[:2] == [workers.seeds[0]] * 2
    assert len(set(workers.seeds)) == 3
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("there", "workers")
def test_the_table(run_here: Run):
    ran = run_here("calibrate", *NO_TABLE, "--providers", "nanobind, python")

    parts = ran.out.rstrip().split("\n\n")
    assert parts[1].splitlines()[2:] == [
        "| get_tokens(0) | token | 256 | 11.0 (10.0 to 12.0) | 11.0 (10.0 to 12.0) | about 19.5; "
        "through nanobind 11.4 to 12.6, at 131,072 tokens 23 |",
        "| get_num_tokens(0) | call |  | 60.0 (60.0 to 60.0) | 60.0 (60.0 to 60.0) | 63 through "
        "nanobind |",
    ]
    assert parts[1].startswith("| Call | Per | Size | nanobind | python | Published |\n")
    assert re.fullmatch(
        r"Python \d\.\d+\.\d+, host \S+, not pinned, processes of each provider: 3\. Repeat with "
        r"`stepbench calibrate --cpu none -q --no-table --providers 'nanobind, python'`\.",
        parts[-1],
    )
    assert len(parts) == 4


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize("option", [("--json",), ("--format", "json")])
def test_json_is_one_document_and_nothing_else(
    run_here: Run, workers: Workers, option: tuple[str, ...]
):
    arguments = ("--providers", "python", "--processes", "2", *NO_TABLE, *option)
    ran = run_here("calibrate", *arguments)

    assert (ran.code, ran.err) == (0, "")
    document = json.loads(ran.out)
    assert document["costs"] == [
        {
            "provider": "python",
            "call": "get_tokens(0)",
            "unit": "token",
            "size": 256,
            "nanoseconds": [10.0, 11.0],
        },
        {
            "provider": "python",
            "call": "get_num_tokens(0)",
            "unit": "call",
            "size": None,
            "nanoseconds": [60.0, 60.0],
        },
    ]
    assert document["speedups"] == []
    assert "processes of each provider: 2." in document["where"]
    assert len(workers.jobs) == 2


@pytest.mark.usefixtures("there")
def test_a_core_is_the_workers_and_locked_meanwhile(
    run_here: Run, workers: Workers, monkeypatch: pytest.MonkeyPatch
):
    core = min(os.sched_getaffinity(0))

    def run(*job: Any) -> str:  # noqa: ANN401
        with pytest.raises(InputError, match="is being measured on"), lock_cpu(core):
            pass
        return workers(*job)

    monkeypatch.setattr(calibrate, "run_child", run)
    arguments = ("--providers", "python", "--processes", "1", "--no-table", "-q")
    ran = run_here("calibrate", *arguments, "--cpu", f"{core}")

    assert ran.code == 0
    assert f", pinned to core {core}, " in ran.out
    assert [job["cpu"] for job in workers.jobs] == [core]
    with lock_cpu(core):
        assert core in os.sched_getaffinity(0)


@pytest.mark.usefixtures("there", "workers")
def test_progress_is_shown_on_a_terminal(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # As on a terminal.
    ran = run_here("calibrate", "--cpu", "none", "--no-table", "--providers", "python")
    assert ran.code == 0
    assert "processes" in ran.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--providers", "cython"), "no provider 'cython': choose from python, nanobind, tensorrt"),
        (("--providers", "python,tensorrt_llm"), "the provider tensorrt_llm is absent: is not"),
        (("--providers", "python,nanobind,python"), "one is named twice"),
        (("--providers", "nanobind,auto"), "one is named twice"),  # The same here.
        (("--providers", "python,,nanobind"), "an entry is empty"),
        (("--providers", ""), "an entry is empty"),
        (("--processes", "0"), "--processes"),
        (("--cpu", "x"), "--cpu takes a core number or 'none'"),
        (("--format", "csv"), "'csv'"),
        (("--json", "--format", "markdown"), "--json contradicts --format markdown"),
    ],
)
@pytest.mark.usefixtures("there")
def test_bad_input_is_refused(
    run_here: Run, workers: Workers, arguments: tuple[str, ...], text: str
):
    assert_refused(run_here("calibrate", "--no-table", *arguments), text)
    assert workers.jobs == []
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (WorkerError("provider python, process 2: the worker hung"), "the worker hung\n"),
        ("", "provider python, process 2: the worker returned no result: "),
        ("[{}]", "provider python, process 2: the worker returned no result: "),
        ("[1]", "provider python, process 2: the worker returned no result: "),
        ("1", "provider python, process 2: the worker returned no result: "),
    ],
)
@pytest.mark.usefixtures("there")
def test_a_worker_that_fails_ends_it(
    run_here: Run, workers: Workers, answer: str | WorkerError, text: str
):
    workers.answers["provider python, process 2"] = answer

    ran = run_here("calibrate", *QUIET)

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("stepbench: ")
    assert ran.err.count("\n") == 1
    assert text in ran.err
    assert len(workers.jobs) == 4
    assert list(Path().iterdir()) == []


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch):
    """Makes the reference cells one tiny cell, measured in one short process an arm."""
    asked: list[str] = []
    cell = SteadyDecode(requests=1, tokens=8)
    monkeypatch.setattr(calibrate, "find_scenarios", lambda name: (asked.append(name), (cell,))[1])
    monkeypatch.setattr(calibrate, "QUICK", Protocol(processes=1, warmups=1, rounds=1, samples=3))
    return asked


def metadata(file: Path) -> Mapping[str, object]:
    (benchmark, *_) = pyperf.BenchmarkSuite.load(str(file)).get_benchmarks()
    return benchmark.get_metadata()  # type: ignore[no-any-return]


@pytest.mark.usefixtures("workers")
def test_the_speedups_are_measured_on_each_provider(run_here: Run, tiny: list[str]):
    names = [name for name in ("python", "nanobind") if providers.absent(name) is None]

    ran = run_here("calibrate", *QUIET, "--providers", ",".join(names), "--json")

    assert (ran.code, ran.err) == (0, "")
    assert set(tiny) == {"reference"}
    tables = json.loads(ran.out)["speedups"]
    assert [table["provider"] for table in tables] == names
    for name, table in zip(names, tables, strict=True):
        assert (table["arms"], [c["cell"] for c in table["cells"]]) == (
            ["full-copy", "incremental"],
            ["v2-1x8"],
        )
        assert table["cells"][0]["processes"] == {"full-copy": 1, "incremental": 1}
        assert f"stand-ins: provider {name}; " in table["provenance"]
        # What was measured is kept, and says that the arms did the same.
        (file,) = Path("results").glob(f"calibrate-{name}-*.json")
        assert str(file) == table["file"]
        assert metadata(file)["stepbench_verified_runs"] == 20


@pytest.mark.usefixtures("workers", "tiny")
def test_the_speedups_stand_below_the_costs(run_here: Run):
    ran = run_here("calibrate", *QUIET, "--providers", "python")
    parts = ran.out.split("\n\n")
    assert parts[4] == "The speedup table on each of them:"
    assert parts[5].splitlines()[0] == (
        "| Requests | Tokens per request | python: full-copy | incremental "
        "| Speedup (95 % interval) |"
    )
    assert parts[5].splitlines()[2].startswith("| 1 | 8 | ")
    assert "stand-ins: provider python; " in parts[-1]


@pytest.mark.usefixtures("workers", "tiny")
def test_a_measuring_worker_that_fails_ends_it(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    error = WorkerError("cell v2-1x8, full-copy, process 1: the worker exited with 3")
    monkeypatch.setattr(calibrate, "measure", lambda *_: [error])

    ran = run_here("calibrate", *QUIET, "--providers", "python")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"stepbench: {error}\n"


# The real worker with the fewest repetitions.
WORKER = (
    "from harness.calibrate import calibration, worker as calibration_worker;"
    "from harness.system import serving;"
    "calibration._REPETITIONS = calibration._CALLS_PER_REPETITION = 1;"
    "serving.serve(calibration_worker.measure)"
)


def test_a_real_worker_gives_all_costs(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    seen = []

    def run(what: str, command: list[str], *rest: Any) -> str:  # noqa: ANN401
        seen.append(command)
        return run_child(what, [*command[:-2], "-c", WORKER], *rest)

    monkeypatch.setattr(calibrate, "run_child", run)
    arguments = ("--providers", "python", "--processes", "1", "--no-table", "-q", "--json")
    ran = run_here("calibrate", *arguments, "--cpu", "none")

    assert (ran.code, ran.err) == (0, "")
    assert seen == [[sys.executable, "-P", "-m", "harness.calibrate.worker"]]
    costs = json.loads(ran.out)["costs"]
    # One size of get_tokens, the pages of two backends, pages and hashes of V1, each of 7 lengths.
    assert len(costs) == 7 * (1 + 2 + 2) + 6 + 3 + 4
    assert {cost["unit"] for cost in costs} == {"token", "page index", "hash", "request", "call"}
    assert [len(cost["nanoseconds"]) for cost in costs] == [1] * len(costs)


def test_a_worker_that_dies_is_named(run_here: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        calibrate,
        "run_child",
        lambda what, _command, *rest: run_child(what, [sys.executable, "-c", "exit(3)"], *rest),
    )
    ran = run_here("calibrate", "--providers", "python", *NO_TABLE)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "stepbench: provider python, process 1: the worker exited with 3\n"
