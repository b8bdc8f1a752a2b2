"""GgufName: weights in GGUF's format on the Hub, as `llama-server -hf` names them, and which files those are.

Source: llama.cpp 0216dab36, common/download.cpp `find_best_model` and `get_split_files`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.hub.model_files.allowed_files import is_gguf

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TAGS: Final = ("Q4_K_M", "Q8_0")
"""Quantizations that are tried, in order, where none is named; then any file is taken."""
_TAG: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_SPLIT: Final = re.compile(r"(?P<prefix>.*)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf", re.ASCII)
_NO_MODEL: Final = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
"""Parts of the names of files that are no model of their own."""


@dataclass(frozen=True, slots=True)
class GgufName:
    """A repository, with a quantization or a file where one is named."""

    model_id: str
    tag: str | None = None
    file: str | None = None

    @classmethod
    def of(cls, text: str) -> GgufName | None:
        """Read `org/name:Q4_K_M` and `org/name/file.gguf`; `None` for any other text."""
        model_id, colon, tag = text.partition(":")
        if colon and model_id.count("/") == 1 and _TAG.fullmatch(tag):
            return cls(model_id, tag=tag)
        organisation, *rest = text.split("/", 2)
        if len(rest) == len(("name", "file")) and organisation and is_gguf(rest[1]):
            return cls(f"{organisation}/{rest[0]}", file=rest[1])
        return None

    @property
    def is_explicit(self) -> bool:
        """Whether it names GGUF weights by itself: by a quantization, a file, or the repository's name."""
        return self.tag is not None or self.file is not None or "gguf" in self.model_id.lower()

    def __str__(self) -> str:
        """Return it as people write it."""
        if self.file is not None:
            return f"{self.model_id}/{self.file}"
        return self.model_id if self.tag is None else f"{self.model_id}:{self.tag}"

    def words(self) -> tuple[str, ...]:
        """Return the words of a command of `llama-server`."""
        if self.file is not None:
            return ("-hf", self.model_id, "-hff", self.file)
        return ("-hf", str(self))

    def files(self, listed: Sequence[str]) -> tuple[str, ...]:
        """Return the files of the model, all parts of a split one; none if the repository lists none."""
        first = self._first([name for name in listed if is_gguf(name)])
        if first is None:
            return ()
        split = _SPLIT.fullmatch(first)
        if split is None:
            return (first,)
        found = [(name, _SPLIT.fullmatch(name)) for name in listed]
        same = (
            name
            for name, other in found
            if other and other["prefix"] == split["prefix"] and other["count"] == split["count"]
        )
        return tuple(sorted(same))

    def _first(self, listed: Sequence[str]) -> str | None:
        if self.file is not None:
            return next((name for name in listed if name.lower() == self.file.lower()), None)
        models = [name for name in listed if _is_model(name)]
        for tag in DEFAULT_TAGS if self.tag is None else (self.tag,):
            pattern = re.compile(re.escape(tag) + "[.-]", re.IGNORECASE)
            for name in models:
                if pattern.search(name):
                    return name
        return models[0] if models and self.tag is None else None


def projector_of(listed: Sequence[str]) -> str | None:
    """Return the file of an encoder of images that `-hf` loads too; `None` if there is none."""
    return next((name for name in listed if is_gguf(name) and "mmproj" in name.rpartition("/")[2]), None)


def _is_model(file: str) -> bool:
    name, split = file.rpartition("/")[2], _SPLIT.fullmatch(file)
    return not any(part in name for part in _NO_MODEL) and (split is None or int(split["index"]) == 1)
