"""Checks model ids and revisions before they are put into a URL.

An id or revision that passes cannot change the meaning of the URL's path.
"""

import re
from typing import Final

from service.hub.errors import InvalidModelId, InvalidRevision

DEFAULT_REVISION: Final = "main"

_REVISION: Final = re.compile(r"[A-Za-z0-9][\w./-]{0,127}", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)
_ADDRESS: Final = re.compile(
    r"(?:0x[0-9a-f]+|\d+)(?:\.(?:0x[0-9a-f]+|\d+))+|localhost", re.ASCII | re.IGNORECASE
)
_GGUF_FILE: Final = re.compile(r"\.gguf$|gguf[^/]*:[A-Z0-9_]+$", re.ASCII | re.IGNORECASE)
"""A file, or a repository with the name of a quantization, as in ``org/name-GGUF:Q4_K_M``."""
_ID: Final = re.compile(r"(\b[\w.-]{1,96}\b/)?\b[\w.-]{1,96}\b", re.ASCII)
"""`huggingface_hub.utils.validate_repo_id`, together with the parts that `_follows_the_hubs_rules` rejects.

A test compares both. The library itself takes a tenth of a second to import.
"""
_RESERVED: Final = frozenset({"api", "datasets", "spaces", "kernels"})
"""First segments that the Hub reserves for its API and for repositories that are not models.

They are those of `huggingface_hub.constants.REPO_TYPES_URL_PREFIXES`, and "api".
"""


def check_model_id(model_id: str) -> None:
    """Reject an id that no model on the Hub can have.

    Raises:
        InvalidModelId: the id breaks the Hub's rules, or names something other than a model.
    """
    if is_path(model_id):
        rule = (
            "it is a path, and the files below it are not at hand here; give the model's config.json "
            "(`config`, --config)"
        )
        raise InvalidModelId(model_id, rule)
    if _GGUF_FILE.search(model_id):
        rule = (
            "it names a GGUF file, which is planned for llama.cpp (`engine.name`, --engine) and for "
            "releases of vLLM that load it; elsewhere give the model that it was made from"
        )
        raise InvalidModelId(model_id, rule)
    if not _follows_the_hubs_rules(model_id):
        rule = "give 'organisation/name' in letters, digits, '-', '_' and '.', without '--' or '..'"
        raise InvalidModelId(model_id, rule)
    namespace, slash, _ = model_id.partition("/")
    if _ADDRESS.fullmatch(namespace):
        raise InvalidModelId(model_id, "it starts with the address of a machine")
    if slash and namespace.lower() in _RESERVED:
        raise InvalidModelId(model_id, f"the Hub reserves '{namespace}/' and stores no models there")


def _follows_the_hubs_rules(model_id: str) -> bool:
    forbidden = "--" in model_id or ".." in model_id or model_id.endswith(".git")
    return not forbidden and _ID.fullmatch(model_id) is not None


def is_path(text: str) -> bool:
    """Whether a text can only be a path on a host: no id starts like this."""
    return text.startswith(("/", "./", "../", "~")) or "\\" in text


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
