"""What holds for the tests of exact work."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def small_heap() -> Iterator[None]:
    """Leave what other tests have imported out of collections, which counting memory asks for."""
    gc.freeze()
    yield
    gc.unfreeze()
