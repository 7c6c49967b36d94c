from types import ModuleType

import pytest

from .driving import ARMS, MANAGERS, Arm, Manager


@pytest.fixture(params=ARMS.values(), ids=list(ARMS))
def module(request: pytest.FixtureRequest) -> ModuleType:
    """The module of each arm in turn."""
    return request.param


@pytest.fixture
def arm(module: ModuleType) -> Arm:
    """Each arm in turn, with no request seen."""
    return module.KvCacheConnectorSchedulerOutputManager()


@pytest.fixture(params=MANAGERS.values(), ids=list(MANAGERS))
def manager(request: pytest.FixtureRequest) -> Manager:
    """Each KV cache manager in turn, with blocks of four tokens."""
    return request.param()
