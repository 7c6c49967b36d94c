import pytest

from connector import log


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_seen", set())


def test_a_warning_is_logged_once_a_key(caplog: pytest.LogCaptureFixture):
    log.warning_once("first", key="a")
    log.warning_once("second", key="a")
    log.warning_once("third", key="b")
    assert caplog.record_tuples == [
        ("stepbench.connector", 30, "first"),
        ("stepbench.connector", 30, "third"),
    ]
