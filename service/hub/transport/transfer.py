"""Downloads small files with limits on time, bytes and redirects. The token goes to one origin only."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import httpx2
from huggingface_hub.constants import HUGGINGFACE_HEADER_X_REPO_COMMIT

from service import __version__
from service.hub.errors import (
    ConfigNotJson,
    ConfigTooLarge,
    HubRateLimited,
    HubTimedOut,
    HubTokenRefused,
    HubUnreachable,
)
from service.hub.model_files.model_ids import commit_or_none
from service.hub.retries import retry
from service.hub.transport.hub_library import hub_library
from service.hub.transport.keyed_semaphore import KeyedSemaphore
from service.hub.transport.redirects import Hop, Redirects
from service.hub.transport.response_errors import quota_wait, response_error, token_refused

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from service.hub.limits import TransferLimits
    from service.hub.transport.circuit_breaker import CircuitBreaker
    from service.hub.transport.credential import Credential
    from service.hub.transport.endpoint import Endpoint
    from service.hub.transport.requests import HubRequest

ATTEMPTS: Final = 2
FIRST_WAIT_SECONDS: Final = 0.1
CONNECTIONS: Final = 32
CONNECTIONS_OF_AN_OWNER: Final = 8
"""Parallel requests for all repositories of one owner, so that slow ones do not block those of others."""
_RETRIED_STATUSES: Final = frozenset({None, 500, 502, 503, 504})
"""Statuses after which a request is retried: no response (None), or a server's fault."""
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15}|\*)", re.ASCII)


SMALL_FILE_BYTES: Final = 2 << 20
"""Most files are smaller; of larger ones a client reads one at a time, so that many do not fill memory."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file's bytes, and the commit they belong to; None where the response does not state it."""

    body: bytes
    commit: str | None


def hub_http() -> httpx2.AsyncClient:
    """Return an HTTP client for the Hub, which the caller closes. It stores no cookies."""
    return httpx2.AsyncClient(
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
    )


def request_headers(token: str | None) -> dict[str, str]:
    """Return the headers of every request.

    `huggingface_hub.utils.build_hf_headers` is not used: unless telemetry was switched off before its import,
    it makes a blocking request to the Hub and adds values from the environment to the user agent.
    """
    headers = {
        "User-Agent": f"dryserve/{__version__}",
        "Accept": "application/json, text/plain",
        # One chunk of a compressed response could expand far beyond the limit on bytes.
        "Accept-Encoding": "identity",
    }
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _is_transient(error: Exception) -> bool:
    return isinstance(error, HubUnreachable) and error.status in _RETRIED_STATUSES and not error.retry_after


class Transfer:
    """Downloads small files, or spans of large files, from one endpoint."""

    def __init__(
        self, http: httpx2.AsyncClient, endpoint: Endpoint, limits: TransferLimits, breaker: CircuitBreaker
    ) -> None:
        self._http = http
        self._endpoint = endpoint.address
        self._redirects = Redirects(httpx2.URL(endpoint.address), endpoint.storage_hosts, limits.redirects)
        self._limits = limits
        self._breaker = breaker
        self._owners = KeyedSemaphore(CONNECTIONS_OF_AN_OWNER)
        self._large_files = asyncio.Semaphore(1)
        self._timeout = httpx2.Timeout(
            limits.read_seconds, connect=limits.connect_seconds, pool=limits.total_seconds
        )

    async def get(self, request: HubRequest, credential: Credential) -> Download:
        """Download one file, or the requested span of it.

        Raises:
            HubError: the download failed; the subclass names the cause.
        """
        self._breaker.check(credential.owner, request.quota, request.model_id)
        await hub_library()  # with which an answer that is an error is read
        async with self._owners.acquire(request.model_id.partition("/")[0]):
            return await self._try(request, credential)

    @retry(
        on=_is_transient,
        attempts=ATTEMPTS,
        timeout=None,
        wait_initial=FIRST_WAIT_SECONDS,
        wait_jitter=FIRST_WAIT_SECONDS,
    )
    async def _try(self, request: HubRequest, credential: Credential) -> Download:
        return await self._follow(request, credential)

    async def _follow(self, request: HubRequest, credential: Credential) -> Download:
        hop = Hop(httpx2.URL(request.url), trusted=True)
        for _ in range(self._redirects.limit + 1):
            outcome = await self._get_once(hop, request, credential)
            if isinstance(outcome, Download):
                return outcome
            hop = outcome
        reason = f"it redirected more than {self._redirects.limit} times"
        raise HubUnreachable(request.model_id, reason, status=httpx2.codes.FOUND)

    async def _get_once(self, hop: Hop, request: HubRequest, credential: Credential) -> Download | Hop:
        headers: Mapping[str, str] = request_headers(credential.token if hop.trusted else None)
        try:
            async with self._http.stream(
                "GET",
                hop.url,
                headers={**headers, **request.headers},
                timeout=self._timeout,
                follow_redirects=False,
            ) as response:
                if hop.trusted:
                    self._record_response(response, credential, request)
                if response.has_redirect_location:
                    return self._redirects.next(response, request, hop)
                if credential.own and hop.trusted and token_refused(response):
                    raise HubTokenRefused(request.model_id)
                return await self._read(response, request, credential.token_in if hop.trusted else "")
        except httpx2.TimeoutException as error:
            self._record_failure(hop, request, error)
            raise HubTimedOut(request.model_id) from error
        except httpx2.HTTPError as error:
            self._record_failure(hop, request, error)
            reason = f"the connection failed ({type(error).__name__})"
            raise HubUnreachable(request.model_id, reason) from error

    def _record_failure(self, hop: Hop, request: HubRequest, error: httpx2.HTTPError) -> None:
        """Record a failure of the Hub itself. Storage hosts and our own connection pool do not count."""
        if hop.trusted and not isinstance(error, httpx2.PoolTimeout):
            connected = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            self._breaker.record_failure(request.model_id, connected=connected)

    def _record_response(
        self, response: httpx2.Response, credential: Credential, request: HubRequest
    ) -> None:
        """Record in the circuit breaker what a response says about the Hub and its quotas.

        Raises:
            HubRateLimited: the quota is used up (status 429).
        """
        status, wait = response.status_code, quota_wait(response)
        if status == httpx2.codes.TOO_MANY_REQUESTS:
            raise HubRateLimited(request.model_id, self._breaker.record_rate_limit(credential.owner, wait))
        if status in _RETRIED_STATUSES:
            self._breaker.record_failure(request.model_id)
        else:
            self._breaker.record_success(request.model_id)
        if wait is not None:
            self._breaker.record_used_up_quota(credential.owner, request.quota, wait)

    async def _read(self, response: httpx2.Response, request: HubRequest, token_in: str) -> Download:
        expected = httpx2.codes.OK if request.span is None else httpx2.codes.PARTIAL_CONTENT
        if response.status_code not in {httpx2.codes.OK, expected}:
            raise response_error(response, request, self._endpoint, token_in)
        _check_form(response, request)
        body = await self._body(response, request)
        return Download(body, commit_or_none(response.headers.get(HUGGINGFACE_HEADER_X_REPO_COMMIT)))

    async def _body(self, response: httpx2.Response, request: HubRequest) -> bytes:
        size = None if request.span is None else request.span[1] - request.span[0] + 1
        body, chunks = bytearray(), response.aiter_bytes()
        async for chunk in chunks:
            body += chunk
            if size is not None and len(body) >= size:
                return bytes(body[:size])
            if size is None and len(body) > min(SMALL_FILE_BYTES, self._limits.file_bytes):
                break
        else:
            return bytes(body)
        async with self._large_files:
            return await self._large_body(body, chunks, request)

    async def _large_body(self, body: bytearray, chunks: AsyncIterator[bytes], request: HubRequest) -> bytes:
        """Return the whole of a file of which the beginning was read."""
        while len(body) <= self._limits.file_bytes:
            chunk = await anext(chunks, None)
            if chunk is None:
                return bytes(body)
            body += chunk
        body.clear()  # the error's traceback keeps it
        raise ConfigTooLarge(request.model_id, request.file, self._limits.file_bytes)


def _check_form(response: httpx2.Response, request: HubRequest) -> None:
    """Raise HubError, before the body is read, if it is no plain file or not the requested span."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type in {"text/html", "application/xhtml+xml"}:
        raise ConfigNotJson(request.model_id, request.file, "the response is a web page")
    status = response.status_code
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        raise HubUnreachable(
            request.model_id,
            "it sent a compressed response although the request excluded that",
            status=status,
        )
    if request.span is not None and _first_byte(response) != request.span[0]:
        raise HubUnreachable(request.model_id, "it sent another part of the file", status=status)


def _first_byte(response: httpx2.Response) -> int | None:
    if response.status_code == httpx2.codes.OK:  # the whole file, from its first byte
        return 0
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    return int(match[1]) if match else None
