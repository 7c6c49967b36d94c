"""The roofline against figures computed by hand."""

import pytest

from connector.interfaces import LlmRequestState
from harness.forward.roofline import (
    Work,
    attention_weights,
    batch_work,
    bound,
    distinct_experts,
    held_bytes,
    kv_bytes,
    parameters,
    steady_work,
)
from harness.forward.specs import FP8, GPUS, MODELS, find_gpu, find_model
from scenarios.scenario import SteadyDecode
from stepbench_core.errors import InputError
from stubs.batch import ScheduledRequests
from stubs.request import LlmRequest

LLAMA = MODELS["llama-3.1-8b"]
V3 = MODELS["deepseek-v3"]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        # 8,030,261,248 published, less 65 norms of 4,096.
        ("llama-3.1-8b", 8_029_995_008),
        # 70,553,706,496 published, less 161 norms of 8,192.
        ("llama-3.1-70b", 70_552_387_584),
        # 28 * (29,360,128 + 203,685,888) + 2 * 152,064 * 3,584; published as 7.61 billion.
        ("qwen2.5-7b", 7_615_283_200),
        # 61 * 187,105,280 + 3 * 396,361,728 + 58 * 11,320,164,352 + 2 * 129,280 * 7,168;
        # published as 671 billion.
        ("deepseek-v3", 671_025_397_760),
    ],
)
def test_the_number_of_weights_is_the_published_one(name: str, count: int):
    assert parameters(find_model(name)) == count


def test_the_lite_model_has_its_published_size():
    # 15.7 billion.
    assert 15.65e9 < parameters(find_model("deepseek-v2-lite")) < 15.75e9


def test_attention_weights():
    # Queries and output 4,096 * 32 * 128 each, keys and values 4,096 * 8 * 128 each.
    assert attention_weights(LLAMA) == 2 * 16_777_216 + 2 * 4_194_304
    # 7,168 * 1,536 + 1,536 * 128 * 192; 7,168 * 576; 512 * 128 * 256; 128 * 128 * 7,168.
    assert attention_weights(V3) == 11_010_048 + 37_748_736 + 4_128_768 + 16_777_216 + 117_440_512
    # Without compressed queries: 2,048 * 16 * 192; 2,048 * 576; 512 * 16 * 256; 16 * 128 * 2,048.
    lite = MODELS["deepseek-v2-lite"]
    assert attention_weights(lite) == 6_291_456 + 1_179_648 + 2_097_152 + 4_194_304


def test_bytes_of_a_token_in_the_kv_cache():
    # 32 layers * 2 * 8 heads * 128 * 2 bytes, and so on.
    assert kv_bytes(LLAMA) == 131_072
    assert kv_bytes(MODELS["llama-3.1-70b"]) == 327_680
    assert kv_bytes(MODELS["qwen2.5-7b"]) == 57_344
    # 61 layers * (512 + 64) * 2 bytes.
    assert kv_bytes(V3) == 70_272
    assert kv_bytes(MODELS["deepseek-v2-lite"]) == 31_104


def test_a_decode_bound_by_memory():
    work = steady_work(SteadyDecode(requests=64, tokens=2_048))
    assert work == Work(64, 131_072, 131_072, 64)

    found = bound(LLAMA, GPUS["h100"], work)

    # Weights without the embedding: 32 * (41,943,040 + 176,160,768) + 128,256 * 4,096.
    weights = 7_504_658_432
    assert found.bytes == 2 * weights + 131_072 * 131_072 == 32_189_186_048
    # 64 tokens through 6,979,321,856 weights, 131,072 pairs of 32 * 2 * 4,096, 64 rows of logits.
    macs = 64 * 6_979_321_856 + 131_072 * 262_144 + 64 * 525_336_576
    assert found.operations == 2 * macs == 1_029_315_756_032
    assert found.is_memory
    # 32,189,186,048 / 3.35e12.
    assert found.seconds == pytest.approx(9.60871e-3, rel=1e-5)


def test_a_context_chunk_bound_by_computation():
    # A prompt of 8,192 tokens at once: 8,192 * 8,193 / 2 pairs, one row of logits.
    work = Work(8_192, 8_192, 0, 1, context_pairs=33_558_528)

    found = bound(LLAMA, GPUS["h200"], work)

    macs = 8_192 * 6_979_321_856 + 33_558_528 * 262_144 + 525_336_576
    assert found.operations == 2 * macs
    assert not found.is_memory
    # 131,944,... / 989.5e12: about 0.13 s.
    assert found.seconds == pytest.approx(2 * macs / 989.5e12)
    assert 0.13 < found.seconds < 0.14


def test_draft_tokens_are_computed_with_the_last_one():
    work = steady_work(SteadyDecode(requests=2, tokens=100, draft_tokens=3))

    # The cache is read once, and each of four tokens attends to all of it.
    assert work == Work(8, 200, 800, 8)


def test_experts_that_at_least_one_token_goes_to():
    assert distinct_experts(256, 8, 1) == pytest.approx(8)
    # 256 * (1 - (31/32) ** 2) = 256 * 63 / 1,024.
    assert distinct_experts(256, 8, 2) == pytest.approx(15.75)
    # Of many tokens, all.
    assert distinct_experts(64, 6, 1_000) == pytest.approx(64)


def test_a_mixture_of_experts_in_fp8():
    one, many = (bound(V3, GPUS["h200"], Work(count, 0, 0, count)) for count in (1, 64))

    # Per layer 187,105,280 of attention; 3 MLPs of 396,361,728; 58 times 8 + 1 experts of
    # 44,040,192 and a router of 1,835,008; the head 129,280 * 7,168. A byte each.
    layers = 61 * 187_105_280 + 3 * 396_361_728
    assert V3.weight_bytes == FP8
    assert one.bytes == layers + 58 * (9 * 44_040_192 + 1_835_008) + 926_679_040
    # Active weights: published as 37 billion with the embedding.
    assert 35.5e9 < one.bytes < 37e9
    chosen = 256 * (1 - (31 / 32) ** 64)
    assert many.bytes == pytest.approx(
        layers + 58 * ((chosen + 1) * 44_040_192 + 1_835_008) + 926_679_040
    )
    # Each token goes through as many as one alone does.
    assert many.operations == 64 * one.operations == 64 * 2 * one.bytes


def test_weights_in_fp8_are_multiplied_at_that_rate():
    found = bound(V3, GPUS["h200"], Work(100_000, 0, 0, 0))

    assert not found.is_memory
    assert found.seconds == found.operations / 1_979e12


def test_pairs_of_a_latent_attention():
    def operations(pairs: int, context_pairs: int) -> float:
        return bound(V3, GPUS["b200"], Work(1, 0, pairs, 0, context_pairs)).operations

    without = operations(0, 0)

    # A pair costs in 61 layers and 128 heads 512 + 64 for the score and 512 for the value.
    assert operations(1, 0) - without == 2 * 61 * 128 * (576 + 512)
    # In a context chunk 128 + 64 for the score and 128 for the value, of vectors taken apart.
    assert operations(0, 1) - without == 2 * 61 * 128 * (192 + 128)
    # Of attention in groups both cost the same.
    one, other = (bound(LLAMA, GPUS["h100"], Work(1, 0, *each)) for each in ((1, 0, 0), (0, 0, 1)))
    assert one == other


def test_gpus_share_weights_and_operations_but_a_head_lies_whole_on_one_of_them():
    work = Work(1, 1_000, 1_000, 1)
    weights = bound(LLAMA, GPUS["h100"], Work(1, 0, 0, 1)).bytes

    def read(model: str, gpus: int) -> float:
        return bound(MODELS[model], GPUS["h100"], work, gpus).bytes

    assert read("llama-3.1-8b", 8) == weights / 8 + 1_000 * 131_072 / 8
    # There are eight heads of keys and values.
    assert read("llama-3.1-8b", 16) == weights / 16 + 1_000 * 131_072 / 8
    own = bound(V3, GPUS["h100"], Work(1, 0, 0, 1)).bytes
    assert read("deepseek-v3", 8) == own / 8 + 1_000 * 70_272
    alone, shared = (bound(LLAMA, GPUS["h100"], work, gpus) for gpus in (1, 4))
    assert shared.operations == alone.operations / 4


def test_what_is_held():
    # 8,029,995,008 weights of two bytes, 64 * 8,192 tokens of 131,072 bytes.
    assert held_bytes(LLAMA, 64 * 8_192) == 16_059_990_016 + 68_719_476_736
    assert held_bytes(LLAMA, 1_000, 4) == 4_014_997_504 + 1_000 * 131_072 / 4


def test_the_work_of_a_mixed_batch():
    generating = LlmRequest(0, [1] * 10)
    generating.state = LlmRequestState.GENERATION_IN_PROGRESS
    drafting = LlmRequest(1, [1] * 20)
    drafting.state = LlmRequestState.GENERATION_IN_PROGRESS
    drafting.py_draft_tokens = [7, 8]
    prefilling = LlmRequest(2, [1] * 100)
    prefilling.context_current_position = 32
    prefilling.context_chunk_size = 4
    batch = ScheduledRequests(generation_requests=[generating, drafting])
    batch.reset_context_requests([prefilling])

    # 1 + 3 + 4 tokens; caches of 10, 20 and 36; pairs 10 + 60, and 4 * 32 + 1 + 2 + 3 + 4.
    assert batch_work(batch) == Work(tokens=8, cached=66, pairs=70, rows=5, context_pairs=138)


def test_datasheets():
    # Dense rates: half of what the datasheets give with sparsity.
    assert (GPUS["h100"].bf16, GPUS["h100"].fp8) == (1_979e12 / 2, 3_958e12 / 2)
    assert (GPUS["h200"].memory, GPUS["h200"].bandwidth) == (141e9, 4.8e12)
    # An eighth of DGX B200.
    assert (GPUS["b200"].memory, GPUS["b200"].bandwidth) == (1_440e9 / 8, 64e12 / 8)
    assert GPUS["b200"].fp8 == 72e15 / 8 / 2


def test_what_is_unknown_is_refused_with_the_nearest():
    with pytest.raises(
        InputError, match=r"unknown model 'llama-3.1-8': did you mean 'llama-3.1-8b"
    ):
        find_model("llama-3.1-8")
    with pytest.raises(InputError, match="unknown GPU 'tpu': known: h100, h200, b200"):
        find_gpu("tpu")
