"""A calibration by a clock that the calls themselves move, so that each cost is known."""

import gc
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connector.interfaces import LlmRequestState
from harness.calibrate import calibration
from harness.calibrate.calibration import Cost, calibrate
from stubs.providers import PROVIDERS, Provider, absent, load_provider


class Clock:
    """Nanoseconds that pass where somebody says so; reading it takes 7."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: dict[str, tuple[object, ...]] = {}

    def __call__(self) -> int:
        self.now += 7
        return self.now

    def take(self, nanoseconds: int, name: str, *arguments: object) -> None:
        self.now += nanoseconds
        self.calls[name] = arguments


def make_provider(clock: Clock) -> Provider:
    """Stand-ins of which each call takes a time of its own and returns next to nothing."""

    class Request:
        def __init__(self, request_id: int, tokens: Sequence[int]) -> None:
            self.number, self.tokens = request_id, tokens

        def __getattr__(self, name: str) -> object:
            cost = {"request_id": 41, "kv_cache_retention_config": 43}[name]
            clock.take(cost, name)
            return self.number

        @property
        def state(self) -> None:
            clock.take(42, "state")

        @state.setter
        def state(self, value: LlmRequestState) -> None:
            assert value is LlmRequestState.GENERATION_IN_PROGRESS

        def get_tokens(self, beam: int) -> None:
            clock.take(20 * len(self.tokens), "get_tokens", beam)

        def get_num_tokens(self, beam: int) -> None:
            clock.take(63, "get_num_tokens", beam)

        def get_token(self, beam: int, position: int) -> None:
            clock.take(64, "get_token", beam, position)

        def get_tokens_range(self, beam: int, begin: int, end: int) -> None:
            clock.take(135, "get_tokens_range", beam, begin, end)

    class Manager:
        def __init__(
            self,
            num_blocks: int,
            *,
            tokens_per_block: int,
            rng: random.Random,
            page_backend: str = "list",
        ) -> None:
            assert (tokens_per_block, isinstance(rng, random.Random)) == (32, True)
            self.num_blocks, self.page_cost = num_blocks, {"list": 3, "generator": 30}[page_backend]
            self.held: dict[int, list[int]] = {}
            self.commits = 0

        def resize(self, request: Request, capacity: int) -> None:
            self.held[request.number] = [capacity]
            assert sum(-(-length // 32) for (length, *_) in self.held.values()) <= self.num_blocks

        def update_history(self, request: Request, history: int) -> None:
            self.held[request.number].append(history)

        def pages(self, request: Request) -> int:
            capacity, history = self.held[request.number]
            assert history == capacity - 1 == len(request.tokens) - 1
            return capacity // 32

        def get_page_indices_by_layer_group(self, request: Request) -> None:
            clock.take(self.page_cost * self.pages(request), "pages")

        def get_num_blocks(self, request: Request) -> None:
            clock.take(51, "get_num_blocks", request.number)

        def get_page_indices_range(self, request: Request, begin: int) -> None:
            clock.take(52, "get_page_indices_range", request.number, begin)

        def get_cache_indices(self, request: Request) -> list[int]:
            clock.take(4 * self.pages(request), "get_cache_indices")
            return [1_000 + request.number]

        def commit_and_get_block_hashes(self, request: Request) -> list[int]:
            # The first call, which commits, takes longer.
            new, self.commits = not self.commits, self.commits + 1
            clock.take(5 * self.pages(request) + 9_999 * new, "commit_and_get_block_hashes")
            return [0, 2_000 + request.number]

        def get_priority_by_block_id(self, block: int) -> None:
            clock.take(53, "get_priority_by_block_id", block)

        def get_cache_indices_range(self, request: Request, begin: int) -> None:
            clock.take(54, "get_cache_indices_range", request.number, begin)

        def get_block_hashes_after(self, request: Request, begin: int, last: int) -> None:
            clock.take(55, "get_block_hashes_after", request.number, begin, last)

        def get_batch_updates(self, requests: list[Request], *known: list[int]) -> None:
            clock.take(100 * len(requests) + 64 * len(known), "get_batch_updates", *known)

    return Provider("made-up", "", Request, Manager, Manager)  # type: ignore[arg-type]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock, and few repetitions."""
    monkeypatch.setattr(calibration, "_REPETITIONS", 3)
    monkeypatch.setattr(calibration, "_CALLS_PER_REPETITION", 2)
    return Clock()


def table(sizes: Sequence[int], cost: Callable[[str], float]) -> list[Cost]:
    """Every row that a calibration has, in order."""
    rows: list[Cost] = []

    def add(name: str, unit: str, size: int | None = None) -> None:
        rows.append(Cost(name, unit, size, cost(name)))

    for size in sizes:
        add("get_tokens(0)", "token", size)
    add("get_num_tokens(0)", "call")
    add("get_token(0, pos)", "call")
    add("get_tokens_range(0, n - 1, n)", "call")
    add("request_id", "call")
    add("state", "call")
    add("kv_cache_retention_config", "call")
    for size in sizes:
        for backend in ("list", "generator"):
            name = f"V2 get_page_indices_by_layer_group(request), {backend} backend"
            add(name, "page index", size // 32)
    add("V2 get_num_blocks(request)", "call")
    add("V2 get_page_indices_range(request, n)", "call")
    add("V2 get_batch_updates, 64 requests", "request")
    for size in sizes:
        add("V1 get_cache_indices(request)", "page index", size // 32)
        add("V1 commit_and_get_block_hashes(request)", "hash", size // 32)
    add("V1 get_priority_by_block_id(block)", "call")
    add("V1 get_cache_indices_range(request, n)", "call")
    add("V1 get_block_hashes_after(request, n, last)", "call")
    add("V1 get_batch_updates, 64 requests", "request")
    return rows


COSTS = {
    "get_tokens(0)": 20,
    "get_num_tokens(0)": 63,
    "get_token(0, pos)": 64,
    "get_tokens_range(0, n - 1, n)": 135,
    "request_id": 41,
    "state": 42,
    "kv_cache_retention_config": 43,
    "V2 get_page_indices_by_layer_group(request), list backend": 3,
    "V2 get_page_indices_by_layer_group(request), generator backend": 30,
    "V2 get_num_blocks(request)": 51,
    "V2 get_page_indices_range(request, n)": 52,
    # For each of 64 requests 100, and 64 for each of two lists, or of four.
    "V2 get_batch_updates, 64 requests": 102,
    "V1 get_cache_indices(request)": 4,
    "V1 commit_and_get_block_hashes(request)": 5,
    "V1 get_priority_by_block_id(block)": 53,
    "V1 get_cache_indices_range(request, n)": 54,
    "V1 get_block_hashes_after(request, n, last)": 55,
    "V1 get_batch_updates, 64 requests": 104,
}


def test_each_call_has_its_cost_per_value_or_call(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    # Nothing is hidden by a median; committing the hashes is done before.
    monkeypatch.setattr(calibration, "_REPETITIONS", 1)
    sizes = (64, 256)
    costs = calibrate(make_provider(clock), clock=clock, lengths=sizes)
    assert costs == table(sizes, COSTS.__getitem__)


def test_the_calls_are_those_of_a_steady_iteration(clock: Clock):
    calibrate(make_provider(clock), clock=clock, lengths=(64,))

    # A request of 8,192 tokens in 256 blocks, all of them known but for the last token.
    assert clock.calls["get_token"] == (0, 8_191)
    assert clock.calls["get_tokens_range"] == (0, 8_191, 8_192)
    assert clock.calls["get_page_indices_range"] == (0, 256)
    assert clock.calls["get_cache_indices_range"] == (0, 256)
    assert clock.calls["get_priority_by_block_id"] == (1_000,)
    assert clock.calls["get_block_hashes_after"] == (0, 256, 2_000)
    tokens, pages, hashes, last = clock.calls["get_batch_updates"]
    assert (tokens, pages, hashes) == ([8_191] * 64, [256] * 64, [256] * 64)
    assert last == list(range(2_000, 2_064))


def test_what_an_empty_call_costs_is_taken_off(clock: Clock, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calibration, "_nothing", lambda: clock.take(42, "nothing"))
    found = {
        cost.call: cost.nanoseconds
        for cost in calibrate(make_provider(clock), clock=clock, lengths=(64,))
    }
    assert found["get_tokens(0)"] == 20 - 42 / 64
    assert found["get_num_tokens(0)"] == 63 - 42
    assert found["state"] == 0
    # Nothing takes less than no time.
    assert found["request_id"] == 0


@pytest.mark.parametrize(
    ("extra", "cost"),
    [
        ([900, 0, 800], 63 + 400),  # The calls of a repetition share what one of them takes more.
        ([900, 0, 0], 63),
        ([0, 0, 0], 63),
    ],
)
def test_the_median_over_repetitions_counts(clock: Clock, extra: list[int], cost: float):
    provider = make_provider(clock)
    later = iter([value for one in extra for value in (one, 0)])

    def get_num_tokens(_request: object, _beam: int) -> None:
        clock.take(63 + next(later), "")

    provider.LlmRequest.get_num_tokens = get_num_tokens  # type: ignore[assignment,method-assign]
    costs = calibrate(provider, clock=clock, lengths=())
    assert costs[0] == Cost("get_num_tokens(0)", "call", None, cost)
    assert next(later, None) is None


def test_a_repetition_copies_about_as_many_tokens_whatever_the_length(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calibration, "_CALLS_PER_REPETITION", 1_000)
    counted: list[int] = []
    provider = make_provider(clock)
    provider.LlmRequest.get_tokens = (  # type: ignore[method-assign]
        lambda request, _beam: counted.append(len(request.tokens))  # type: ignore[attr-defined]
    )
    calibrate(provider, clock=clock, lengths=(128, 65_536, 131_072, 262_144))
    assert [counted.count(size) / 3 for size in (128, 65_536, 131_072, 262_144)] == [1_000, 2, 1, 1]


@pytest.fixture
def collector() -> Iterator[None]:
    """Leaves the collector as it was."""
    before = gc.isenabled()
    yield
    (gc.enable if before else gc.disable)()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_off_meanwhile_and_then_as_before(
    clock: Clock, enabled: bool, fails: bool
):
    seen = []
    provider = make_provider(clock)

    def get_token(*_: object) -> None:
        seen.append(gc.isenabled())
        if fails:
            raise ZeroDivisionError

    provider.LlmRequest.get_token = get_token  # type: ignore[assignment,method-assign]
    (gc.enable if enabled else gc.disable)()
    if fails:
        with pytest.raises(ZeroDivisionError):
            calibrate(provider, clock=clock, lengths=())
    else:
        calibrate(provider, clock=clock, lengths=())
    assert gc.isenabled() is enabled
    assert set(seen) == {False}


def present(name: str) -> str:
    reason = absent(name)
    if reason is not None:
        pytest.skip(reason)
    return name


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_call_of_the_table_is_there_for_each_provider(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(calibration, "_CALLS_PER_REPETITION", 1)
    costs = calibrate(load_provider(present(name)), clock=clock, lengths=(32, 96))
    # Calls that do not move the clock cost nothing: what it takes to read it is taken off.
    assert costs == table((32, 96), lambda _: 0)


# What the worker is given to run, so that it is quick, prints, and says where it ran.
WORKER = """
import os, sys
from pathlib import Path
from harness.calibrate import calibration, worker as calibration_worker
from harness.system import serving

def calibrate(provider, *, lengths):
    print("noise")
    cores = sorted(os.sched_getaffinity(0))
    Path(sys.argv[1]).write_text(f"{provider.name} {lengths} {cores}")
    return calibration.calibrate(provider, lengths=lengths)

calibration._REPETITIONS = calibration._CALLS_PER_REPETITION = 1
calibration_worker.calibrate = calibrate
serving.serve(calibration_worker.measure)
"""


@pytest.mark.parametrize(("name", "pinned"), [("python", True), ("nanobind", False)])
def test_a_worker_answers_a_job_with_costs(tmp_path: Path, name: str, pinned: bool):
    cores = sorted(os.sched_getaffinity(0))
    job = {"provider": present(name), "cpu": cores[-1] if pinned else None, "lengths": [64]}

    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path / "seen")],
        input=json.dumps(job),
        cwd=Path(calibration.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "seen").read_text() == f"{name} [64] {cores[-1:] if pinned else cores}"
    costs = [Cost(**cost) for cost in json.loads(done.stdout)]
    assert [(cost.call, cost.unit, cost.size) for cost in costs] == [
        (cost.call, cost.unit, cost.size) for cost in table((64,), lambda _: 0)
    ]
    assert all(cost.nanoseconds >= 0 for cost in costs)
