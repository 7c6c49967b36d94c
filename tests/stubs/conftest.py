import random

import pytest

from stubs.providers import PROVIDERS, Provider, absent, load_provider


@pytest.fixture
def rng():
    return random.Random(7)


AT_HAND = [name for name in PROVIDERS if absent(name) is None]


@pytest.fixture(scope="session", params=AT_HAND)
def provider(request: pytest.FixtureRequest) -> Provider:
    """Each provider at hand: what uses this holds for all of them.

    An absent one is one skip, with its reason, in test_providers.py.
    """
    return load_provider(request.param)
