"""Where the native side of a measurement comes from."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .kv_cache_v1 import KVCacheManager
from .kv_cache_v2 import KVCacheManagerV2
from .request import LlmRequest

DEFAULT_PROVIDER = "python"
# The best provider at hand that stands in for the bindings.
AUTO = "auto"

# What each provider is, by its name.
PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "python": "stand-ins in Python over C arrays",
        "nanobind": "stand-ins in C++ behind a nanobind binding, as the engine's are",
        "tensorrt_llm": "the engine's own requests, with managers in Python",
    }
)


class ProviderError(LookupError):
    """There is no such provider, or it is absent. The message is one line."""


@dataclass(frozen=True)
class Provider:
    """The classes that play the native side. Those of one provider belong together.

    Attributes:
        name: its name.
        summary: what it is, in one line.
        LlmRequest: the request; ``stubs/request.py`` has its interface.
        KVCacheManager: the V1 manager.
        KVCacheManagerV2: the V2 manager.
    """

    name: str
    summary: str
    LlmRequest: type[LlmRequest]
    KVCacheManager: type[KVCacheManager]
    KVCacheManagerV2: type[KVCacheManagerV2]


def absent(name: str) -> str | None:
    """Return why a provider cannot be used here and how to get it, in one line; None if it can.

    Nothing is imported to find out. Raises ProviderError for a name that is no provider's.
    """
    if name not in PROVIDERS:
        raise ProviderError(f"there is no provider {name!r}: choose from {', '.join(PROVIDERS)}")
    if name == "nanobind" and importlib.util.find_spec("stepbench_native") is None:
        return (
            "stepbench_native is not installed: pip install ./stubs/native builds it in a clone "
            "(nox -s native also tests it); it needs a C++ compiler"
        )
    if name == "tensorrt_llm" and importlib.util.find_spec("tensorrt_llm") is None:
        return "tensorrt_llm is not installed: it is the engine itself and needs its GPU libraries"
    return None


def load_provider(name: str) -> Provider:
    """Return a provider by its name, or for ``auto`` nanobind if it is there and else python.

    Raises:
        ProviderError: there is no such provider, it is absent, or it cannot be imported.
    """
    if name == AUTO:
        try:
            return load_provider("nanobind")
        except ProviderError:
            return load_provider("python")
    reason = absent(name)
    if reason is not None:
        raise ProviderError(f"the provider {name} is absent: {reason}")
    try:
        classes = _import_classes(name)
    except (ImportError, AttributeError) as error:  # The latter from a build of another version.
        raise ProviderError(f"the provider {name} cannot be imported: {error}") from error
    return Provider(name, PROVIDERS[name], *classes)


def _import_classes(
    name: str,
) -> tuple[type[LlmRequest], type[KVCacheManager], type[KVCacheManagerV2]]:
    if name == "nanobind":
        from . import nanobind_provider

        # It has the interface of the stand-in without being one.
        return (
            nanobind_provider.LlmRequest,  # type: ignore[return-value]
            nanobind_provider.KVCacheManager,
            nanobind_provider.KVCacheManagerV2,
        )
    if name == "tensorrt_llm":
        from .tensorrt_llm_provider import LlmRequest as EngineRequest

        return EngineRequest, KVCacheManager, KVCacheManagerV2
    return LlmRequest, KVCacheManager, KVCacheManagerV2
