"""The products of a synthetic forward, against the roofline of the same model."""

from dataclasses import replace

import pytest

from harness.forward.roofline import Work, bound, steady_work
from harness.forward.specs import BF16, GPUS, MODELS, Model
from harness.forward.synthetic import Product, head_product, layer_products, layers_that_fit
from scenarios.scenario import SteadyDecode


def total(model: Model, scenario: SteadyDecode) -> tuple[int, int]:
    """Return the bytes and the operations of a whole forward."""
    sizes = scenario.requests, scenario.tokens, scenario.draft_tokens
    layer = layer_products(model, *sizes)
    head = head_product(model, scenario.requests, scenario.draft_tokens)
    return (
        model.layers * sum(product.bytes for product in layer) + head.bytes,
        model.layers * sum(product.operations for product in layer) + head.operations,
    )


def test_a_product():
    # Three times a 2 x 5 by a 5 x 7 matrix.
    product = Product(3, 2, 5, 7)

    assert (product.bytes, product.operations) == (3 * 5 * 7 * 2, 2 * 3 * 2 * 5 * 7)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b", "qwen2.5-7b"])
@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_a_forward_reads_and_computes_what_the_roofline_counts(name: str, draft_tokens: int):
    scenario = SteadyDecode(requests=16, tokens=1_000, draft_tokens=draft_tokens)

    counted = bound(MODELS[name], GPUS["h200"], steady_work(scenario))

    assert total(MODELS[name], scenario) == (counted.bytes, counted.operations)


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "deepseek-v3"])
def test_a_latent_cache_is_read_twice_but_for_its_positions(name: str):
    model = replace(MODELS[name], experts=None, weight_bytes=BF16)
    scenario = SteadyDecode(requests=16, tokens=1_000)

    counted = bound(model, GPUS["h200"], steady_work(scenario))
    read, operations = total(model, scenario)

    # The values once more: 512 numbers of two bytes for each token and layer.
    assert read == counted.bytes + 16_000 * model.layers * 512 * 2
    assert operations == counted.operations


def test_experts_are_those_that_a_batch_is_expected_to_reach():
    model = MODELS["deepseek-v2-lite"]
    scenario = SteadyDecode(requests=64, tokens=10)
    of_layer = [product for product in layer_products(model, 64, 10) if product.count > 1]

    # 64 * (1 - (1 - 6 / 64) ** 64) = 63.88: all 64, with six tokens each.
    experts = [product for product in of_layer if 1_408 in (product.k, product.n // 2)]
    assert experts == [Product(64, 6, 2_048, 2_816), Product(64, 6, 1_408, 2_048)]
    # All layers have experts here; in the model the first has an MLP.
    layers = replace(model, experts=replace(model.experts, dense_layers=0))  # type: ignore[type-var]
    counted = bound(layers, GPUS["h200"], steady_work(scenario))
    read, _ = total(model, scenario)
    assert read == pytest.approx(counted.bytes, rel=0.01)


def test_one_token_goes_to_its_own_experts_alone():
    products = layer_products(MODELS["deepseek-v3"], 1, 10)

    assert Product(8, 1, 7_168, 4_096) in products
    assert bound(MODELS["deepseek-v3"], GPUS["h200"], Work(1, 10, 10, 1)).bytes > 0


def test_layers_that_fit():
    layer = [Product(1, 1, 10, 10), Product(1, 1, 10, 40)]  # 1,000 bytes.

    assert layers_that_fit(layer, 80, 3_999.0) == 3
    assert layers_that_fit(layer, 2, 3_999.0) == 2
    assert layers_that_fit(layer, 2, 999.0) == 0
    assert layers_that_fit(layer, 2, -999.0) == 0
