"""Checks model ids and revisions before they are put into a URL.

An id or revision that passes cannot change the meaning of the URL's path.
"""

import re
from typing import Final

from huggingface_hub.constants import REPO_TYPES_URL_PREFIXES
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # exported without __all__

from service.hub.errors import InvalidModelId, InvalidRevision

DEFAULT_REVISION: Final = "main"

_REVISION: Final = re.compile(r"[A-Za-z0-9][\w./-]{0,127}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_ADDRESS: Final = re.compile(
    r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+))+|localhost", re.ASCII | re.IGNORECASE
)
# The Hub reserves these first segments for its API and for repositories that are not models.
_RESERVED: Final = frozenset({"api", *(prefix.rstrip("/") for prefix in REPO_TYPES_URL_PREFIXES.values())})


def check_model_id(model_id: str) -> None:
    """Reject an id that no model on the Hub can have.

    Raises:
        InvalidModelId: the id breaks the Hub's rules, or names something other than a model.
    """
    try:
        validate_repo_id(model_id)
    except HFValidationError:
        rule = "give 'organisation/name' in letters, digits, '-', '_' and '.', without '--' or '..'"
        raise InvalidModelId(model_id, rule) from None
    namespace, slash, _ = model_id.partition("/")
    if _ADDRESS.fullmatch(namespace):
        raise InvalidModelId(model_id, "it starts with the address of a machine")
    if slash and namespace.lower() in _RESERVED:
        raise InvalidModelId(model_id, f"the Hub reserves '{namespace}/' and stores no models there")


def check_revision(model_id: str, revision: str) -> None:
    """Reject text that cannot be the name of a branch, tag or commit.

    Raises:
        InvalidRevision: it has invalid characters, is too long, or contains '..' or '//'.
    """
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision:
        raise InvalidRevision(model_id, revision)


def commit_or_none(text: object) -> str | None:
    """Return `text` if it is a full commit hash (40 hexadecimal digits)."""
    return text if isinstance(text, str) and _COMMIT.fullmatch(text) else None
