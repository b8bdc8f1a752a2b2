"""Fetches a model's config from the Hub.

One request gets the commit of the revision and its list of files; then the files are requested in parallel at
that commit. If the Hub lists no files (mostly mirrors), the files are requested without a list.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, Final

from service.hub.caches.cache import HubCache
from service.hub.caches.negative_cache import NegativeCache
from service.hub.caches.single_flight import SingleFlight
from service.hub.checkpoint_weights import (
    FILES_AT_ONCE,
    Weights,
    no_gguf,
    no_weights,
    read_weights,
    weight_files,
)
from service.hub.errors import (
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    HubError,
    HubRateLimited,
    HubTimedOut,
    HubUnreachable,
)
from service.hub.formats.weights_index import SPAN, total_bytes
from service.hub.gguf_headers import MOST_PARTS, GgufOnHub, gguf_header, whole_header
from service.hub.limits import DEFAULT_LIMITS, TransferLimits
from service.hub.model_files.allowed_files import MOST_WEIGHT_FILES
from service.hub.model_files.assemble import INDEXES, assemble, files_to_fetch, reads_tokenizer
from service.hub.model_files.fetched_config import CONFIG, PARAMS, TOKENIZER, FetchedConfig
from service.hub.model_files.gguf_name import projector_of
from service.hub.model_files.model_ids import DEFAULT_REVISION, check_model_id, check_revision
from service.hub.repositories import (
    FRESH_SECONDS,
    STALE_SECONDS,
    Caches,
    Downloader,
    FailingDownloader,
    Repositories,
)
from service.hub.transport.circuit_breaker import CircuitBreaker
from service.hub.transport.credential import Credential
from service.hub.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import httpx2

    from service.hub.formats.gguf import GgufHeader
    from service.hub.model_files.gguf_name import GgufName
    from service.hub.model_files.model_info import ModelInfo
    from service.hub.transport.requests import HubRequest
    from service.hub.transport.transfer import Download, Transfer

OWN_BYTES: Final = 16 << 20
"""Size of the cache, in memory, for files fetched with callers' own tokens."""
_TRANSIENT: Final = (HubUnreachable, HubTimedOut, HubRateLimited)
"""Transient faults: they say nothing about the model."""
_UNUSABLE: Final = (ConfigNotJson, ConfigTooLarge, ConfigTooDeep)
"""Unusable files: either the repository is at fault, or a proxy between the Hub and this service."""


class _FirstUse:
    """Downloads with a `Transfer` that is built at the first download.

    What is stored or bundled needs no HTTP, whose libraries take a tenth of a second to import.
    """

    def __init__(self, build: Callable[[], Transfer]) -> None:
        self._build = build
        self._transfer: Transfer | None = None

    async def get(self, request: HubRequest, credential: Credential) -> Download:
        """Download one file, or the requested span of it; for errors see `Transfer.get`."""
        if self._transfer is None:
            self._transfer = self._build()
        return await self._transfer.get(request, credential)


class HubClient:
    """Fetches configs from one endpoint. The caller closes the HTTP client.

    The endpoint comes from the service's settings, never from a request. Files fetched with the service's own
    token are shown to every user of the service; files fetched with a caller's token, only to that caller.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient | Callable[[], httpx2.AsyncClient],
        *,
        endpoint: Endpoint | None = None,
        limits: TransferLimits = DEFAULT_LIMITS,
        cache: HubCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``http``: the client for HTTP, or what returns it at the first download."""
        endpoint = Endpoint() if endpoint is None else endpoint
        self._endpoint = endpoint.address
        self._credential = Credential(endpoint.token)
        self._limits = limits
        self._breaker = CircuitBreaker(clock)
        shared = HubCache() if cache is None else cache
        self._caches = Caches(shared, HubCache(limit_bytes=OWN_BYTES, clock=shared.clock))

        def transfer() -> Transfer:
            from service.hub.transport.transfer import Transfer  # noqa: PLC0415 - see `_FirstUse`

            client = http() if callable(http) else http
            return Transfer(client, endpoint, limits, self._breaker)

        self._transfer = _FirstUse(transfer)
        self._repositories = self._repositories_from(self._transfer, FRESH_SECONDS)
        self._fetches: SingleFlight[FetchedConfig] = SingleFlight()
        self._negative_cache = NegativeCache(clock)

    def _repositories_from(self, downloader: Downloader, fresh_seconds: float) -> Repositories:
        return Repositories(downloader, self._endpoint, self._caches, self._limits.depth, fresh_seconds)

    @property
    def on_cache_lookup(self) -> list[Callable[[bool], None]]:
        """Called with whether the shared cache had an entry, at each look-up."""
        return self._caches.shared.on_lookup

    async def close(self) -> None:
        """Close the caches."""
        await self._caches.close()

    async def fetch(
        self, model_id: str, revision: str | None = None, credential: Credential | None = None
    ) -> FetchedConfig:
        """Fetch a model's config at a revision (None: the default branch), within `Limits.total_seconds`.

        With a caller's own `credential` the result must be shown to that caller only. If the Hub fails, a
        response stored within `STALE_SECONDS` is returned instead, marked as stale.

        Raises:
            HubError: the config could not be fetched; the subclass names the cause.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        check_model_id(model_id)
        check_revision(model_id, revision)
        effective = self._credential if credential is None else credential
        key = (effective.owner, model_id, revision)
        return await self._fetches.join(key, lambda: self._in_time(effective, model_id, revision))

    async def weights(
        self,
        model_id: str,
        revision: str | None = None,
        credential: Credential | None = None,
        *,
        file: str | None = None,
        most_files: int = MOST_WEIGHT_FILES,
    ) -> tuple[str, Weights]:
        """Read the headers of a model's weight files; return the commit and the weights.

        Headers read within `Limits.total_seconds` are returned and cached; a later call reads the rest.

        Raises:
            HubError: no header could be fetched, or there are more files than `most_files`.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        check_model_id(model_id)
        check_revision(model_id, revision)
        effective = self._credential if credential is None else credential
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                info = await self._repositories.info(effective, model_id, revision)
        except TimeoutError:
            raise HubTimedOut(model_id) from None
        files = weight_files(info, file)
        if info.commit is None or not 0 < len(files) <= most_files:
            raise no_weights(model_id, info, file)
        place, key = (model_id, info.commit), (effective.owner, model_id, info.commit, files)
        self._negative_cache.check(key)
        try:
            weights = await read_weights(
                self._repositories, effective, place, files, self._limits.total_seconds
            )
        except HubError as error:
            if not isinstance(error, HubTimedOut | HubRateLimited):
                self._negative_cache.store(key, error)
            raise
        return info.commit, weights

    async def gguf(
        self, name: GgufName, revision: str | None = None, credential: Credential | None = None
    ) -> GgufOnHub:
        """Read the header of a model in GGUF's format, all its files within `Limits.total_seconds`.

        Raises:
            HubError: the repository has no such model, or a header could not be fetched or read.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        model_id = name.model_id
        check_model_id(model_id)
        check_revision(model_id, revision)
        effective = self._credential if credential is None else credential
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                info = await self._repositories.info(effective, model_id, revision)
                listed = info.files or ()
                files = name.files(listed)
                if info.commit is None or not 0 < len(files) <= MOST_PARTS:
                    raise no_gguf(name, info)
                place = (model_id, info.commit)
                headers = await self._gguf_headers(effective, place, files)
        except TimeoutError:
            raise HubTimedOut(model_id) from None
        return GgufOnHub(info.commit, files, whole_header(headers), projector_of(listed))

    async def _gguf_headers(
        self, credential: Credential, place: tuple[str, str], files: tuple[str, ...]
    ) -> list[GgufHeader]:
        key = (credential.owner, *place, files, "gguf")
        self._negative_cache.check(key)
        parallel = asyncio.Semaphore(FILES_AT_ONCE)

        async def read(file: str) -> GgufHeader:
            async with parallel:
                return await gguf_header(self._repositories, credential, place, file)

        try:
            return await _together(*map(read, files))
        except HubError as error:
            if not isinstance(error, HubTimedOut | HubRateLimited):
                self._negative_cache.store(key, error)
            raise

    async def _in_time(self, credential: Credential, model_id: str, revision: str) -> FetchedConfig:
        key = (credential.owner, model_id, revision)
        try:
            self._negative_cache.check(key)
            async with asyncio.timeout(self._limits.total_seconds):
                return await self._fetch(self._repositories, credential, model_id, revision)
        except TimeoutError:
            # This is not recorded as a failure of the Hub: a storage host may be slow, or all connections may
            # be in use. The transfer records the requests that the Hub itself does not answer in time.
            return await self._stale(credential, model_id, revision, HubTimedOut(model_id))
        except _TRANSIENT as failure:
            return await self._stale(credential, model_id, revision, failure)
        except HubError as error:
            self._negative_cache.store(key, error)
            if isinstance(error, _UNUSABLE):
                return await self._stale(credential, model_id, revision, error)
            raise

    async def _fetch(
        self, repositories: Repositories, credential: Credential, model_id: str, revision: str
    ) -> FetchedConfig:
        info = await repositories.info(credential, model_id, revision)
        at = info.commit or revision
        names = [file for file in files_to_fetch(info) if file not in INDEXES]
        *documents, total = await _together(
            *(repositories.document(credential, model_id, at, file) for file in names),
            self._total_bytes(repositories, credential, model_id, info),
        )
        files = dict(zip(names, documents, strict=True))
        if info.files is None and files[CONFIG] is None:
            files[PARAMS] = await repositories.document(credential, model_id, at, PARAMS)
        if reads_tokenizer(info, files):
            files[TOKENIZER] = await repositories.document(credential, model_id, at, TOKENIZER)
        return assemble(model_id, self._provenance(model_id, revision, info), info, files, total)

    def _provenance(self, model_id: str, revision: str, info: ModelInfo) -> str:
        place = f"commit {info.commit}" if info.commit and info.stated else revision
        return f"{'imported files' if info.imported else f'{self._endpoint}/{model_id}'} at {place}"

    async def _total_bytes(
        self, repositories: Repositories, credential: Credential, model_id: str, info: ModelInfo
    ) -> int | None:
        """Return the bytes of all tensors as the weights index states them; None if it cannot be read.

        A fault is not raised, since the config is usable without this figure.
        """
        index = next((file for file in files_to_fetch(info) if file in INDEXES), None)
        if index is None or info.commit is None:
            return None
        key = (credential.owner, model_id, info.commit, index)
        try:
            self._negative_cache.check(key)
            async with asyncio.timeout(self._limits.total_seconds / 4):
                beginning = await repositories.part(credential, model_id, info.commit, index, SPAN)
        except TimeoutError:
            self._negative_cache.store(key, HubTimedOut(model_id))
            return None
        except HubError as error:
            self._negative_cache.store(key, error)
            return None
        return None if beginning is None else total_bytes(beginning)

    async def fetch_cached(
        self, model_id: str, revision: str | None = None, credential: Credential | None = None
    ) -> FetchedConfig:
        """Return a config from the cache, of any age, without a request to the Hub.

        Raises:
            HubError: a part of it is not in the cache.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        effective = self._credential if credential is None else credential
        offline = HubUnreachable(model_id, "no request was sent")
        fetched, when = await self._from_cache(effective, model_id, revision, offline, inf)
        return replace(fetched, note=f"this was stored at {when}; no request was sent to the Hub")

    async def stored_models(self, credential: Credential | None = None) -> tuple[str, ...]:
        """Return the ids of models of which files are stored, as far as a caller may see them."""
        effective = self._credential if credential is None else credential
        return await self._caches.of(effective).models(effective.owner)

    async def _stale(
        self, credential: Credential, model_id: str, revision: str, failure: HubError
    ) -> FetchedConfig:
        """Return the cached config that is at most `STALE_SECONDS` old, because the Hub fails now.

        Raises:
            HubError: `failure`, if there is no such config in the cache.
        """
        fetched, when = await self._from_cache(credential, model_id, revision, failure, STALE_SECONDS)
        note = f"this is the Hub's response of {when}, because now {failure}"
        return replace(fetched, stale=True, note=note)

    async def _from_cache(
        self, credential: Credential, model_id: str, revision: str, failure: HubError, within: float
    ) -> tuple[FetchedConfig, str]:
        cached = self._repositories_from(FailingDownloader(failure), within)
        fetched = await self._fetch(cached, credential, model_id, revision)
        when = datetime.fromtimestamp(await cached.info_stored_at(credential, model_id, revision), UTC)
        return fetched, f"{when:%Y-%m-%d %H:%M} UTC"


async def _together(*fetches: Coroutine[object, object, Any]) -> list[Any]:
    """Return the results of all fetches, run in parallel.

    If several fail, the error of the first in the list is raised; the fetches still running are cancelled.
    """
    tasks = [asyncio.ensure_future(fetch) for fetch in fetches]
    try:
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
