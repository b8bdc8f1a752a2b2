"""ModelInfo: the Hub's metadata of a model (commit, file list, parameter counts), from one request."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from service.hub.model_files.allowed_files import (
    MOST_WEIGHT_FILES,
    PIPELINE_INDEX,
    SMALL_FILES,
    is_allowed,
    is_consolidated,
)
from service.hub.model_files.model_ids import commit_or_none

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MOST_DTYPES: Final = 32
LONGEST_DTYPE: Final = 32
MOST_PARAMETERS: Final = 1 << 60
EXPAND: Final = "&".join(
    f"expand[]={name}" for name in ("safetensors", "sha", "gated", "siblings", "pipeline_tag")
)
FOREIGN_TASKS: Final = frozenset(
    {
        "audio-classification",
        "audio-to-audio",
        "depth-estimation",
        "image-classification",
        "image-feature-extraction",
        "image-segmentation",
        "image-to-3d",
        "image-to-image",
        "image-to-video",
        "keypoint-detection",
        "mask-generation",
        "object-detection",
        "reinforcement-learning",
        "robotics",
        "tabular-classification",
        "tabular-regression",
        "text-to-3d",
        "text-to-audio",
        "text-to-image",
        "text-to-speech",
        "text-to-video",
        "time-series-forecasting",
        "unconditional-image-generation",
        "video-classification",
        "voice-activity-detection",
        "zero-shot-image-classification",
        "zero-shot-object-detection",
    }
)
"""The Hub's names of tasks whose models do not generate text. Source: huggingface.co/tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Metadata of a model at one commit.

    Attributes:
        commit: 40 hexadecimal digits; None where the Hub does not state it.
        gated: whether users need the owner's permission.
        parameter_counts: parameters by safetensors dtype; None where unknown.
        files: the files that the client may request, in order; None where the Hub lists no files.
        consolidated: whether there are weights in Mistral's own files.
        pipeline: whether the repository holds a diffusers pipeline.
        task: the Hub's task of the model, if it is one of `FOREIGN_TASKS`.
        imported: whether this was read from a local folder, not from the Hub.
        stated: whether `commit` is a commit of the repository; False where it is a digest of imported files.
        fault: why the Hub gave no metadata, as text for people; None where it did.
    """

    commit: str | None = None
    gated: bool = False
    parameter_counts: Mapping[str, int] | None = None
    files: tuple[str, ...] | None = None
    consolidated: bool = True
    pipeline: bool = False
    task: str | None = None
    imported: bool = False
    stated: bool = True
    fault: str | None = None

    def may_hold(self, file: str, *, otherwise: bool) -> bool:
        """Whether the repository lists a file; `otherwise` where the Hub lists no files."""
        return otherwise if self.files is None else file in self.files

    def to_json(self) -> bytes:
        """Return it as JSON for the cache."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, stored: bytes) -> ModelInfo | None:
        """Read the JSON that `to_json` wrote; None if another release of this service wrote other fields."""
        try:
            fields: dict[str, Any] = json.loads(stored)
            files = fields.pop("files")
            return cls(files=None if files is None else tuple(files), **fields)
        except (ValueError, TypeError, KeyError):
            return None


def read_info(answer: Mapping[str, Any]) -> ModelInfo:
    """Read the Hub's response. A part that does not have the expected form is ignored."""
    safetensors = answer.get("safetensors")
    counts = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    whole = isinstance(counts, dict) and len(counts) <= MOST_DTYPES and all(map(_is_count, counts.items()))
    task = answer.get("pipeline_tag")
    names = _names(answer.get("siblings"))
    return replace(
        ModelInfo() if names is None else listed_files(names),
        commit=commit_or_none(answer.get("sha")),
        gated=bool(answer.get("gated")),
        parameter_counts=counts if whole and counts else None,
        task=task if isinstance(task, str) and task in FOREIGN_TASKS else None,
    )


def _is_count(item: tuple[str, object]) -> bool:
    dtype, count = item
    return len(dtype) <= LONGEST_DTYPE and type(count) is int and 0 <= count < MOST_PARAMETERS


def listed_files(names: Collection[str]) -> ModelInfo:
    """Return the metadata that follows from the names of a repository's files."""
    return ModelInfo(
        files=_bounded(names),
        consolidated=any(map(is_consolidated, names)),
        pipeline=PIPELINE_INDEX in names,
    )


def _names(siblings: object) -> list[str] | None:
    if not isinstance(siblings, list):
        return None
    names = [entry.get("rfilename") if isinstance(entry, dict) else None for entry in siblings]
    known = [name for name in names if isinstance(name, str)]
    return known if known and len(known) == len(names) else None


def _bounded(names: Iterable[str]) -> tuple[str, ...]:
    known = {name for name in names if is_allowed(name)}
    weights = sorted(known - SMALL_FILES)
    return (*sorted(known & SMALL_FILES), *weights[:MOST_WEIGHT_FILES])
