"""Shared by the tests of the scenarios."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test fails for being slow, whatever else the machine is doing.
settings.register_profile("scenarios", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("scenarios")

WriteTrace = Callable[[Iterable[tuple[int, int]]], str]


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Return a function that writes (prompt, output) pairs as a trace and returns its path."""

    def write(rows: Iterable[tuple[int, int]]) -> str:
        path = tmp_path / "trace.csv"
        lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
        lines += [f"2023-11-16 18:15:46,{prompt},{output}" for prompt, output in rows]
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    return write
