"""TokenFile: tokens that are declared in a file, such as a mounted Secret.

Each line is one token: its name, its scope, the token itself, and the day after which it is not accepted, or
nothing. Empty lines and those that begin with ``#`` are left out. The file is read again when it changes.
"""

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final

import structlog

from service.store.token import Scope, Token, digest_of

LEAST_CHARACTERS: Final = 32
"""Of a token: a shorter one might be found by trial."""
LOOK_SECONDS: Final = 5.0
"""Time between two looks at the file."""
_FORM: Final = re.compile(rf"[!-~]{{{LEAST_CHARACTERS},512}}")

_log: Final = structlog.stdlib.get_logger("dryserve.tokens")


class InvalidTokenFile(ValueError):
    """A line declares no token. The message names the line, and repeats nothing of it."""


class TokenFile:
    """The tokens of one file. If a new version of it cannot be read, those of the last one stay."""

    def __init__(
        self,
        file: Path,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the file.

        Raises:
            InvalidTokenFile: a line declares no token.
            OSError: the file cannot be read.
        """
        self._file = file
        self._clock = clock
        self._monotonic = monotonic
        self._looked = monotonic()
        self._text = file.read_bytes()
        self._tokens = dict(_tokens(self._text))

    def find(self, text: str) -> Token | None:
        """Return the token with this text; None where the file has none that is still accepted."""
        if self._monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = self._monotonic()
            self._read_again()
        token, expires = self._tokens.get(digest_of(text), (None, None))
        return None if expires is not None and self._clock() >= expires else token

    def _read_again(self) -> None:
        try:
            text = self._file.read_bytes()
            if text != self._text:
                self._tokens, self._text = dict(_tokens(text)), text
        except (OSError, InvalidTokenFile) as error:
            _log.error("the file of tokens is not used as it is now", reason=str(error))


def _tokens(text: bytes) -> Iterator[tuple[str, tuple[Token, float | None]]]:
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        words = line.split()
        if words and not words[0].startswith("#"):
            yield _token(words, number)


def _token(words: list[str], number: int) -> tuple[str, tuple[Token, float | None]]:
    form = f"line {number} must be: name, scope ({', '.join(Scope)}), token, a last day (2027-01-31)"
    try:
        name, scope, text, *day = words
        last = date.fromisoformat(*day) if day else None
        found = Scope(scope)
    except (ValueError, TypeError):
        raise InvalidTokenFile(form) from None
    if not _FORM.fullmatch(text):
        raise InvalidTokenFile(f"line {number}: a token has {LEAST_CHARACTERS} to 512 visible characters")
    expires = None
    if last is not None:
        expires = datetime.combine(last + timedelta(1), datetime.min.time(), UTC).timestamp()
    token_id = f"file{sha256(name.encode()).hexdigest()[:12]}"
    return digest_of(text), (Token(token_id, name, found), expires)
