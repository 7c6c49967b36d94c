"""Models and GPUs as the roofline needs them, each figure with its public source.

Models: the ``config.json`` of each on huggingface.co, under the names below; for Llama 3.1 also
``models/llama3_1/api/sku_list.py`` of meta-llama/llama-models, for DeepSeek also
``inference/model.py`` of deepseek-ai/DeepSeek-V3, whose defaults are the Lite model's.

GPUs: the vendor's datasheets, that is what it promises and no measurement. They give tensor rates
with 2:4 sparsity; the dense rates here are half of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepbench_core.errors import unknown

BF16, FP8 = 2, 1  # Bytes of a weight.


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: what is cached of a token is one vector for all heads.

    Attributes:
        key_value: its compressed keys and values (``kv_lora_rank``).
        rope: its part with positions (``qk_rope_head_dim``).
        query: the queries' compressed dimension (``q_lora_rank``); 0 where they are not.
        nope: a head's key without positions (``qk_nope_head_dim``).
        value: a head's value (``v_head_dim``).
    """

    key_value: int
    rope: int
    query: int
    nope: int
    value: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the MLP, in all layers but the first ones.

    Attributes:
        dense_layers: layers at the start that have an MLP (``first_k_dense_replace``).
        count: routed experts of a layer (``n_routed_experts``).
        active: those that a token goes to (``num_experts_per_tok``).
        shared: those that every token goes to (``n_shared_experts``).
        width: intermediate dimension of an expert (``moe_intermediate_size``).
    """

    dense_layers: int
    count: int
    active: int
    shared: int
    width: int


@dataclass(frozen=True)
class Model:
    """The shape of a decoder-only transformer with gated MLPs.

    Attributes:
        source: its name on huggingface.co.
        layers, hidden, heads, head_dim, intermediate, vocab: as in its ``config.json``.
        kv_heads: heads of keys and values, each shared by a group of query heads.
        longest: positions that it was made for (``max_position_embeddings``).
        weight_bytes: bytes of a weight as it was published.
        latent: its latent attention; None for attention in groups of heads.
        experts: its experts; None for an MLP in every layer.
    """

    source: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    longest: int
    weight_bytes: int = BF16
    latent: Latent | None = None
    experts: Experts | None = None


@dataclass(frozen=True)
class Gpu:
    """What a datasheet says of a GPU.

    Attributes:
        title: its name.
        memory: bytes.
        bandwidth: bytes a second from that memory.
        bf16, fp8: dense tensor operations a second; a multiplication and an addition are two.
    """

    title: str
    memory: float
    bandwidth: float
    bf16: float
    fp8: float


MODELS: Mapping[str, Model] = {
    "llama-3.1-8b": Model(
        source="meta-llama/Llama-3.1-8B",
        layers=32,
        hidden=4_096,
        heads=32,
        kv_heads=8,
        head_dim=128,
        intermediate=14_336,
        vocab=128_256,
        longest=131_072,
    ),
    "llama-3.1-70b": Model(
        source="meta-llama/Llama-3.1-70B",
        layers=80,
        hidden=8_192,
        heads=64,
        kv_heads=8,
        head_dim=128,
        intermediate=28_672,
        vocab=128_256,
        longest=131_072,
    ),
    # Seven query heads to one of keys and values: less than half the cache of Llama 3.1 8B.
    "qwen2.5-7b": Model(
        source="Qwen/Qwen2.5-7B",
        layers=28,
        hidden=3_584,
        heads=28,
        kv_heads=4,
        head_dim=128,
        intermediate=18_944,
        vocab=152_064,
        longest=131_072,
    ),
    "deepseek-v2-lite": Model(
        source="deepseek-ai/DeepSeek-V2-Lite",
        layers=27,
        hidden=2_048,
        heads=16,
        kv_heads=16,
        head_dim=128,
        intermediate=10_944,
        vocab=102_400,
        longest=163_840,
        latent=Latent(key_value=512, rope=64, query=0, nope=128, value=128),
        experts=Experts(dense_layers=1, count=64, active=6, shared=2, width=1_408),
    ),
    # Published in FP8.
    "deepseek-v3": Model(
        source="deepseek-ai/DeepSeek-V3",
        layers=61,
        hidden=7_168,
        heads=128,
        kv_heads=128,
        head_dim=128,
        intermediate=18_432,
        vocab=129_280,
        longest=163_840,
        weight_bytes=FP8,
        latent=Latent(key_value=512, rope=64, query=1_536, nope=128, value=128),
        experts=Experts(dense_layers=3, count=256, active=8, shared=1, width=2_048),
    ),
}

GPUS: Mapping[str, Gpu] = {
    # NVIDIA H100 Tensor Core GPU datasheet, SXM: 80 GB, 3.35 TB/s, 1,979 and 3,958 TFLOPS.
    "h100": Gpu(title="H100 SXM", memory=80e9, bandwidth=3.35e12, bf16=989.5e12, fp8=1_979e12),
    # NVIDIA H200 Tensor Core GPU datasheet, SXM: 141 GB, 4.8 TB/s, 1,979 and 3,958 TFLOPS.
    "h200": Gpu(title="H200 SXM", memory=141e9, bandwidth=4.8e12, bf16=989.5e12, fp8=1_979e12),
    # NVIDIA DGX B200 datasheet, for eight: 1,440 GB, 64 TB/s, 72 PFLOPS FP8; BF16 is half of that.
    "b200": Gpu(title="B200 SXM", memory=180e9, bandwidth=8e12, bf16=2_250e12, fp8=4_500e12),
}


def find_model(name: str) -> Model:
    """Return a model by its name here. Raises InputError, with the nearest name."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    return MODELS[name]


def find_gpu(name: str) -> Gpu:
    """Return a GPU by its name here. Raises InputError, with the nearest name."""
    if name not in GPUS:
        raise unknown("GPU", name, GPUS)
    return GPUS[name]
