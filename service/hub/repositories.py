"""Reads files and metadata of repositories, from the cache or else from the Hub.

Concurrent callers that need the same file share one request (single flight).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from service.hub.caches.cache import CacheKey
from service.hub.caches.single_flight import SingleFlight
from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    HubError,
    HubRateLimited,
    HubUnreachable,
    ModelNotFound,
)
from service.hub.formats.json_object import parse_object
from service.hub.model_files.allowed_files import is_allowed
from service.hub.model_files.fetched_config import CONFIG
from service.hub.model_files.model_ids import commit_or_none
from service.hub.model_files.model_info import EXPAND, ModelInfo, read_info
from service.hub.transport.hub_library import hub_library
from service.hub.transport.requests import MODEL_INFO, HubRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from service.hub.caches.cache import HubCache
    from service.hub.transport.credential import Credential
    from service.hub.transport.transfer import Download

FRESH_SECONDS: Final = 300.0
"""How long the commit of a branch is used from the cache without a new request."""
STALE_SECONDS: Final = 86_400.0
"""How old a cached response about a branch may be when it is used because the Hub fails."""
LONG_BYTES: Final = 1 << 16
"""A file of this size or more is parsed in a thread, so that the event loop is not blocked."""
ABSENT: Final = b"\0"
"""Stored for a file that a repository does not have at a commit. No JSON text equals it."""


class Downloader(Protocol):
    """Downloads files that are not in the cache."""

    async def get(self, request: HubRequest, credential: Credential) -> Download:
        """Download one file, or the requested span of it.

        Raises:
            HubError: the download failed; the subclass names the cause.
        """
        ...


@dataclass(frozen=True, slots=True)
class FailingDownloader:
    """Downloads nothing and always raises `reason`, so that only cached files are used."""

    reason: HubError

    async def get(self, request: HubRequest, credential: Credential) -> Download:
        """Raise the reason."""
        del request, credential
        raise self.reason


@dataclass(frozen=True, slots=True)
class Caches:
    """The cache that all callers share, and the cache for files fetched with callers' own tokens."""

    shared: HubCache
    own: HubCache

    def of(self, credential: Credential) -> HubCache:
        """Return the cache for files fetched with a credential."""
        return self.own if credential.own else self.shared

    async def close(self) -> None:
        """Close both."""
        await self.shared.close()
        await self.own.close()


class Repositories:
    """Reads repositories of one endpoint through the caches.

    Files at a commit never change, so they are cached without an end. The commit of a branch is cached for
    `fresh_seconds`. Files fetched with a caller's own token are cached in memory under its owner and never
    shown to another caller. `depth` is the most levels of a JSON file.
    """

    def __init__(
        self,
        downloader: Downloader,
        endpoint: str,
        caches: Caches,
        depth: int,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._downloader = downloader
        self._endpoint = endpoint
        self._cache = caches.of
        self._depth = depth
        self._fresh_seconds = fresh_seconds
        self._infos: SingleFlight[ModelInfo] = SingleFlight()
        self._documents: SingleFlight[Mapping[str, Any] | None] = SingleFlight()
        self._parts: SingleFlight[bytes] = SingleFlight()

    async def info(self, credential: Credential, model_id: str, revision: str) -> ModelInfo:
        """Return the Hub's metadata of a model at a revision.

        Raises:
            HubError: it is not in the cache and could not be fetched.
        """
        key = CacheKey(credential.owner, model_id, revision, MODEL_INFO)
        return await self._infos.join(key, lambda: self._info(credential, key))

    async def info_stored_at(self, credential: Credential, model_id: str, revision: str) -> float:
        """Return when the metadata of a revision was cached, in seconds since the epoch; 0 if it is not."""
        entry = await self._cache(credential).get(CacheKey(credential.owner, model_id, revision, MODEL_INFO))
        return 0.0 if entry is None else entry.stored

    async def document(
        self, credential: Credential, model_id: str, revision: str, file: str
    ) -> Mapping[str, Any] | None:
        """Return a JSON file at a revision; None if the repository does not have it. Cached at a commit.

        Raises:
            HubError: the file could not be fetched, or it is not a valid JSON object.
        """
        key = CacheKey(credential.owner, model_id, revision, file)
        return await self._documents.join(key, lambda: self._document(credential, key))

    async def part(
        self, credential: Credential, model_id: str, commit: str, file: str, span: tuple[int, int]
    ) -> bytes | None:
        """Return a span of a file (first and last byte, both included), and cache it.

        The result is shorter if the file ends before the span; None if the repository does not have the file.

        Raises:
            HubError: the span could not be fetched.
        """
        place = (model_id, commit)

        async def body() -> bytes:
            found = await self.span(credential, place, file, span)
            return ABSENT if found is None else found

        stored = await self.derived(credential, place, f"{file}#{span[0]}-{span[1]}", body)
        return None if stored == ABSENT else stored

    async def derived(
        self,
        credential: Credential,
        place: tuple[str, str],
        name: str,
        derive: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """Return the bytes cached under a name for a place (a model's id and a commit), or derive them.

        `derive` is called if they are not in the cache; its result is cached.

        Raises:
            HubError: `derive` raised it.
        """
        key = CacheKey(credential.owner, *place, name)

        async def stored_or_derived() -> bytes:
            entry = await self._cache(credential).get(key)
            if entry is not None:
                return entry.body
            body = await derive()
            await self._cache(credential).put(key, body)
            return body

        return await self._parts.join(key, stored_or_derived)

    async def span(
        self, credential: Credential, place: tuple[str, str], file: str, span: tuple[int, int]
    ) -> bytes | None:
        """Return a span of a file at a place, without the cache; None if the repository does not have it.

        Raises:
            HubError: the span could not be fetched.
        """
        body = await self._download(credential, CacheKey(credential.owner, *place, file), file, span)
        return None if body == ABSENT else body

    async def _info(self, credential: Credential, key: CacheKey) -> ModelInfo:
        cache = self._cache(credential)
        entry = await cache.get(key)
        known = None if entry is None else ModelInfo.from_json(entry.body)
        if entry is not None and known is not None:
            immutable = commit_or_none(key.revision) is not None and known.fault is None
            if immutable or 0 <= cache.clock() - entry.stored < self._fresh_seconds:
                return known
        info = await self._download_info(credential, key)
        await cache.put(key, info.to_json())
        if info.commit is not None and info.fault is None:
            await cache.put(replace(key, revision=info.commit), info.to_json())
        return info

    async def _download_info(self, credential: Credential, key: CacheKey) -> ModelInfo:
        revision = quote(key.revision, safe="")
        url = f"{self._endpoint}/api/models/{key.model}/revision/{revision}?{EXPAND}"
        try:
            download = await self._downloader.get(
                HubRequest(key.model, key.revision, MODEL_INFO, url), credential
            )
            answer = parse_object(download.body, model_id=key.model, file=MODEL_INFO, depth=self._depth)
        except HubError as error:
            if not _concerns_info_only(error):
                raise
            return await self._info_by_config(credential, key, error)
        info = read_info(answer)
        requested = commit_or_none(key.revision)
        if requested is not None and info.commit not in {None, requested}:
            raise HubUnreachable(key.model, "its response is for another commit")
        return replace(info, commit=info.commit or requested)

    async def _info_by_config(self, credential: Credential, key: CacheKey, fault: HubError) -> ModelInfo:
        """Take the commit from the headers of config.json, if the Hub (mostly a mirror) has no metadata."""
        requested = commit_or_none(key.revision)
        try:
            download = await self._downloader.get(await self._request(key, CONFIG), credential)
        except ConfigNotFound:
            return ModelInfo(commit=requested, fault=str(fault))
        commit = download.commit or requested
        config = replace(key, revision=commit or key.revision, file=CONFIG)
        await self._parsed(config, download.body)
        if commit is not None:
            await self._cache(credential).put(config, download.body)
        return ModelInfo(commit=commit, fault=str(fault))

    async def _document(self, credential: Credential, key: CacheKey) -> Mapping[str, Any] | None:
        cache, commit = self._cache(credential), commit_or_none(key.revision)
        entry = None if commit is None else await cache.get(key)
        if entry is not None:
            return await self._parsed(key, entry.body)
        body = await self._download(credential, key, key.file)
        document = await self._parsed(key, body)  # before it is cached, so that no invalid file ever is
        if commit is not None:
            await cache.put(key, body)
        return document

    async def _download(
        self, credential: Credential, key: CacheKey, file: str, span: tuple[int, int] | None = None
    ) -> bytes:
        if not is_allowed(file):
            raise ConfigNotFound(key.model, file)
        try:
            download = await self._downloader.get(await self._request(key, file, span), credential)
        except ModelNotFound as error:
            if isinstance(error, ConfigNotFound) or (not error.named and file != CONFIG):
                return ABSENT
            raise
        commit = commit_or_none(key.revision)
        if commit is not None and download.commit not in {None, commit}:
            raise HubUnreachable(key.model, "its response is for another commit")
        return download.body

    async def _request(self, key: CacheKey, file: str, span: tuple[int, int] | None = None) -> HubRequest:
        url: str = (await hub_library()).hf_hub_url(
            key.model, file, revision=key.revision, endpoint=self._endpoint
        )
        return HubRequest(key.model, key.revision, file, url, span)

    async def _parsed(self, key: CacheKey, body: bytes) -> Mapping[str, Any] | None:
        if body == ABSENT:
            return None
        parse = partial(parse_object, body, model_id=key.model, file=key.file, depth=self._depth)
        return parse() if len(body) < LONG_BYTES else await asyncio.to_thread(parse)


def _concerns_info_only(error: HubError) -> bool:
    if isinstance(error, ModelNotFound):
        return not error.named
    if isinstance(error, HubUnreachable):
        return error.status is not None
    # The Hub counts API requests and files apart: if only the quota for the API is used up, files can still
    # be fetched. After a 429 the circuit breaker blocks both.
    return isinstance(error, ConfigNotJson | ConfigTooLarge | ConfigTooDeep | HubRateLimited)
