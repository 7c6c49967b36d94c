import dataclasses

from connector.data import RequestData, SchedulerOutput


def test_request_data_has_upstreams_fields_in_upstreams_order():
    assert [field.name for field in dataclasses.fields(RequestData)] == [
        "request_id",
        "new_tokens",
        "new_block_ids",
        "computed_position",
        "num_scheduled_tokens",
        "block_hashes",
        "priorities",
        "cache_salt",
        "new_block_ids_by_layer_group",
    ]


def test_request_data_defaults():
    data = RequestData(1, [2], [3], 4, 5)
    assert data == RequestData(1, [2], [3], 4, 5, [], None, None, [])


def test_scheduler_output_has_upstreams_fields_and_is_empty_at_first():
    assert [field.name for field in dataclasses.fields(SchedulerOutput)] == [
        "new_requests",
        "cached_requests",
        "attention_dp_rank",
    ]
    assert SchedulerOutput() == SchedulerOutput([], [], None)


def test_default_lists_are_not_shared():
    first, second = RequestData(1, [], [], 0, 0), RequestData(1, [], [], 0, 0)
    first.block_hashes.append(1)
    first.new_block_ids_by_layer_group.append([1])
    assert (second.block_hashes, second.new_block_ids_by_layer_group) == ([], [])
    output, other = SchedulerOutput(), SchedulerOutput()
    output.new_requests.append(first)
    output.cached_requests.append(first)
    assert other == SchedulerOutput()


def test_each_field_counts_when_outputs_are_compared():
    data = RequestData(1, [2], [3], 4, 5, [6], [7], "salt", [[8]])
    for field in dataclasses.fields(RequestData):
        assert dataclasses.replace(data, **{field.name: "other"}) != data
