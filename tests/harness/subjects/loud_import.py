"""Arm ``loud_import``: prints when it is imported, as engines do with their version."""

from connector.full_copy import KvCacheConnectorSchedulerOutputManager

print("[engine] version: 1.2.3")

__all__ = ["KvCacheConnectorSchedulerOutputManager"]
