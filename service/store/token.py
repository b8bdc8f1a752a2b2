"""Token: who is let in, and what for."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What the bearer of a token may do."""

    OPERATOR = "operator"
    """Request and cancel probes, import measurements, and do all that a reader may."""
    READER = "reader"
    """Read probes and calibrations."""
    WORKER = "worker"
    """Lease jobs and report their results, under the token's own name."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    id: str
    name: str
    scope: Scope


def digest_of(secret: str) -> str:
    """Return what is stored and compared in place of a secret."""
    return hashlib.sha256(secret.encode()).hexdigest()
