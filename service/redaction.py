"""Masks text that looks like a secret, in responses, in logs and in stored data.

Two kinds are recognized: tokens that services issue with a fixed pattern (``hf_...``, ``AKIA...``), and the
values of names that secrets usually have (``"api_key": "..."``, ``HF_TOKEN=...``,
``Authorization: Bearer ...``), in a shell command, a header, JSON, or a dictionary as Python prints it. Every
pattern matches a bounded number of characters, so that the time is linear in the length of the text.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

HIDDEN: Final = "***"

_NAME: Final = (
    r"(?:(?:api|access|secret|private|account|encryption|license|signing)[-_ ]?keys?|token|passwd|password"
    r"|passphrase|pwd|secret|credentials?|authorization|cookie|signature)"
)
_QUOTE: Final = r"\\{0,3}['\"]"
_SCHEME: Final = r"(?:(?:bearer|basic|token|digest|negotiate)\s{1,4})?"
_BARE: Final = r"[^\s'\"\\,;&\]})]"


@dataclass(frozen=True, slots=True)
class _Secret:
    """One form of a secret."""

    needs: tuple[str, ...]
    """Lower-case texts of which every text with this form contains one; other texts are not searched."""
    pattern: str
    """A regular expression; what stands before the secret is its first group."""


_NAMES: Final = (
    # The ends of "api", "access", "secret", "private" and the others before "key", with what joins them.
    *(f"{end}{joint}key" for end in "isteng" for joint in ("", "-", "_", " ")),
    *("token", "passw", "passphrase", "pwd", "secret", "credential", "authorization", "cookie", "signature"),
)
_OPTIONS: Final = ("-api", "-hf", "-token", "-password", "-secret")
_PREFIXES: Final = (
    *("hf_", "hf-", "sk_", "sk-", "gho", "ghp", "ghr", "ghs", "ghu", "_pat", "glpat", "xox", "nvapi", "dry_"),
    *("dry-", "npm", "pypi", "aiza", "ya29", "akia", "asia", "eyj"),
)
_SECRETS: Final = (
    # A private key in PEM format: everything from its first line to the end of the text.
    _Secret(("-----begin",), r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).{1,16384}"),
    # Several words after a flag such as `--api-key`; a word with a slash is a model, not a key.
    _Secret(
        _OPTIONS,
        r"(?i)((?<![0-9])--?(?:api[-_]key|hf[-_]token|token|password|secret)(?:\s{1,4}|=))"
        rf"(?!-|{_QUOTE})[^\s/'\",)\]}}]{{1,4096}}+(?:\s{{1,4}}(?!-)[^\s/'\",)\]}}]{{1,4096}}+(?=\s|$)){{0,16}}",
    ),
    # A quoted value after a flag, with its blanks.
    _Secret(
        _OPTIONS,
        r"(?i)((?<![0-9])--?(?:api[-_]key|hf[-_]token|token|password|secret)(?:\s{1,4}|=)(?P<quote>['\"]))"
        r"(?:(?!(?P=quote)).){1,4096}",
    ),
    # All values of a header that holds several.
    _Secret(("cookie",), r"(?i)(\b(?:set-)?cookie\s{0,4}[:=]\s{0,4})(?!\s|['\"])[^'\"]{1,4096}"),
    # A quoted value, up to its closing quote; in a list, every quoted word.
    _Secret(
        _NAMES,
        rf"(?i)({_NAME}(?:{_QUOTE})?\s{{0,4}}[=:,]\s{{0,4}}[\[(]\s{{0,4}})"
        r"(?:b?['\"][^'\"]{1,4096}+['\"](?:\s{0,4},\s{0,4})?){1,64}",
    ),
    _Secret(
        _NAMES,
        rf"(?i)({_NAME}(?:{_QUOTE}\s{{0,4}}[=:,]|\s{{0,4}}[=:])\s{{0,4}}b?(?P<quote>{_QUOTE}))"
        r"(?:(?!(?P=quote)).){1,4096}",
    ),
    _Secret(_NAMES, rf"(?i)({_NAME}\s{{1,4}}(?P<quote>{_QUOTE}))(?:(?!(?P=quote))\S){{4,4096}}"),
    # A value without quotes.
    _Secret(
        _NAMES,
        rf"(?i)({_NAME}(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:\[\s{{0,4}})?){_SCHEME}"
        rf"(?!(?:none|true|false|null|auto)\b|expected (?:at least )?one argument){_BARE}{{3,4096}}",
    ),
    _Secret(
        ("sig=", "key=", "auth="),
        r"(?i)((?:[?&](?:sig|key|auth|apikey)|\bsig)=)[^\s&'\"]{3,4096}",
    ),
    _Secret(("_key",), r"(?i)((?<![a-z0-9])[a-z0-9]{2,40}_key\s{0,4}[=:]\s{0,4})[^\s'\",;]{8,4096}"),
    # In a sentence, or behind a wide sign: a word with a digit, since "the key is missing" hides nothing.
    _Secret(
        (" is ", "\uff1d", "\uff1a"),
        r"(?i)((?:password|passphrase|token|secret|key)\s{0,2}(?: is |\uff1d|\uff1a)\s{0,2})"
        r"(?=\D{0,64}\d)[^\s'\",;]{4,4096}",
    ),
    _Secret(("basic",), r"(?i)(\bbasic\s{1,4})[A-Za-z0-9+/=_-]{16,4096}"),
    _Secret(("hooks.slack",), r"(hooks\.slack\.com/services/)[^\s'\"]{8,512}"),
    _Secret(
        ("auth",),
        rf"(?i)(\bauth{_QUOTE}\s{{0,4}}:\s{{0,4}}(?P<quote>{_QUOTE}))(?:(?!(?P=quote)).){{1,4096}}",
    ),
    _Secret(("bearer",), r"(?i)(\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{6,4096}"),
    # Tokens with a fixed pattern, anywhere in the text.
    _Secret(
        _PREFIXES,
        # Files of models and flags of the engine are named like tokens.
        r"()\b(?!hf[-_](?:quant[-_]config|overrides|config[-_]path|text[-_]config|processor|transfer)\b)"
        r"(?:(?:hf|sk|gh[oprsu]|github_pat|glpat|xox[abeprs]|nvapi|dry)[-_][A-Za-z0-9_-]{8,512}"
        r"|(?:npm|pypi)[-_][A-Za-z0-9_-]{20,512}|AIza[A-Za-z0-9_-]{30,64}|ya29\.[A-Za-z0-9_-]{20,512}"
        r"|A[KS]IA[A-Z0-9]{12,64}|eyJ[A-Za-z0-9_-]{10,512}\.[A-Za-z0-9_.-]{10,2048})",
    ),
    # user:password@ in an address, up to the last @ before a slash.
    _Secret(("://",), r"(://)[^/\s'\"]{1,512}(?=@)"),
    # A password with a slash: a user and a colon stand before it, and only one @ follows.
    _Secret(("://",), r"(://[^/\s:@'\"]{1,128}:)[^\s'\"@]{1,512}(?=@)"),
)


_NEEDS: Final = tuple(dict.fromkeys(secret.needs for secret in _SECRETS))
_ALL_NEEDS: Final = tuple(dict.fromkeys(needed for needs in _NEEDS for needed in needs))
"""Most texts contain none of them."""
_NAMED: Final = _NEEDS.index(_NAMES)
_AFTER_NAME: Final = rf"(?i){_NAME}[\s=:,'\"\\]"
"""What each form with a name begins with; the word "tokens", of which logs are full, is no such name."""


@cache
def _searched() -> tuple[tuple[int, re.Pattern[str]], ...]:
    """Return the place in `_NEEDS` and the pattern of each secret, compiled when a text first needs it."""
    return tuple((_NEEDS.index(secret.needs), re.compile(secret.pattern)) for secret in _SECRETS)


@cache
def _after_name() -> re.Pattern[str]:
    return re.compile(_AFTER_NAME)


def hide_secrets(text: str) -> str:
    """Return a text in which `HIDDEN` replaces everything that looks like a secret."""
    contains = text.lower().__contains__
    if not any(map(contains, _ALL_NEEDS)):
        return text
    present = [any(map(contains, needs)) for needs in _NEEDS]
    if present[_NAMED]:
        present[_NAMED] = _after_name().search(text) is not None
    for needed, pattern in _searched():
        if present[needed]:
            text = pattern.sub(rf"\1{HIDDEN}", text)
    return text
