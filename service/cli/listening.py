"""Sockets for a port, taken before the service starts, and those that another process opened.

They refuse connections until the service starts to listen: a connection that is accepted while the service
still loads would wait, and a proxy could not give it to another replica.
"""

import errno
import socket
import sys
from typing import Final, NoReturn

import typer

from service.cli.exit_codes import ExitCode

REUSES_ADDRESSES: Final = sys.platform not in {"win32", "cygwin"}
"""Whether the port of a program that ended can be taken at once."""


def bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that have the port on each address of a host, and do not listen yet.

    A name such as localhost may have an IPv6 address that this host lacks; one address is enough.

    Raises:
        typer.Exit: no address can be listened on, or the port of one is taken.
    """
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            # With port 0 all addresses get the port that the first one got.
            chosen = found[0].getsockname()[1] if found else port
            try:
                found.append(_bound(family, (str(address[0]), chosen)))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                missing = error
        if not found:
            raise missing
    except (OSError, OverflowError) as error:
        for each in found:
            each.close()
        refuse_port(host, port, error)
    return found


def refuse_port(host: str, port: int, error: Exception) -> NoReturn:
    """Say why a port cannot be listened on, and end the command."""
    typer.echo(_not_listening(host, port, error), err=True)
    raise typer.Exit(ExitCode.PORT_TAKEN) from None


def _bound(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    """Do as socket.create_server does, but for listening."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if REUSES_ADDRESSES:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _not_listening(host: str, port: int, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} of {host} is taken by another program: choose another with --port or DRYSERVE_PORT "
            "(0 takes a free one)."
        )
    reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    # The socket module adds the address, which the message names already.
    reason = reason.partition(" (while")[0]
    return f"{host} port {port} cannot be listened on: {reason}"


def inherited(numbers: str) -> list[socket.socket]:
    """Return the sockets of this process's open files with these numbers, separated by commas."""
    return [socket.socket(fileno=int(number)) for number in numbers.split(",")]
