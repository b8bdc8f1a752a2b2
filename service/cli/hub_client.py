"""An HTTP client for the Hub that is made when it is first used."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import httpx2


@asynccontextmanager
async def hub_client() -> AsyncIterator[Callable[[], httpx2.AsyncClient]]:
    """Yield what makes a client; the client is closed at the end.

    Most commands plan what is stored or bundled: they need no client, and none of the libraries for HTTP.
    """
    made: list[httpx2.AsyncClient] = []

    def make() -> httpx2.AsyncClient:
        from service.hub.transport.transfer import hub_http  # noqa: PLC0415 - slow to import

        made.append(hub_http())
        return made[-1]

    try:
        yield make
    finally:
        for client in made:
            await client.aclose()
