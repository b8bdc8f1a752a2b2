"""Finds the model of a local path among the models at hand."""

import re
from typing import Final

from service.hub.bundled.snapshot import BundledSnapshot

_CACHED: Final = re.compile(r"models--([\w.-]{1,100}?)--([\w.-]{1,100}?)(?:/|$)")
"""A model's folder in the cache of the Hub's own tools."""


def local_model(path: str, architecture: str | None, snapshot: BundledSnapshot) -> str | None:
    """Return the id of the one model at hand whose files a path holds; ``None`` if that is not certain.

    The last two parts of the path are an id, or its last part is the name of exactly one model; of several
    it is the one with the logged architecture.
    """
    cached = _CACHED.search(path)
    if cached is not None:
        return f"{cached[1]}/{cached[2]}"
    parts = [part for part in path.split("/") if part not in {"", ".", "..", "~"}]
    if not parts or (
        path.count("/") == 1 and not path.startswith(("/", ".", "~")) and not path.endswith("/")
    ):
        return None
    for specified in ("/".join(parts[-2:]), "/".join(parts[-3:-1])):
        known = snapshot.get(specified) if "/" in specified else None
        if known is not None:
            return known.id
    name = parts[-1].lower()
    same = [each for each in snapshot.ids() if each.rpartition("/")[2].lower() == name]
    if len(same) > 1 and architecture is not None:
        same = [each for each in same if architecture in _architectures(each, snapshot)]
    return same[0] if len(same) == 1 else None


def _architectures(model_id: str, snapshot: BundledSnapshot) -> tuple[str, ...]:
    fetched = snapshot.get(model_id)
    named = None if fetched is None else fetched.config.get("architectures")
    return tuple(map(str, named)) if isinstance(named, list | tuple) else ()
