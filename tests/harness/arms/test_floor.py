import pytest

from harness.arms.registry import create_arm
from scenarios.scenario import SteadyDecode
from scenarios.workload import create_workload
from stubs.kv_cache_v2 import LayerGroup


@pytest.mark.parametrize(
    "settings",
    [{"manager": "v1"}, {}, {"layer_groups": (LayerGroup(), LayerGroup(window=8))}],
)
def test_the_floor_builds_the_same_output_out_of_fresh_lists(settings: dict[str, object]):
    scenario = SteadyDecode(requests=3, tokens=20, tokens_per_block=4, **settings)
    workload = create_workload(scenario, 12, "0")
    floor, reference = create_arm("floor"), create_arm("full-copy")
    for _ in range(12):
        workload.advance()
        state = workload.batch, workload.async_requests, workload.manager
        floor.prepare(*state)
        output, again = floor.build_scheduler_output(*state), floor.build_scheduler_output(*state)

        assert output == again == reference.build_scheduler_output(*state)
        for data in output.cached_requests:
            data.new_tokens.append(-1)
            data.new_block_ids.append(-1)
            data.block_hashes.append(-1)
            for indices in data.new_block_ids_by_layer_group:
                indices.append(-1)
        assert floor.build_scheduler_output(*state) == again
