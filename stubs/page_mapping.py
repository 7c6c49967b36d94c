"""The V2 manager as one branch of the engine has it: page indices as a mapping by layer group."""

from __future__ import annotations

from typing import Any

from connector import interfaces

# What the interface has, and raises an error where nobody has it.
_METHODS = (
    *("get_num_blocks", "get_page_indices_range", "get_batch_updates"),
    *("create_reported_requests", "build_request_data"),
)


class MappingManagerV2(interfaces.KVCacheManagerV2):
    """A V2 manager whose page indices come by the number of their layer group.

    Args:
        manager: the manager that has them as a list.
    """

    def __init__(self, manager: interfaces.KVCacheManagerV2) -> None:
        self._manager = manager
        for name in _METHODS:
            setattr(self, name, getattr(manager, name))

    def get_page_indices_by_layer_group(self, request: interfaces.LlmRequest) -> Any:  # noqa: ANN401
        """Return the page indices of ``request``, one new list for each number of a group."""
        return dict(enumerate(self._manager.get_page_indices_by_layer_group(request)))

    @property
    def num_layer_groups(self) -> int:
        """Number of layer groups."""
        return self._manager.num_layer_groups

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._manager, name)


def with_mapping(manager: object) -> object:
    """Return a manager with page indices as a mapping; one of V1 as it is."""
    if not isinstance(manager, interfaces.KVCacheManagerV2):
        return manager
    return MappingManagerV2(manager)
