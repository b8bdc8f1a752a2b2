"""Sockets that listen, opened before anything is said, and those that another process opened."""

import errno
import socket
from typing import Final

import typer

from service.cli.exit_codes import ExitCode

BACKLOG: Final = 2048
"""Connections that may wait to be accepted, as in uvicorn."""


def listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on the addresses of a host: nothing is said before others can connect.

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
                found.append(socket.create_server((str(address[0]), chosen), family=family, backlog=BACKLOG))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                missing = error
        if not found:
            raise missing
    except (OSError, OverflowError) as error:
        for each in found:
            each.close()
        typer.echo(_not_listening(host, port, error), err=True)
        raise typer.Exit(ExitCode.PORT_TAKEN) from None
    return found


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
