"""Which protocol reads a server's connections, and within which limits."""

from importlib.util import find_spec
from typing import Any

from service.api.connections.connection_limits import ConnectionLimits
from service.api.connections.limited_connection import LimitedConnection, OnRefusal
from service.api.connections.python_protocol import PythonProtocol


def protocol_of(limits: ConnectionLimits, *refused: OnRefusal, compiled: bool = True) -> type[Any]:
    """Return the protocol of one server's connections; ``refused``: called with each refusal's reason.

    ``compiled``: read requests by httptools, which is compiled code, where it is installed.
    """
    protocol: type[LimitedConnection] = PythonProtocol
    if compiled and find_spec("httptools") is not None:
        from service.api.connections.compiled_protocol import CompiledProtocol  # noqa: PLC0415 - needs httptools

        protocol = CompiledProtocol
    return type(
        "ServersProtocol", (protocol,), {"limits": limits, "idle": {}, "unread": {}, "refused": refused}
    )
