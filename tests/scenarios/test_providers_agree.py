"""The same random runs and workloads on every provider: the same outputs of every arm."""

import itertools
from pathlib import Path

import pytest

from connector import (
    batched,
    full_copy,
    incremental,
    native_output,
    page_growth,
    page_range,
)
from connector.data import SchedulerOutput
from scenarios.operations import Episode, random_run
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import create_workload
from scenarios.world import World
from stubs.kv_cache_v2 import LayerGroup
from stubs.providers import PROVIDERS, ProviderError, absent

ARMS = (full_copy, incremental, page_growth, page_range, batched, native_output)
# Those at hand, but for the one that they are held against.
OTHERS = [name for name in PROVIDERS if name != "python" and absent(name) is None]
ON_EACH = pytest.mark.parametrize("other", OTHERS)


def play(episode: Episode, provider: str) -> list[list[SchedulerOutput]]:
    """Return what each arm reported, a list for each report."""
    dp = episode.setting.attention_dp
    arms = [
        module.KvCacheConnectorSchedulerOutputManager(enable_attention_dp=dp) for module in ARMS
    ]
    world = World(episode.setting, arms, provider)
    reports = []
    for operation in episode.operations:
        if world.apply(operation):
            read = world.batch, world.async_requests, world.manager
            reports.append([arm.build_scheduler_output(*read) for arm in arms])
            world.finish_iteration()
    return reports


@ON_EACH
def test_random_runs_give_the_same_outputs(other: str):
    reports = 0
    for run in range(40):
        for episode in random_run(4, run):
            expected = play(episode, "python")
            assert play(episode, other) == expected
            for outputs in expected:
                assert all(output == outputs[0] for output in outputs)
            reports += len(expected)
    assert reports > 2000


@ON_EACH
@pytest.mark.parametrize(
    "settings",
    [
        {"manager": "v1"},
        {"manager": "v2", "page_backend": "list"},
        {"manager": "v2", "page_backend": "generator", "boundaries": "staggered"},
        {"layer_groups": (LayerGroup(), LayerGroup(window=40, sink_tokens=5))},
        {"draft_tokens": 3, "overlap": True},
    ],
)
def test_steady_decode_is_the_same(other: str, settings: dict[str, object]):
    scenario = SteadyDecode(requests=3, tokens=100, tokens_per_block=8, **settings)
    outputs = []
    for provider in ("python", other):
        workload = create_workload(scenario, 30, "seed", provider)
        arm = incremental.KvCacheConnectorSchedulerOutputManager()
        outputs.append([])
        for _ in range(30):
            workload.advance()
            read = workload.batch, workload.async_requests, workload.manager
            outputs[-1].append(arm.build_scheduler_output(*read))
    assert outputs[1] == outputs[0]
    blocks = [data.new_block_ids_by_layer_group for data in outputs[0][0].cached_requests]
    assert scenario.manager == "v1" or list(itertools.chain.from_iterable(blocks)) != []


@ON_EACH
def test_a_trace_is_replayed_the_same(other: str, tmp_path: Path):
    trace = tmp_path / "trace.csv"
    rows = [f"2023-11-16 18:15:46.68059{n % 10},{20 + n % 37},{5 + n % 11}" for n in range(200)]
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    scenario = TraceReplay(path=str(trace), max_batch=6, max_num_tokens=64, tokens_per_block=8)
    outputs = []
    for provider in ("python", other):
        workload = create_workload(scenario, 40, "seed", provider)
        arm = full_copy.KvCacheConnectorSchedulerOutputManager()
        outputs.append([])
        for _ in range(40):
            workload.advance()
            read = workload.batch, workload.async_requests, workload.manager
            outputs[-1].append(arm.build_scheduler_output(*read))
    assert outputs[1] == outputs[0]
    assert sum(len(output.new_requests) for output in outputs[0]) > 6


def test_an_absent_provider_is_an_error():
    scenario = SteadyDecode(requests=1, tokens=8)
    episode = random_run(4, 0)[0]
    for make in (
        lambda: create_workload(scenario, 1, "0", "cython"),
        lambda: World(episode.setting, [], "cython"),
    ):
        with pytest.raises(ProviderError, match="there is no provider 'cython'"):
            make()
