"""On whose behalf the Hub is asked: this service's, or one caller's own."""

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
    """A token, or none, and who may see what it opens.

    Attributes:
        token: what is sent to the Hub; None asks it anonymously.
        owner: `SHARED` for this service's own token, else a digest of the caller's.
    """

    token: str | None = field(default=None, repr=False)
    owner: str = SHARED

    @property
    def own(self) -> bool:
        """Whether a caller brought it: what it opens is shown to no other caller."""
        return self.owner != SHARED


def callers_own(token: str) -> Credential:
    """Return a caller's own credential.

    Raises:
        InvalidHubToken: no token looks like this, so it is not put into a header.
    """
    if not _TOKEN.fullmatch(token):
        raise InvalidHubToken
    return Credential(token, sha256(token.encode()).hexdigest())
