"""Finds models in local folders and imports them into the cache, for machines without access to the Hub.

A folder may be a cache of the Hub's own tools (`models--org--name/snapshots/<commit>/`), a download by those
tools (`org/name/`, with the commit in a metadata file), or any tree with models at `org/name/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from service.hub.caches.cache import CacheKey
from service.hub.errors import ConfigTooLarge
from service.hub.formats.json_object import parse_object
from service.hub.formats.weights_index import SPAN
from service.hub.limits import DEFAULT_LIMITS
from service.hub.model_files.assemble import INDEXES
from service.hub.model_files.fetched_config import CONFIG, HF_QUANT_CONFIG, PARAMS
from service.hub.model_files.model_ids import DEFAULT_REVISION, check_model_id, commit_or_none
from service.hub.model_files.model_info import listed_files
from service.hub.transport.credential import SHARED
from service.hub.transport.requests import MODEL_INFO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.hub.caches.cache import HubCache
    from service.hub.model_files.model_info import ModelInfo

DEPTH: Final = 6
"""Levels of folders that are searched."""
_DOCUMENTS: Final = (CONFIG, PARAMS, HF_QUANT_CONFIG)
_REPOSITORY_PREFIX: Final = "models--"
_METADATA: Final = (".cache", "huggingface", "download")


@dataclass(frozen=True, slots=True)
class FolderModel:
    """A model found in a folder.

    Attributes:
        id: the model's id, `organisation/name`.
        commit: the commit of its files; None where the folder does not state it.
        default: whether its default branch points to this commit; True where the folder states no branches.
        folder: the folder with its files.
    """

    id: str
    commit: str | None
    default: bool
    folder: Path


def models_below(folder: Path, model_id: str | None = None) -> Iterator[FolderModel]:
    """Find models in a folder and below it, in alphabetical order.

    `model_id` is the id of the model if its files are in `folder` itself; by default the id is taken from the
    names of the folder and its parent.
    """
    if _holds_model(folder):
        resolved = folder.resolve()
        found = model_id or f"{resolved.parent.name}/{resolved.name}"
        yield FolderModel(found, _downloaded_commit(folder), default=True, folder=folder)
    else:
        yield from _below(folder, DEPTH)


def _below(folder: Path, depth: int) -> Iterator[FolderModel]:
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        if child.name.startswith(_REPOSITORY_PREFIX):
            yield from _snapshots(child)
        elif _holds_model(child):
            found = f"{child.parent.resolve().name}/{child.name}"
            yield FolderModel(found, _downloaded_commit(child), default=True, folder=child)
        elif depth > 0 and not child.name.startswith("."):
            yield from _below(child, depth - 1)


def _holds_model(folder: Path) -> bool:
    return any((folder / file).is_file() for file in (CONFIG, PARAMS))


def _snapshots(repository: Path) -> Iterator[FolderModel]:
    model_id = repository.name.removeprefix(_REPOSITORY_PREFIX).replace("--", "/")
    main = _first_line(repository / "refs" / DEFAULT_REVISION)
    snapshots = repository / "snapshots"
    for snapshot in sorted(snapshots.iterdir()) if snapshots.is_dir() else ():
        commit = commit_or_none(snapshot.name)
        if commit is not None and _holds_model(snapshot):
            yield FolderModel(model_id, commit, default=commit == main, folder=snapshot)


def _downloaded_commit(folder: Path) -> str | None:
    return commit_or_none(_first_line(folder.joinpath(*_METADATA, f"{CONFIG}.metadata")))


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return lines.readline(200).strip()
    except OSError:
        return ""


async def import_model(model: FolderModel, cache: HubCache) -> ModelInfo:
    """Store a model's files in the cache as if they came from the Hub, and return the stored metadata.

    Raises:
        HubError: the id or a file is invalid in a way that the Hub client also rejects.
        OSError: a file cannot be read.
    """
    check_model_id(model.id)
    bodies = dict(_bodies(model))
    digest = sha256(b"".join(bodies[file] for file in sorted(bodies))).hexdigest()
    info = listed_files(_names(model.folder))
    info = replace(info, commit=model.commit or digest[:40], imported=True, stated=model.commit is not None)
    at = CacheKey(SHARED, model.id, info.commit or "", MODEL_INFO)
    for file, body in bodies.items():
        await cache.put(replace(at, file=file), body)
    keys = [at, replace(at, revision=DEFAULT_REVISION)] if model.default else [at]
    for key in keys:
        await cache.put(key, info.to_json())
    return info


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _bodies(model: FolderModel) -> Iterator[tuple[str, bytes]]:
    for file in (*_DOCUMENTS, *INDEXES):
        path = model.folder / file
        if not path.is_file():
            continue
        if file in INDEXES:
            yield f"{file}#{SPAN[0]}-{SPAN[1]}", _beginning(path, SPAN[1] + 1)
            continue
        body = _beginning(path, DEFAULT_LIMITS.file_bytes + 1)
        if len(body) > DEFAULT_LIMITS.file_bytes:
            raise ConfigTooLarge(model.id, file, DEFAULT_LIMITS.file_bytes)
        parse_object(body, model_id=model.id, file=file, depth=DEFAULT_LIMITS.depth)
        yield file, body


def _beginning(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)
