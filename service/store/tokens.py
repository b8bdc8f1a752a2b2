"""TokenStore: access tokens. A secret is shown once, when it is created; only its digest is stored."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import select

from service.store.database import Database
from service.store.tables import TOKENS

PREFIX: Final = "dry"
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
"""A random secret of this length cannot be found by trial, so a SHA-256 without salt is enough."""


class Scope(StrEnum):
    """What the bearer of a token may do."""

    OPERATOR = "operator"
    """Request and cancel probes, import measurements, and do all that a reader may."""
    READER = "reader"
    """Read probes and calibrations."""
    WORKER = "worker"
    """Lease jobs and report their results, under the token's own name."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret."""

    id: str
    name: str
    scope: Scope


class TokenStore:
    """The tokens of one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def create(self, name: str, scope: Scope) -> str:
        """Create a token; return its text, which cannot be read again later."""
        token_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        row = {
            "id": token_id,
            "name": name,
            "scope": scope,
            "secret_digest": _digest(secret),
            "created_at": self._clock(),
        }
        async with self._database.writing() as connection:
            await connection.execute(TOKENS.insert().values(row))
        return f"{PREFIX}_{token_id}_{secret}"

    async def find(self, text: str) -> Token | None:
        """Return the token with this text; None if it is forged or revoked."""
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        if prefix != PREFIX or not secret or not self._database.exists:
            return None
        query = select(TOKENS).where(TOKENS.c.id == token_id, TOKENS.c.revoked_at.is_(None))
        async with self._database.reading() as connection:
            found = (await connection.execute(query)).first()
        # The comparison runs even if there is no such token, so that both cases take the same time.
        stored = found.secret_digest if found is not None else _digest("")
        valid = hmac.compare_digest(stored, _digest(secret))
        return Token(found.id, found.name, Scope(found.scope)) if found is not None and valid else None

    async def all(self) -> tuple[Token, ...]:
        """Return every token that is not revoked."""
        query = select(TOKENS).where(TOKENS.c.revoked_at.is_(None)).order_by(TOKENS.c.created_at)
        async with self._database.reading() as connection:
            return tuple(
                Token(each.id, each.name, Scope(each.scope)) for each in await connection.execute(query)
            )

    async def revoked(self) -> frozenset[str]:
        """Return the ids of revoked tokens; none where there is no database yet."""
        if not self._database.exists:
            return frozenset()
        query = select(TOKENS.c.id).where(TOKENS.c.revoked_at.is_not(None))
        async with self._database.reading() as connection:
            return frozenset(await connection.scalars(query))

    async def revoke(self, token_id: str) -> bool:
        """Revoke a token; return whether there was a valid one with this id."""
        known = (TOKENS.c.id == token_id) & TOKENS.c.revoked_at.is_(None)
        async with self._database.writing() as connection:
            done = await connection.execute(TOKENS.update().where(known).values(revoked_at=self._clock()))
        return done.rowcount > 0


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
