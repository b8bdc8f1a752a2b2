"""Files of repositories, from the cache or else from the Hub, each asked for once however many want it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from huggingface_hub import hf_hub_url

from service.hub.allowed_files import is_allowed
from service.hub.cache import Key
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
from service.hub.fetched import CONFIG
from service.hub.info import EXPAND, ModelInfo, read_info
from service.hub.json_object import parse_object
from service.hub.model_ids import commit_or_none
from service.hub.requests import MODEL_INFO, HubRequest
from service.hub.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from service.hub.cache import HubCache
    from service.hub.credential import Credential
    from service.hub.transfer import Download

FRESH_SECONDS: Final = 300.0
"""How long a branch is taken to be where it was."""
STALE_SECONDS: Final = 86_400.0
"""How long what the Hub said of a branch may stand in for what it does not say now."""
LONG_BYTES: Final = 1 << 16
"""From which a file is parsed in a thread, so that others are answered meanwhile."""
ABSENT: Final = b"\0"
"""Kept for a file that the repository does not hold at a commit; no JSON is like it."""


class RequestedModel(Protocol):
    """Who is asked for what is not kept."""

    async def get(self, wanted: HubRequest, credential: Credential) -> Download:
        """Download one file, or the span of it that is wanted.

        Raises:
            HubError: the refusal, by its cause.
        """
        ...


@dataclass(frozen=True, slots=True)
class HubSilent:
    """Answers nothing, for a reason."""

    reason: HubError

    async def get(self, wanted: HubRequest, credential: Credential) -> Download:
        """Raise the reason."""
        del wanted, credential
        raise self.reason


@dataclass(frozen=True, slots=True)
class CacheKeys:
    """Where answers are kept: those that all may see, and those of callers' own tokens."""

    shared: HubCache
    own: HubCache

    def of(self, credential: Credential) -> HubCache:
        """Return where what a credential opens is kept."""
        return self.own if credential.own else self.shared

    async def close(self) -> None:
        """Close both."""
        await self.shared.close()
        await self.own.close()


class Repositories:
    """Reads what the Hub holds.

    What lies at a commit never changes, so it is kept for ever; what a branch points to is believed for
    `fresh_seconds`. What a caller's own token opens is kept in memory, under its owner, and never shown to
    another.
    """

    def __init__(
        self,
        requested: RequestedModel,
        endpoint: str,
        cache_keys: CacheKeys,
        depth: int,
        fresh_seconds: float = FRESH_SECONDS,
    ) -> None:
        self._requested = requested
        self._endpoint = endpoint
        self._cache = cache_keys.of
        self._depth = depth
        self._fresh_seconds = fresh_seconds
        self._infos: SingleFlight[ModelInfo] = SingleFlight()
        self._documents: SingleFlight[Mapping[str, Any] | None] = SingleFlight()
        self._parts: SingleFlight[bytes] = SingleFlight()

    async def info(self, credential: Credential, model_id: str, revision: str) -> ModelInfo:
        """Return what the Hub says of a model at a revision.

        Raises:
            HubError: it does not say, and did not say a moment ago.
        """
        key = Key(credential.owner, model_id, revision, MODEL_INFO)
        return await self._infos.join(key, lambda: self._info(credential, key))

    async def specified(self, credential: Credential, model_id: str, revision: str) -> float:
        """Return when the Hub said what is kept of a revision, in seconds since the epoch."""
        kept = await self._cache(credential).get(Key(credential.owner, model_id, revision, MODEL_INFO))
        return 0.0 if kept is None else kept.stored

    async def document(
        self, credential: Credential, model_id: str, revision: str, file: str
    ) -> Mapping[str, Any] | None:
        """Return a JSON file at a revision, None if the repository does not hold it; kept at a commit.

        Raises:
            HubError: it could not be had.
        """
        key = Key(credential.owner, model_id, revision, file)
        return await self._documents.join(key, lambda: self._document(credential, key))

    async def part(
        self, credential: Credential, model_id: str, commit: str, file: str, span: tuple[int, int]
    ) -> bytes | None:
        """Return the bytes of a file from the first to the last of a span, fewer if it ends before; kept.

        Raises:
            HubError: they could not be had.
        """
        place = (model_id, commit)

        async def body() -> bytes:
            found = await self.span(credential, place, file, span)
            return ABSENT if found is None else found

        kept = await self.derived(credential, place, f"{file}#{span[0]}-{span[1]}", body)
        return None if kept == ABSENT else kept

    async def derived(
        self,
        credential: Credential,
        place: tuple[str, str],
        name: str,
        derive: Callable[[], Awaitable[bytes]],
    ) -> bytes:
        """Return what is derived from files at a place (a model's id and a commit); kept under a name.

        Raises:
            HubError: it could not be had.
        """
        key = Key(credential.owner, *place, name)

        async def stored_or_derived() -> bytes:
            kept = await self._cache(credential).get(key)
            if kept is not None:
                return kept.body
            body = await derive()
            await self._cache(credential).put(key, body)
            return body

        return await self._parts.join(key, stored_or_derived)

    async def span(
        self, credential: Credential, place: tuple[str, str], file: str, span: tuple[int, int]
    ) -> bytes | None:
        """Return a span of a file at a place, None if the repository does not hold it; not kept.

        Raises:
            HubError: it could not be had.
        """
        body = await self._download(credential, Key(credential.owner, *place, file), file, span)
        return None if body == ABSENT else body

    async def _info(self, credential: Credential, key: Key) -> ModelInfo:
        cache = self._cache(credential)
        kept = await cache.get(key)
        known = None if kept is None else ModelInfo.from_json(kept.body)
        if kept is not None and known is not None:
            for_ever = commit_or_none(key.revision) is not None and known.fault is None
            if for_ever or 0 <= cache.clock() - kept.stored < self._fresh_seconds:
                return known
        info = await self._requested_info(credential, key)
        await cache.put(key, info.to_json())
        if info.commit is not None and info.fault is None:
            await cache.put(replace(key, revision=info.commit), info.to_json())
        return info

    async def _requested_info(self, credential: Credential, key: Key) -> ModelInfo:
        revision = quote(key.revision, safe="")
        url = f"{self._endpoint}/api/models/{key.model}/revision/{revision}?{EXPAND}"
        try:
            download = await self._requested.get(
                HubRequest(key.model, key.revision, MODEL_INFO, url), credential
            )
            answer = parse_object(download.body, model_id=key.model, file=MODEL_INFO, depth=self._depth)
        except HubError as error:
            if not _of_the_info_alone(error):
                raise
            return await self._info_by_config(credential, key, error)
        info = read_info(answer)
        requested = commit_or_none(key.revision)
        if requested is not None and info.commit not in {None, requested}:
            raise HubUnreachable(key.model, "it answered for another commit")
        return replace(info, commit=info.commit or requested)

    async def _info_by_config(self, credential: Credential, key: Key, fault: HubError) -> ModelInfo:
        """Learn the commit from the config's own answer, where the Hub (mostly a mirror) says no more."""
        requested = commit_or_none(key.revision)
        try:
            download = await self._requested.get(self._wanted(key, CONFIG), credential)
        except ConfigNotFound:
            return ModelInfo(commit=requested, fault=str(fault))
        commit = download.commit or requested
        config = replace(key, revision=commit or key.revision, file=CONFIG)
        await self._parsed(config, download.body)
        if commit is not None:
            await self._cache(credential).put(config, download.body)
        return ModelInfo(commit=commit, fault=str(fault))

    async def _document(self, credential: Credential, key: Key) -> Mapping[str, Any] | None:
        cache, commit = self._cache(credential), commit_or_none(key.revision)
        kept = None if commit is None else await cache.get(key)
        if kept is not None:
            return await self._parsed(key, kept.body)
        body = await self._download(credential, key, key.file)
        document = await self._parsed(key, body)  # before it is kept: what is cut short or no JSON never is
        if commit is not None:
            await cache.put(key, body)
        return document

    async def _download(
        self, credential: Credential, key: Key, file: str, span: tuple[int, int] | None = None
    ) -> bytes:
        if not is_allowed(file):
            raise ConfigNotFound(key.model, file)
        try:
            download = await self._requested.get(self._wanted(key, file, span), credential)
        except ModelNotFound as error:
            if isinstance(error, ConfigNotFound) or (not error.named and file != CONFIG):
                return ABSENT
            raise
        commit = commit_or_none(key.revision)
        if commit is not None and download.commit not in {None, commit}:
            raise HubUnreachable(key.model, "it answered for another commit")
        return download.body

    def _wanted(self, key: Key, file: str, span: tuple[int, int] | None = None) -> HubRequest:
        url = hf_hub_url(key.model, file, revision=key.revision, endpoint=self._endpoint)
        return HubRequest(key.model, key.revision, file, url, span)

    async def _parsed(self, key: Key, body: bytes) -> Mapping[str, Any] | None:
        if body == ABSENT:
            return None
        parse = partial(parse_object, body, model_id=key.model, file=key.file, depth=self._depth)
        return parse() if len(body) < LONG_BYTES else await asyncio.to_thread(parse)


def _of_the_info_alone(error: HubError) -> bool:
    if isinstance(error, ModelNotFound):
        return not error.named
    if isinstance(error, HubUnreachable):
        return error.status is not None
    # A used-up quota of questions leaves that of files, unless the Hub refused: then nothing is asked.
    return isinstance(error, ConfigNotJson | ConfigTooLarge | ConfigTooDeep | HubRateLimited)
