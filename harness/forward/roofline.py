"""How long a forward takes: what it reads over the bandwidth, or its operations over the rate.

The larger of the two, after Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures" (CACM 2009). An estimate that errs towards short:
kernels do not reach these rates, and their launches on the device, communication between GPUs and
smaller work come on top, so that a real forward is mostly longer and hides more. Two things may
make one shorter than this: experts of which some are chosen more often than others, so that a batch
reads fewer of them than expected, and layers that attend to a window and not to the whole context.
"""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.scenario import SteadyDecode
from stubs.batch import ScheduledRequests

from .specs import BF16, FP8, Gpu, Model

# Bytes of a number in the KV cache.
_KV_BYTES = BF16


@dataclass(frozen=True)
class Work:
    """What one forward has to do.

    Attributes:
        tokens: tokens that go through the layers.
        cached: tokens whose keys and values are read.
        pairs: pairs of a token of the generation phase and one that it attends to.
        rows: tokens for which logits are computed.
        context_pairs: pairs of a token of a context chunk and one that it attends to.
    """

    tokens: int
    cached: int
    pairs: int
    rows: int
    context_pairs: int = 0


@dataclass(frozen=True)
class Bound:
    """What a forward takes on each of the GPUs.

    Attributes:
        bytes: bytes read.
        operations: tensor operations.
        seconds: the larger of the times that these take.
        is_memory: whether it is the bytes that bound it.
    """

    bytes: float
    operations: float
    seconds: float
    is_memory: bool


def steady_work(scenario: SteadyDecode) -> Work:
    """Return the work of the first forward of a steady cell."""
    requests, drafted = scenario.requests, 1 + scenario.draft_tokens
    cached = requests * scenario.tokens
    tokens = requests * drafted
    return Work(tokens=tokens, cached=cached, pairs=cached * drafted, rows=tokens)


def batch_work(batch: ScheduledRequests) -> Work:
    """Return the work of the forward of a batch, context chunks included.

    A chunk of ``c`` tokens after ``p`` computed ones attends to ``c * p + c * (c + 1) / 2`` pairs;
    only its last token needs logits.
    """
    tokens = cached = pairs = rows = context_pairs = 0
    for request in batch.generation_requests:
        drafted = 1 + len(request.py_draft_tokens or ())
        length = request.get_num_tokens(0)
        tokens += drafted
        cached += length
        pairs += length * drafted
        rows += drafted
    for request in batch.context_requests:
        chunk, computed = request.context_chunk_size, request.context_current_position
        tokens += chunk
        cached += computed + chunk
        context_pairs += chunk * computed + chunk * (chunk + 1) // 2
        rows += 1
    return Work(tokens, cached, pairs, rows, context_pairs)


def bound(model: Model, gpu: Gpu, work: Work, gpus: int = 1) -> Bound:
    """Return what a forward takes.

    Args:
        model: the model.
        gpu: what it runs on.
        work: what the forward has to do.
        gpus: so many GPUs share the weights and the operations evenly (tensor parallelism).
    """
    read = _read_weights(model, work) * model.weight_bytes / gpus
    read += work.cached * kv_bytes(model) / _kv_shares(model, gpus)
    operations = _operations(model, work) / gpus
    rate = gpu.fp8 if model.weight_bytes == FP8 else gpu.bf16
    memory, compute = read / gpu.bandwidth, operations / rate
    return Bound(read, operations, max(memory, compute), memory >= compute)


def held_bytes(model: Model, tokens: int, gpus: int = 1) -> float:
    """Return the bytes that each GPU holds: its share of all weights, and the KV cache.

    Args:
        model: the model.
        tokens: tokens in the KV cache.
        gpus: GPUs that share them.
    """
    weights = parameters(model) * model.weight_bytes / gpus
    return weights + tokens * kv_bytes(model) / _kv_shares(model, gpus)


def kv_bytes(model: Model) -> int:
    """Return the bytes that the KV cache holds of a token, in all layers."""
    if model.latent is not None:
        return model.layers * (model.latent.key_value + model.latent.rope) * _KV_BYTES
    return model.layers * 2 * model.kv_heads * model.head_dim * _KV_BYTES


def parameters(model: Model) -> int:
    """Return the number of weights, embedding and output head included; norms are left out."""
    experts = model.experts
    layers = model.layers * attention_weights(model)
    dense = model.layers if experts is None else experts.dense_layers
    layers += dense * 3 * model.hidden * model.intermediate
    if experts is not None:
        each = 3 * model.hidden * experts.width
        routed = experts.count * (each + model.hidden)
        layers += (model.layers - dense) * (routed + experts.shared * each)
    return layers + 2 * model.vocab * model.hidden


def attention_weights(model: Model) -> int:
    """Return the number of weights of one layer's attention."""
    latent = model.latent
    if latent is None:
        heads = 2 * model.heads + 2 * model.kv_heads
        return model.hidden * heads * model.head_dim
    query = model.heads * (latent.nope + latent.rope)
    queries = latent.query * (model.hidden + query) if latent.query else model.hidden * query
    return (
        queries
        + model.hidden * (latent.key_value + latent.rope)
        + latent.key_value * model.heads * (latent.nope + latent.value)
        + model.heads * latent.value * model.hidden
    )


def distinct_experts(count: int, active: int, tokens: int) -> float:
    """Return how many experts of a layer at least one of the tokens goes to, as expected.

    ``count * (1 - (1 - active / count) ** tokens)``: where all are chosen alike, one of them is
    left out by a token with the probability ``1 - active / count``.
    """
    return float(count * (1 - (1 - active / count) ** tokens))


def _read_weights(model: Model, work: Work) -> float:
    """Return how many weights a forward reads.

    Of the embedding it reads a row a token, which is nothing beside the rest; of the experts those
    that a token goes to.
    """
    experts = model.experts
    read: float = model.layers * attention_weights(model) + model.vocab * model.hidden
    dense = model.layers if experts is None else experts.dense_layers
    read += dense * 3 * model.hidden * model.intermediate
    if experts is not None:
        each = 3 * model.hidden * experts.width
        routed = distinct_experts(experts.count, experts.active, work.tokens)
        router = model.hidden * experts.count
        read += (model.layers - dense) * ((routed + experts.shared) * each + router)
    return read


def _operations(model: Model, work: Work) -> float:
    """Return the tensor operations of a forward: two a weight and token, and the attention's."""
    experts, latent = model.experts, model.latent
    weights = model.layers * attention_weights(model)
    dense = model.layers if experts is None else experts.dense_layers
    weights += dense * 3 * model.hidden * model.intermediate
    if experts is not None:
        each = 3 * model.hidden * experts.width
        router = model.hidden * experts.count
        weights += (model.layers - dense) * ((experts.active + experts.shared) * each + router)
    if latent is None:
        pair = context_pair = 2 * model.heads * model.head_dim
    else:
        # Decoding works on the compressed vectors themselves: keys with their positions, then
        # values. A chunk takes them apart first, which is among its weights; that of the chunks
        # before it, which may have to be done again, is left out.
        pair = model.heads * (2 * latent.key_value + latent.rope)
        context_pair = model.heads * (latent.nope + latent.rope + latent.value)
    attention = model.layers * (pair * work.pairs + context_pair * work.context_pairs)
    logits = model.vocab * model.hidden * work.rows
    return float(2 * (weights * work.tokens + attention + logits))


def _kv_shares(model: Model, gpus: int) -> int:
    """Return by how many GPUs the KV cache is shared: a head's part lies whole on each of them."""
    return 1 if model.latent is not None else min(gpus, model.kv_heads)
