"""Asks the Hub for a model's config.

Two rounds: what the model's revision points to and which files lie there, then those files in parallel, at
that commit. Where the Hub lists no files (a mirror, mostly) they are asked for without knowing.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final

from service.hub.allowed_files import MOST_WEIGHT_FILES
from service.hub.assemble import INDEXES, assemble, files_of_a_round
from service.hub.cache import HubCache
from service.hub.checkpoint_weights import (
    Weights,
    no_weights,
    read_weights,
    weight_files,
)
from service.hub.circuit_breaker import CircuitBreaker
from service.hub.credential import Credential
from service.hub.endpoint import Endpoint
from service.hub.errors import (
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    HubError,
    HubRateLimited,
    HubTimedOut,
    HubUnreachable,
)
from service.hub.fetched import CONFIG, PARAMS, FetchedConfig
from service.hub.model_ids import DEFAULT_REVISION, check_model_id, check_revision
from service.hub.negative_cache import NegativeCache
from service.hub.repository import (
    FRESH_SECONDS,
    STALE_SECONDS,
    CacheKeys,
    HubSilent,
    Repositories,
    RequestedModel,
)
from service.hub.single_flight import SingleFlight
from service.hub.transfer import DEFAULT_LIMITS, Transfer, TransferLimits
from service.hub.weights_index import SPAN, total_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import httpx2

    from service.hub.info import ModelInfo

OWN_BYTES: Final = 16 << 20
"""What is kept, in memory, of what callers' own tokens open."""
_PASSING: Final = (HubUnreachable, HubTimedOut, HubRateLimited)
"""Faults of which nothing follows for the model."""
_UNUSABLE: Final = (ConfigNotJson, ConfigTooLarge, ConfigTooDeep)
"""Answers that may be the repository's own fault, or come from something between the Hub and here."""


class HubClient:
    """Fetches configs from one endpoint over a shared HTTP client, which stays the caller's to close.

    The endpoint belongs to the service, never to a request. What the service's own token opens is shown to
    whoever may ask this service; what a caller's opens, to that caller alone.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        endpoint: Endpoint | None = None,
        limits: TransferLimits = DEFAULT_LIMITS,
        cache: HubCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        endpoint = Endpoint() if endpoint is None else endpoint
        self._endpoint = endpoint.address
        self._credential = Credential(endpoint.token)
        self._limits = limits
        self._gate = CircuitBreaker(clock)
        shared = HubCache() if cache is None else cache
        self._shelves = CacheKeys(shared, HubCache(limit_bytes=OWN_BYTES, clock=shared.clock))
        self._transfer = Transfer(http, endpoint, limits, self._gate)
        self._repositories = self._reading(self._transfer, FRESH_SECONDS)
        self._fetches: SingleFlight[FetchedConfig] = SingleFlight()
        self._refusals = NegativeCache(clock)

    def _reading(self, requested: RequestedModel, fresh_seconds: float) -> Repositories:
        return Repositories(requested, self._endpoint, self._shelves, self._limits.depth, fresh_seconds)

    async def close(self) -> None:
        """Close what keeps answers."""
        await self._shelves.close()

    async def fetch(
        self, model_id: str, revision: str | None = None, credential: Credential | None = None
    ) -> FetchedConfig:
        """Fetch a model's config at a revision (the default branch if None), within `Limits.total_seconds`.

        Asked by a caller's own `credential`, the answer is that caller's alone.

        Raises:
            HubError: the config could not be had, by its cause.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        check_model_id(model_id)
        check_revision(model_id, revision)
        asking = self._credential if credential is None else credential
        key = (asking.owner, model_id, revision)
        return await self._fetches.join(key, lambda: self._in_time(asking, model_id, revision))

    async def weights(
        self,
        model_id: str,
        revision: str | None = None,
        credential: Credential | None = None,
        *,
        file: str | None = None,
        most_files: int = MOST_WEIGHT_FILES,
    ) -> tuple[str, Weights]:
        """Read the headers of a model's weights; return the commit and what they tell.

        What could be read in `Limits.total_seconds` is told and kept: asked again, the rest is read.

        Raises:
            HubError: they could not be had, or there are more files than `most_files`.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        check_model_id(model_id)
        check_revision(model_id, revision)
        asking = self._credential if credential is None else credential
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                info = await self._repositories.info(asking, model_id, revision)
        except TimeoutError:
            raise HubTimedOut(model_id) from None
        files = weight_files(info, file)
        if info.commit is None or not 0 < len(files) <= most_files:
            raise no_weights(model_id, info, file)
        place, key = (model_id, info.commit), (asking.owner, model_id, info.commit, files)
        self._refusals.check(key)
        try:
            weights = await read_weights(self._repositories, asking, place, files, self._limits.total_seconds)
        except HubError as error:
            if not isinstance(error, HubTimedOut | HubRateLimited):
                self._refusals.keep(key, error)
            raise
        return info.commit, weights

    async def _in_time(self, asking: Credential, model_id: str, revision: str) -> FetchedConfig:
        key = (asking.owner, model_id, revision)
        try:
            self._refusals.check(key)
            async with asyncio.timeout(self._limits.total_seconds):
                return await self._fetch(self._repositories, asking, model_id, revision)
        except TimeoutError:
            # No evidence against the Hub: a store may be slow, or all connections be taken. What the Hub
            # itself does not answer in time the transfer has counted.
            return await self._stale(asking, model_id, revision, HubTimedOut(model_id))
        except _PASSING as failure:
            return await self._stale(asking, model_id, revision, failure)
        except HubError as error:
            self._refusals.keep(key, error)
            if isinstance(error, _UNUSABLE):
                return await self._stale(asking, model_id, revision, error)
            raise

    async def _fetch(
        self, repositories: Repositories, asking: Credential, model_id: str, revision: str
    ) -> FetchedConfig:
        info = await repositories.info(asking, model_id, revision)
        at = info.commit or revision
        names = [file for file in files_of_a_round(info) if file not in INDEXES]
        *documents, total = await _together(
            *(repositories.document(asking, model_id, at, file) for file in names),
            self._total_bytes(repositories, asking, model_id, info),
        )
        files = dict(zip(names, documents, strict=True))
        if info.files is None and files[CONFIG] is None:
            files[PARAMS] = await repositories.document(asking, model_id, at, PARAMS)
        return assemble(model_id, self._provenance(model_id, revision, info), info, files, total)

    def _provenance(self, model_id: str, revision: str, info: ModelInfo) -> str:
        place = f"commit {info.commit}" if info.commit and info.stated else revision
        return f"{'imported files' if info.imported else f'{self._endpoint}/{model_id}'} at {place}"

    async def _total_bytes(
        self, repositories: Repositories, asking: Credential, model_id: str, info: ModelInfo
    ) -> int | None:
        """Return the bytes of all weights by their index, which is a help and never a hindrance."""
        index = next((file for file in files_of_a_round(info) if file in INDEXES), None)
        if index is None or info.commit is None:
            return None
        key = (asking.owner, model_id, info.commit, index)
        try:
            self._refusals.check(key)
            async with asyncio.timeout(self._limits.total_seconds / 4):
                beginning = await repositories.part(asking, model_id, info.commit, index, SPAN)
        except TimeoutError:
            self._refusals.keep(key, HubTimedOut(model_id))
            return None
        except HubError as error:
            self._refusals.keep(key, error)
            return None
        return None if beginning is None else total_bytes(beginning)

    async def recall(
        self, model_id: str, revision: str | None = None, credential: Credential | None = None
    ) -> FetchedConfig:
        """Return what is kept of an earlier answer, however old, without asking the Hub.

        Raises:
            HubError: not all of it is kept.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        asking = self._credential if credential is None else credential
        unasked = HubUnreachable(model_id, "it was not asked")
        fetched, when = await self._recalled(asking, model_id, revision, unasked, inf)
        return replace(fetched, note=f"this was kept at {when}; the Hub is not asked")

    async def _stale(
        self, asking: Credential, model_id: str, revision: str, failure: HubError
    ) -> FetchedConfig:
        """Return what the Hub said within a day in place of what it does not say now.

        Raises:
            HubError: `failure`, where it said nothing.
        """
        fetched, when = await self._recalled(asking, model_id, revision, failure, STALE_SECONDS)
        return replace(fetched, stale=True, note=f"this is what the Hub said at {when}, since {failure}")

    async def _recalled(
        self, asking: Credential, model_id: str, revision: str, failure: HubError, within: float
    ) -> tuple[FetchedConfig, str]:
        kept = self._reading(HubSilent(failure), within)
        fetched = await self._fetch(kept, asking, model_id, revision)
        when = datetime.fromtimestamp(await kept.specified(asking, model_id, revision), UTC)
        return fetched, f"{when:%Y-%m-%d %H:%M} UTC"


async def _together(*fetches: Coroutine[object, object, Any]) -> list[Any]:
    """Return what all fetches do; the first to be named that fails, fails all."""
    tasks = [asyncio.ensure_future(fetch) for fetch in fetches]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
