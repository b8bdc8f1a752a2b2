"""Answers of real vLLM releases, as recorded in ``tests/data/backends``.

``launches.json``: whole launches of a release on a model's config: layers by backend, or the refusal. A layer
is the kind whose class names its backend (null: the selector is asked), its request and how many there are.
``selector.json``: single questions put to a release's own ``get_attn_backend_cls``, its backend's kernel
block sizes, its format of the cache and its FlashAttention version.
``first_releases.json``: the same of the releases that validate nothing yet.
``unselected.json``: what backends say of themselves that no selector is asked about; some have no name.
"""

import json
from pathlib import Path
from typing import Any

from packaging.version import Version

from service.backends.attention_request import AttentionRequest, AttentionType
from service.gpus.capability import ComputeCapability

DATA = Path(__file__).parent.parent / "data" / "backends"


def records(name: str) -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads((DATA / name).read_text("utf-8"))
    return recorded


def release_of(record: dict[str, Any]) -> Version:
    return Version(record["release"])


def capability_of(record: dict[str, Any]) -> ComputeCapability:
    return ComputeCapability.parse(record["capability"])


def request_of(raw: dict[str, Any], flash_attn_version: int | None = None) -> AttentionRequest:
    attn_type = AttentionType(raw.get("attn_type", AttentionType.DECODER))
    return AttentionRequest(**{"flash_attn_version": flash_attn_version, **raw, "attn_type": attn_type})
