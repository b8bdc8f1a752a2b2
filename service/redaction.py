"""What looks like a secret is never shown: in an answer, in a log, in what is kept.

Two kinds are known: words that services issue by a fixed pattern (``hf_...``, ``AKIA...``), and whatever
stands as the value of a name that secrets have (``"api_key": "..."``, ``HF_TOKEN=...``,
``Authorization: Bearer ...``), in a shell, a header, JSON, or a dictionary as Python prints it. Every pattern
takes a bounded run of characters, so that a text costs no more than its length.
"""

import re
from typing import Final

HIDDEN: Final = "***"

_NAME: Final = (
    r"(?:(?:api|access|secret|private|account|encryption|license|signing)[-_ ]?keys?|token|passwd|password"
    r"|passphrase|pwd|secret|credentials?|authorization|cookie|signature)"
)
_QUOTE: Final = r"\\{0,3}['\"]"
_SCHEME: Final = r"(?:(?:bearer|basic|token|digest|negotiate)\s{1,4})?"
_BARE: Final = r"[^\s'\"\\,;&\]})]"
_SECRETS: Final = (
    # A key in one piece: all of it, from its first line to where the text ends.
    re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).{1,16384}"),
    # Several words after a flag, as `--api-key` takes; what has a slash is a model.
    re.compile(
        r"(?i)(--?(?:api[-_]key|hf[-_]token|token|password|secret)(?:\s{1,4}|=))"
        rf"(?!-|{_QUOTE})[^\s/'\",)\]}}]{{1,4096}}+(?:\s{{1,4}}(?!-)[^\s/'\",)\]}}]{{1,4096}}+(?=\s|$)){{0,16}}"
    ),
    # All values of a header that holds several.
    re.compile(r"(?i)(\b(?:set-)?cookie\s{0,4}[:=]\s{0,4})(?!\s|['\"])[^'\"]{1,4096}"),
    # A value in quotes, up to the quote that ends it; in a list, of every word of it.
    re.compile(
        rf"(?i)({_NAME}(?:{_QUOTE})?\s{{0,4}}[=:,]\s{{0,4}}[\[(]\s{{0,4}})"
        r"(?:b?['\"][^'\"]{1,4096}+['\"](?:\s{0,4},\s{0,4})?){1,64}"
    ),
    re.compile(
        rf"(?i)({_NAME}(?:{_QUOTE}\s{{0,4}}[=:,]|\s{{0,4}}[=:])\s{{0,4}}b?(?P<quote>{_QUOTE}))"
        r"(?:(?!(?P=quote)).){1,4096}"
    ),
    re.compile(rf"(?i)({_NAME}\s{{1,4}}(?P<quote>{_QUOTE}))(?:(?!(?P=quote))\S){{4,4096}}"),
    # A value without quotes.
    re.compile(
        rf"(?i)({_NAME}(?:{_QUOTE})?\s{{0,4}}[=:]\s{{0,4}}(?:\[\s{{0,4}})?){_SCHEME}"
        rf"(?!(?:none|true|false|null|auto)\b){_BARE}{{3,4096}}"
    ),
    re.compile(r"(?i)([?&](?:sig|key|auth|apikey)=)[^\s&'\"]{3,4096}"),
    re.compile(rf"(?i)(\bauth{_QUOTE}\s{{0,4}}:\s{{0,4}}(?P<quote>{_QUOTE}))(?:(?!(?P=quote)).){{1,4096}}"),
    re.compile(r"(?i)(\bbearer\s{1,4})[A-Za-z0-9._~+/=-]{6,4096}"),
    # What a service issues, wherever it stands.
    re.compile(
        r"()\b(?:(?:hf|sk|gh[oprsu]|github_pat|glpat|xox[abeprs]|nvapi|dry)[-_][A-Za-z0-9_-]{8,512}"
        r"|(?:npm|pypi)[-_][A-Za-z0-9_-]{20,512}|AIza[A-Za-z0-9_-]{30,64}|ya29\.[A-Za-z0-9_-]{20,512}"
        r"|A[KS]IA[A-Z0-9]{12,64}|eyJ[A-Za-z0-9_-]{10,512}\.[A-Za-z0-9_.-]{10,2048})"
    ),
    # user:password@ in an address; the last @ before a slash ends it.
    re.compile(r"(://)[^/\s'\"]{1,512}(?=@)"),
)
_TELLING: Final = (
    *("key", "token", "passw", "passphrase", "pwd", "secret", "credential", "authoriz", "auth", "cookie"),
    *("signature", "sig=", "bearer", "://", "eyj", "hf_", "hf-", "sk-", "sk_", "gho", "ghp", "ghr", "ghs"),
    *("ghu", "_pat_", "glpat", "xox", "nvapi", "dry_", "dry-", "npm", "pypi", "aiza", "ya29", "akia", "asia"),
)
"""What every secret has in or before it, in lower case; a text without any is passed over."""


def hide_secrets(text: str) -> str:
    """Return a text in which `HIDDEN` stands for whatever looks like a secret."""
    lowered = text.lower()
    if not any(telling in lowered for telling in _TELLING):
        return text
    for secret in _SECRETS:
        text = secret.sub(rf"\1{HIDDEN}", text)
    return text
