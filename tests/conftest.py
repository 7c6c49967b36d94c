"""What holds for all tests."""

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

from harness.system import cores

# Examples are checked for what they give, never for how long they take.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=200)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="run the tests that take long, on more examples"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("thorough" if config.getoption("--thorough") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for."""
    if config.getoption("--thorough"):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session", autouse=True)
def no_repository_around_temporary_folders(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """They may lie inside this project's clone, which git would take for theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
        yield


@pytest.fixture(scope="session", autouse=True)
def locks_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What other processes of the tests measure at the same time keeps no core from this one."""
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(cores, "_LOCKS", folder / "stepbench-locks")
        yield


# Those that tests send, to this process or to a command.
SENT = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """However the tests are started: ``&`` and pytest-xdist have some ignored.

    Commands that tests start would ignore them as well. Those of ``nohup`` go on to be.
    """
    before = {number: signal.getsignal(number) for number in SENT}
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def signals_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command that runs in this process does of signals ends with the test."""
    before = {number: signal.getsignal(number) for number in SENT}
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
