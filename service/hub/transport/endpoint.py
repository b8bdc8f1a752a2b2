"""The address of the Hub, or of a mirror, that this service uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from service.hub.transport.redirects import STORAGE_HOSTS

PUBLIC_ENDPOINT: Final = "https://huggingface.co"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The Hub's address and the service's access to it. It comes from the settings, never from a request.

    Attributes:
        address: an http(s) address without user, query or fragment.
        token: the service's own token; None makes anonymous requests.
        storage_hosts: domains, or `host:port`, where the Hub stores large files; no token is sent there.

    Raises:
        ValueError: the address is not such an address.
    """

    address: str = PUBLIC_ENDPOINT
    token: str | None = field(default=None, repr=False)
    storage_hosts: tuple[str, ...] = STORAGE_HOSTS

    def __post_init__(self) -> None:
        if self.address != PUBLIC_ENDPOINT:
            self._check()

    def _check(self) -> None:
        import httpx2  # noqa: PLC0415 - slow to import, and the public address is known to be right

        try:
            url = httpx2.URL(self.address)
        except httpx2.InvalidURL:
            url = httpx2.URL()
        if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
            raise ValueError("the Hub endpoint must be an http(s) address without user, query or fragment")
        object.__setattr__(self, "address", self.address.rstrip("/"))
