"""The one Hub, or mirror of it, that is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import httpx2

from service.hub.redirects import STORAGE_HOSTS

PUBLIC_ENDPOINT: Final = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the Hub is and how it is asked; never of a request's choosing.

    Attributes:
        address: a plain http(s) address.
        token: the service's own; None asks anonymously.
        storage_hosts: domains, or `host:port`, where the Hub keeps large files; no token is sent there.

    Raises:
        ValueError: the address is not a plain one.
    """

    address: str = PUBLIC_ENDPOINT
    token: str | None = field(default=None, repr=False)
    storage_hosts: tuple[str, ...] = STORAGE_HOSTS

    def __post_init__(self) -> None:
        try:
            url = httpx2.URL(self.address)
        except httpx2.InvalidURL:
            url = httpx2.URL()
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
            raise ValueError("the Hub endpoint must be an http(s) address without user, query or fragment")
        object.__setattr__(self, "address", self.address.rstrip("/"))
