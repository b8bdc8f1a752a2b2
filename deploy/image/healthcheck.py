"""Exits with 0 while the service of this container answers, or while its worker runs.

A container's health check runs every few seconds, so it imports little and nothing of the service. The port
is that of the running command (`serve --port 9000`), else that of the environment.
"""

import os
import socket
import sys
from collections.abc import Iterator, Sequence

TIMEOUT_SECONDS = 2
EVERYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104 - nothing is bound here
REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def commands() -> Iterator[Sequence[str]]:
    """Yield the arguments of each process of this container, from the name `dryserve` on."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/cmdline", "rb") as file:  # noqa: PTH123 - pathlib loads much
                words = file.read().decode(errors="replace").split("\0")
        except OSError:
            continue
        names = [word.rpartition("/")[2] for word in words]
        if "dryserve" in names:
            yield words[names.index("dryserve") + 1 :]


def option(words: Sequence[str], name: str, default: str) -> str:
    """Return the value of an option of a command."""
    for position, word in enumerate(words):
        if word == name and position + 1 < len(words):
            return words[position + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return default


def answers(host: str, port: int) -> bool:
    """Whether the service answers there with status 200."""
    addresses = ("127.0.0.1", "::1") if host in EVERYWHERE else (host,)
    for address in addresses:
        try:
            with socket.create_connection((address, port), TIMEOUT_SECONDS) as connection:
                connection.sendall(REQUEST)
                return connection.recv(64).startswith(b"HTTP/1.1 200 ")
        except OSError:
            continue
    return False


def healthy() -> bool:
    """Whether one of the commands that go on for ever does its work."""
    for words in commands():
        if "worker" in words[:1]:
            return True
        if "serve" in words[:1]:
            host = option(words, "--host", os.environ.get("DRYSERVE_HOST", "127.0.0.1"))
            return answers(host, int(option(words, "--port", os.environ.get("DRYSERVE_PORT", "8000"))))
    return False


if __name__ == "__main__":
    sys.exit(not healthy())
