"""Limits of one server's connections, and how many of them the process can have."""

import sys
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

if sys.platform != "win32":
    import resource

RESERVED_FILES: Final = 128
"""Files that the process opens beside callers' connections: databases, the Hub, its own code."""
OPERATORS_CONNECTIONS: Final = 32
"""Connections beyond the limit that are still accepted, so that operators are answered."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one server's connections. Times are in seconds."""

    connections: int
    head: float = 10
    """From the start of a connection, or the first byte of a later request, to the end of its head."""
    body: float = 60
    """From the end of the head to the end of the body."""
    drain: float = 30
    """Time in which the caller must read ``drain_bytes`` of a waiting answer, or the connection is closed."""
    drain_bytes: int = 1 << 20
    """Bytes to read in that time, or the rest of the answer if that is less."""
    unread_bytes: int = 64 << 20
    """Bytes of all answers that wait to be read."""


def connections_allowed(wanted: int) -> int:
    """Return how many of the wanted connections the process can open files for.

    The limit on open files is raised for that as far as the system allows.
    """
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED_FILES + OPERATORS_CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (ValueError, OSError):
            raised = soft
        return max(1, min(wanted, raised - RESERVED_FILES - OPERATORS_CONNECTIONS))
    return wanted


def listens_on_loopback(host: str) -> bool:
    """Whether an address or a name to listen on can be reached from this machine alone."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
