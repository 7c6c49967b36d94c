"""Where the time of a forward comes from, and which forwards cannot be."""

import pytest

from harness.forward.forward_time import ForwardTime
from harness.forward.roofline import bound, steady_work
from harness.forward.specs import GPUS, MODELS
from scenarios.scenario import SteadyDecode, TraceReplay
from scenarios.workload import create_workload
from stepbench_core.errors import InputError
from stubs.batch import ScheduledRequests

CELL = SteadyDecode(requests=64, tokens=2_048)
TRACE = TraceReplay(path="/x.csv")
ROOFLINE = ForwardTime(model="llama-3.1-8b", gpu="h100")


def test_a_given_time_holds_for_every_batch():
    given = ForwardTime(0.004)

    assert given.of_batch(ScheduledRequests()) == 0.004
    assert given.describe() == "4 ms, as given"
    assert given.bound_by(CELL) is given.share_of_memory(CELL) is given.unrealistic(CELL) is None
    assert ForwardTime(0.0).of_batch(ScheduledRequests()) == 0.0


def test_a_roofline_is_that_of_the_batch():
    cell = SteadyDecode(requests=3, tokens=100)
    workload = create_workload(cell, 3, "0", "python")
    workload.advance()

    expected = bound(
        MODELS["llama-3.1-8b"], GPUS["h100"], steady_work(SteadyDecode(requests=3, tokens=101))
    )
    assert ROOFLINE.of_batch(workload.batch) == expected.seconds
    assert "meta-llama/Llama-3.1-8B (BF16 weights, BF16 KV cache) on H100 SXM" in (
        ROOFLINE.describe()
    )
    assert ROOFLINE.describe().endswith(
        "an estimate that errs towards short, but for experts that are chosen unevenly and for "
        "layers with a window"
    )


def test_several_gpus_are_quicker_and_are_named():
    cell = SteadyDecode(requests=1, tokens=8)
    workload = create_workload(cell, 3, "0", "python")
    workload.advance()
    eight = ForwardTime(model="deepseek-v3", gpu="h200", gpus=8)

    one = ForwardTime(model="deepseek-v3", gpu="h200").of_batch(workload.batch)
    assert one / 8 < eight.of_batch(workload.batch) < one / 7.9
    assert "deepseek-ai/DeepSeek-V3 (FP8 weights, BF16 KV cache) on 8 x H200 SXM" in (
        eight.describe()
    )


def test_what_is_measured_is_the_device_s_affair():
    measured = ForwardTime(model="llama-3.1-8b")

    assert measured.of_batch(ScheduledRequests()) == 0.0
    assert measured.describe().startswith("measured, a synthetic decode forward of the shape of ")


def test_what_bounds_a_cell():
    assert ROOFLINE.bound_by(CELL) == "memory"
    # So many draft tokens to so short a context that the operations take longer.
    assert ROOFLINE.bound_by(SteadyDecode(requests=64, tokens=8, draft_tokens=15)) == "compute"
    assert ROOFLINE.bound_by(TRACE) is None


def test_a_cell_that_does_not_fit_the_memory_is_not_realistic():
    large = SteadyDecode(requests=64, tokens=8_192)

    # (16,059,990,016 + 131,072 tokens of 131,072 bytes) / 80e9, and four times the tokens.
    assert ROOFLINE.share_of_memory(CELL) == pytest.approx(0.4155, abs=1e-4)
    assert ROOFLINE.unrealistic(CELL) is None
    assert ROOFLINE.unrealistic(large) == "weights and KV cache take 85 GB of the 80 GB"
    assert ForwardTime(model="llama-3.1-8b", gpu="h200").unrealistic(large) is None
    two = ForwardTime(model="llama-3.1-70b", gpu="h100", gpus=2)
    assert two.unrealistic(CELL) == "weights and KV cache take 92 GB of the 80 GB each"


def test_a_context_beyond_the_model_s_positions_is_not_realistic():
    beyond = SteadyDecode(requests=1, tokens=131_073)

    for forward in (ROOFLINE, ForwardTime(model="llama-3.1-8b")):
        assert forward.unrealistic(beyond) == "llama-3.1-8b was made for 131,072 positions"
    assert ROOFLINE.unrealistic(TRACE) is ROOFLINE.share_of_memory(TRACE) is None


def test_it_survives_a_file():
    for forward in (
        ForwardTime(0.1),
        ROOFLINE,
        ForwardTime(model="deepseek-v3", gpu="b200", gpus=8),
    ):
        assert ForwardTime(**forward.to_dict()) == forward


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="unknown model"):
        ForwardTime(model="gpt")
    with pytest.raises(InputError, match="unknown GPU"):
        ForwardTime(model="llama-3.1-8b", gpu="a")
