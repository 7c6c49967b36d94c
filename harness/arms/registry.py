"""The arms: implementations that can take part in a measurement."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from connector.data import SchedulerOutput
from connector.interfaces import LlmRequest
from stepbench_core.errors import InputError, described, unknown
from stubs.batch import AsyncRequests, ScheduledRequests
from stubs.kv_cache_v1 import KVCacheManager
from stubs.kv_cache_v2 import KVCacheManagerV2

from .variables import split_list, split_variables

# Name -> module. The module's class KvCacheConnectorSchedulerOutputManager is the arm. Each is a
# step further down from the first to the floor.
ARMS = {
    "full-copy": "connector.full_copy",
    "incremental": "connector.incremental",
    "page-growth": "connector.page_growth",
    "page-range": "connector.page_range",
    "batched": "connector.batched",
    "native-output": "connector.native_output",
}
REFERENCE = "full-copy"
FLOOR = "floor"

_MODULES = ARMS | {FLOOR: "harness.arms.floor"}

# How the name of an arm begins that says where its source is.
KINDS = ("git", "file", "trtllm")


class SchedulerOutputManager(Protocol):
    """What every arm offers, under upstream's names."""

    def build_scheduler_output(
        self,
        scheduled_batch: ScheduledRequests,
        new_async_requests: AsyncRequests,
        kv_cache_manager: KVCacheManager | KVCacheManagerV2,
    ) -> SchedulerOutput:
        """Return what the connector is told about this iteration."""

    def record_new_matched_tokens(self, request: LlmRequest, num_new_matched_tokens: int) -> None:
        """Note how many prompt tokens the connector will load."""

    def reset_request(self, request_id: int) -> None:
        """Forget a request."""


# Makes a fresh instance of an arm, with attention data parallelism on or off.
ArmFactory = Callable[[bool], SchedulerOutputManager]


@dataclass(frozen=True)
class RegisteredArm:
    """Makes fresh instances of an arm of this project. Can be sent to another process."""

    name: str

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        """Return an instance that has seen no request."""
        return create_arm(self.name, attention_dp=attention_dp)

    @property
    def file(self) -> str | None:
        """The file of its module; None where that is not known."""
        name = _MODULES.get(self.name, "")
        if name in sys.modules:
            return getattr(sys.modules[name], "__file__", None)
        found = importlib.util.find_spec(name) if name else None
        return None if found is None else found.origin


@dataclass(frozen=True)
class ArmFromFile:
    """Makes fresh instances of an arm that a file's function ``create(name, attention_dp)`` makes.

    Can be sent to another process, which loads the file as well.
    """

    path: Path
    name: str

    def __call__(self, attention_dp: bool) -> SchedulerOutputManager:
        """Return an instance that has seen no request."""
        return cast(SchedulerOutputManager, load_file(self.path).create(self.name, attention_dp))


def as_factories(arms: Sequence[str] | Mapping[str, ArmFactory]) -> dict[str, ArmFactory]:
    """Return what makes each arm, by name: of this project where there are names alone."""
    return dict(arms) if isinstance(arms, Mapping) else {name: RegisteredArm(name) for name in arms}


def is_foreign(spec: str) -> bool:
    """Return whether a specification names an arm by where its source is, or with variables."""
    try:
        variables, rest = split_variables(spec)
    except InputError:
        return False
    kind, colon, _ = rest.partition(":")
    return bool(variables) or (bool(colon) and kind in KINDS)


def split_arms(text: str) -> tuple[str, ...]:
    """Return the arms of a list such as ``full-copy,incremental``; ``all`` means the whole ladder.

    Arms that are named by where their source is are not looked at. A comma within quotes is part
    of the value of an arm's own variable.

    Raises:
        InputError: an arm is unknown, named twice or empty.
    """
    if text.strip() == "all":
        return (*ARMS, FLOOR)
    names = tuple(split_list(text))
    if not all(names):
        raise InputError(f"arms {text!r}: an entry is empty")
    check_arms(names)
    return names


def check_arms(names: Sequence[str], *, floor: bool = True, foreign: bool = True) -> None:
    """Raise InputError unless ``names`` are one or more different arms.

    Args:
        names: names of arms.
        floor: whether the floor, which is none, may be among them.
        foreign: whether those may be that are named by where their source is.
    """
    known = list(_MODULES if floor else ARMS)
    if not names:
        raise InputError("no arm is named")
    for index, name in enumerate(names):
        variables, rest = split_variables(name)
        if variables and not is_foreign(rest) and rest not in ARMS:
            raise unknown("arm", rest, ARMS)
        if is_foreign(name):
            if not foreign:
                raise InputError(f"arm {name!r}: only arms of this project can be named here")
        elif name not in known:
            raise unknown("arm", name, known)
        if name in names[:index]:
            raise InputError(f"arm {name!r} is named twice")


def create_arm(name: str, *, attention_dp: bool = False) -> SchedulerOutputManager:
    """Return a fresh instance of an arm, which has seen no request. Raises InputError."""
    check_arms([name])
    try:
        module = importlib.import_module(_MODULES[name])
    except (Exception, SystemExit) as error:  # Whoever works on it can write anything.
        words = f"arm {name}: cannot be imported: {described(error)}"
        raise InputError(words) from error
    manager = module.KvCacheConnectorSchedulerOutputManager(
        enable_attention_dp=attention_dp, attention_dp_rank=rank(attention_dp)
    )
    return cast(SchedulerOutputManager, manager)


def rank(attention_dp: bool) -> int | None:
    """Return the rank under attention data parallelism: any, but the same for all arms."""
    return 3 if attention_dp else None


def describe_arm(name: str) -> str:
    """Return the first line of an arm's docstring, without the words that name it."""
    doc = importlib.import_module(_MODULES[name]).__doc__ or ""
    line = doc.partition("\n")[0]
    return line.partition(": ")[2] or line


def load_file(path: Path) -> ModuleType:
    """Return the module of a Python file, loaded once a process.

    Raises:
        InputError: the file is none, or cannot be imported.
    """
    path = path.resolve()
    name = f"_stepbench_file_{path}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise InputError(f"{path}: not a Python file")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # Foreign code can raise anything.
            del sys.modules[name]
            raise InputError(f"{path}: cannot be imported: {error!r}") from error
    return sys.modules[name]
