"""A synthetic decode forward of a model's shape: the matrix products that it is made of.

Each has the shape of the model's own and reads as many bytes; what they multiply is random, and
none waits for another's values. Left out is what costs little beside them: norms, activations,
softmax, rotation, sampling. Where a kernel of a real engine reads the KV cache once for keys and
values of a latent attention, two products read it twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .roofline import distinct_experts
from .specs import BF16, Latent, Model


@dataclass(frozen=True)
class Product:
    """``count`` products at once of an ``m x k`` by a ``k x n`` matrix.

    The second matrices are the weights or the KV cache, of which each layer has its own.
    """

    count: int
    m: int
    k: int
    n: int

    @property
    def bytes(self) -> int:
        """Bytes of the second matrices."""
        return self.count * self.k * self.n * BF16

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.count * self.m * self.k * self.n


def layer_products(
    model: Model, requests: int, tokens: int, draft_tokens: int = 0
) -> list[Product]:
    """Return the products of one layer; of a mixture of experts, of a layer that has them.

    Args:
        model: the model.
        requests: requests in the batch.
        tokens: tokens in the KV cache of each.
        draft_tokens: draft tokens of each, computed together with its last token.
    """
    rows = requests * (1 + draft_tokens)
    if model.latent is None:
        products = _grouped_attention(model, requests, tokens, rows)
    else:
        products = _latent_attention(model, model.latent, requests, tokens, rows)
    return products + _feed_forward(model, rows)


def head_product(model: Model, requests: int, draft_tokens: int = 0) -> Product:
    """Return the product that gives the logits."""
    return Product(1, requests * (1 + draft_tokens), model.hidden, model.vocab)


def layers_that_fit(products: Sequence[Product], layers: int, available: float) -> int:
    """Return how many layers can have matrices of their own; the others use them in turn.

    Even two are so large that no cache holds them until they are needed again. 0: not one fits.

    Args:
        products: those of a layer.
        layers: layers of the model.
        available: bytes of memory.
    """
    return max(0, min(layers, int(available // sum(product.bytes for product in products))))


def _grouped_attention(model: Model, requests: int, tokens: int, rows: int) -> list[Product]:
    size, groups = model.head_dim, requests * model.kv_heads
    queries = rows // requests * model.heads // model.kv_heads
    return [
        Product(1, rows, model.hidden, (model.heads + 2 * model.kv_heads) * size),
        Product(groups, queries, size, tokens),
        Product(groups, queries, tokens, size),
        Product(1, rows, model.heads * size, model.hidden),
    ]


def _latent_attention(
    model: Model, latent: Latent, requests: int, tokens: int, rows: int
) -> list[Product]:
    query = model.heads * (latent.nope + latent.rope)
    queries = [Product(1, rows, model.hidden, query)]
    if latent.query:
        queries = [
            Product(1, rows, model.hidden, latent.query),
            Product(1, rows, latent.query, query),
        ]
    heads = rows // requests * model.heads
    return [
        *queries,
        Product(1, rows, model.hidden, latent.key_value + latent.rope),
        Product(model.heads, rows, latent.nope, latent.key_value),
        Product(requests, heads, latent.key_value + latent.rope, tokens),
        Product(requests, heads, tokens, latent.key_value),
        Product(model.heads, rows, latent.key_value, latent.value),
        Product(1, rows, model.heads * latent.value, model.hidden),
    ]


def _feed_forward(model: Model, rows: int) -> list[Product]:
    experts = model.experts
    if experts is None:
        return [
            Product(1, rows, model.hidden, 2 * model.intermediate),
            Product(1, rows, model.intermediate, model.hidden),
        ]
    chosen = round(distinct_experts(experts.count, experts.active, rows))
    of_each = math.ceil(rows * experts.active / chosen)
    shared = experts.shared * experts.width
    return [
        Product(1, rows, model.hidden, experts.count),
        Product(chosen, of_each, model.hidden, 2 * experts.width),
        Product(chosen, of_each, experts.width, model.hidden),
        Product(1, rows, model.hidden, 2 * shared),
        Product(1, rows, shared, model.hidden),
    ]
