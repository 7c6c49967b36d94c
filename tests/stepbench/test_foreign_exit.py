"""Code that ends the process is a finding, never a pass."""

import pytest

from .conftest import Run


@pytest.mark.parametrize(
    "command", [["verify", "incremental", "--run", "0", "--jobs", "1"], ["count"]]
)
def test_an_arm_that_calls_sys_exit_is_no_pass(
    run_here: Run, monkeypatch: pytest.MonkeyPatch, command: list[str]
):
    def leave(*_: object, **_named: object) -> object:
        raise SystemExit(0)

    monkeypatch.setattr(
        "connector.incremental.KvCacheConnectorSchedulerOutputManager.__init__", leave
    )
    cells = ["--cells", "1x8", "--arms", "incremental"] if command == ["count"] else []

    ran = run_here(*command, *cells, "-q")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "stepbench: error: something called sys.exit(0): no result\n"
