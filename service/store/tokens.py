"""TokenStore: access tokens. A secret is shown once, when it is created; only its digest is stored."""

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy import select

from service.store.database import Database
from service.store.errors import StoreUnavailable
from service.store.tables import TOKENS
from service.store.token import Scope, Token, digest_of

PREFIX: Final = "dry"
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
"""A random secret of this length cannot be found by trial, so a SHA-256 without salt is enough."""


USE_SECONDS: Final = 300.0
"""Uses of a token within this time are noted once."""
SECONDS_PER_DAY: Final = 86_400

_log: Final = structlog.stdlib.get_logger("dryserve.tokens")


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token of the database. Times are seconds since the epoch."""

    token: Token
    created_at: float
    expires_at: float | None
    """When it stops to be accepted; None for never."""
    last_used_at: float | None
    """When it was last accepted, to within ``USE_SECONDS``; None for never."""


class TokenStore:
    """The tokens of one database."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    async def create(self, name: str, scope: Scope, *, days: float | None = None) -> str:
        """Create a token, accepted for so many days or for ever; its text cannot be read again later."""
        token_id, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
        row = {
            "id": token_id,
            "name": name,
            "scope": scope,
            "secret_digest": digest_of(secret),
            "created_at": (now := self._clock()),
            "expires_at": None if days is None else now + days * SECONDS_PER_DAY,
        }
        async with self._database.writing() as connection:
            await connection.execute(TOKENS.insert().values(row))
        return f"{PREFIX}_{token_id}_{secret}"

    async def find(self, text: str) -> Token | None:
        """Return the token with this text; None if it is forged, revoked or expired."""
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        if prefix != PREFIX or not secret or not self._database.exists:
            return None
        query = select(TOKENS).where(TOKENS.c.id == token_id, TOKENS.c.revoked_at.is_(None))
        async with self._database.reading() as connection:
            found = (await connection.execute(query)).first()
        # The comparison runs even if there is no such token, so that both cases take the same time.
        stored = found.secret_digest if found is not None else digest_of("")
        valid = hmac.compare_digest(stored, digest_of(secret))
        now = self._clock()
        if found is None or not valid or (found.expires_at is not None and now >= found.expires_at):
            return None
        if found.last_used_at is None or now - found.last_used_at > USE_SECONDS:
            await self._note_use(token_id, now)
        return Token(found.id, found.name, Scope(found.scope))

    async def _note_use(self, token_id: str, now: float) -> None:
        try:
            async with self._database.writing() as connection:
                await connection.execute(
                    TOKENS.update().where(TOKENS.c.id == token_id).values(last_used_at=now)
                )
        except StoreUnavailable:
            # A database that can only be read still tells who may read.
            _log.warning("the use of a token was not noted", token=token_id)

    async def all(self) -> tuple[StoredToken, ...]:
        """Return every token that is not revoked, those that have expired too."""
        query = select(TOKENS).where(TOKENS.c.revoked_at.is_(None)).order_by(TOKENS.c.created_at)
        async with self._database.reading() as connection:
            return tuple(
                StoredToken(
                    Token(each.id, each.name, Scope(each.scope)),
                    each.created_at,
                    each.expires_at,
                    each.last_used_at,
                )
                for each in await connection.execute(query)
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
