"""Answers of real vLLM releases, as recorded in ``tests/data/backends``.

``launches.json``: whole launches of a release on a model's config: layers by backend, or the refusal.
``selector.json``: single questions put to a release's own ``get_attn_backend_cls``, its backend's kernel
block sizes and its FlashAttention version.
"""

import json
from pathlib import Path
from typing import Any

from packaging.version import Version

from service.backends.request import AttentionRequest
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
    return AttentionRequest(**{"flash_attn_version": flash_attn_version, **raw})
