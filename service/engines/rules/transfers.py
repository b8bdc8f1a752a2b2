"""What ``--kv-transfer-config`` does to the cache of models with several kinds of layers."""

from dataclasses import dataclass
from enum import StrEnum


class HybridBesideConnector(StrEnum):
    """When the hybrid cache manager stays on beside a connector."""

    NEVER = "never"
    WHEN_ASKED = "when_asked"
    """With ``--no-disable-hybrid-kv-cache-manager`` alone."""
    WHEN_SUPPORTED = "when_supported"
    """Where the connector supports it."""


@dataclass(frozen=True, slots=True)
class TransferRules:
    """What ``--kv-transfer-config`` does to the cache of models with several kinds of layers."""

    hybrid_manager: HybridBesideConnector
    """When the hybrid cache manager stays on beside a connector."""
    hybrid_connectors: frozenset[str]
    """Connectors that support the hybrid cache manager."""
    unsupported_refusal: str
    """What the engine says where the manager is asked for and the connector does not support it."""
