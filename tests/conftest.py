"""What holds for all tests."""

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Examples are checked for what they give, never for how long they take.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def no_repository_around_temporary_folders(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """They may lie inside this project's clone, which git would take for theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
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
