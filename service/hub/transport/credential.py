"""The credential of a request to the Hub: the service's own token, or one that a caller sent."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from service.hub.errors import InvalidHubToken

SHARED: Final = ""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """An access token and who may see what is fetched with it.

    Attributes:
        token: sent to the Hub; None makes anonymous requests.
        owner: `SHARED` for this service's own token, else the SHA-256 of the caller's token.
    """

    token: str | None = field(default=None, repr=False)
    owner: str = SHARED

    @property
    def token_in(self) -> str:
        """Where the token was given; empty without one."""
        if self.token is None:
            return ""
        return "the header X-Hub-Token" if self.own else "HF_TOKEN"

    @property
    def own(self) -> bool:
        """Whether a caller sent it; what is fetched with it is then shown to no other caller."""
        return self.owner != SHARED


def callers_own(token: str) -> Credential:
    """Return the credential for a token that a caller sent.

    Raises:
        InvalidHubToken: the text cannot be a token, so it is not put into a header.
    """
    if not _TOKEN.fullmatch(token):
        raise InvalidHubToken
    return Credential(token, sha256(token.encode()).hexdigest())
