"""The plan as a results file holds it: whatever is read has to be one that can be carried out."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from harness.system.documents import expected
from scenarios.scenario import from_dict
from stepbench_core.errors import InputError
from stubs.providers import PROVIDERS

from .plan import MAX_COUNT, Plan, Protocol

_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_COUNT)]


class _Protocol(msgspec.Struct, forbid_unknown_fields=True):
    processes: _Count
    warmups: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
    rounds: _Count
    samples: _Count


class _Plan(msgspec.Struct, forbid_unknown_fields=True):
    scenarios: list[dict[str, Any]]
    arms: tuple[str, ...]
    protocol: _Protocol
    seed: int
    cpu: int | None
    gc: bool
    command: str
    provider: str
    # Files of before do not say.
    sources: dict[str, str] = {}
    precision: Annotated[float, msgspec.Meta(gt=0, lt=1e9)] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, lt=1e9)] = 0.0

    def plan(self) -> Plan:
        """Return the plan.

        Raises:
            InputError: a cell is none.
            ValueError: a name is there twice, or the provider is none.
        """
        scenarios = tuple(map(from_dict, self.scenarios))
        if len(set(self.arms)) < len(self.arms) or len(set(scenarios)) < len(scenarios):
            raise ValueError("an arm or a cell is named twice")
        if self.provider not in PROVIDERS:
            raise ValueError(f"there is no provider {self.provider!r}")
        values = msgspec.structs.asdict(self) | {
            "scenarios": scenarios,
            "protocol": Protocol(**msgspec.structs.asdict(self.protocol)),
        }
        return Plan(**values)


def read_plan(text: str) -> Plan:
    """Return the plan that ``Plan.to_json`` wrote. Raises InputError if it is none."""
    try:
        return msgspec.json.decode(text, type=_Plan).plan()
    except msgspec.ValidationError as error:
        why = expected(error)
    except (ValueError, RecursionError) as error:
        why = str(error)
    raise InputError(f"not a plan of this version: {why}")
