"""One bounded GET: in time, in bytes, in redirects, and with the token to one origin only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Final

import httpx2
import stamina
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
from service.hub.model_ids import commit_or_none
from service.hub.redirects import Hop, Redirects
from service.hub.response_errors import quota_wait, response_error, token_refused
from service.hub.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.hub.circuit_breaker import CircuitBreaker
    from service.hub.credential import Credential
    from service.hub.endpoint import Endpoint
    from service.hub.requests import HubRequest

ATTEMPTS: Final = 2
FIRST_WAIT_SECONDS: Final = 0.1
CONNECTIONS: Final = 32
CONNECTIONS_OF_AN_OWNER: Final = 8
"""For all repositories of one owner, so that one who answers slowly does not keep the others waiting."""
_PASSING: Final = frozenset({None, 500, 502, 503, 504})
"""What a second attempt may mend: no answer at all, or a server's fault; a GET is safe to repeat."""
_PLACE: Final = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15}|\*)", re.ASCII)

# By default each retry is logged with all arguments, which are what a caller asked for.
stamina.instrumentation.set_on_retry_hooks(())


@dataclass(frozen=True, slots=True)
class TransferLimits:
    """How much of a server's behaviour one fetch puts up with; times in seconds."""

    connect_seconds: float = 2.0
    read_seconds: float = 4.0
    total_seconds: float = 8.0
    file_bytes: int = 2 << 20
    redirects: int = 3
    depth: int = 64


DEFAULT_LIMITS: Final = TransferLimits()


@dataclass(frozen=True, slots=True)
class Download:
    """A file's bytes and the commit that the answer says they belong to, if it does."""

    body: bytes
    commit: str | None


def hub_http() -> httpx2.AsyncClient:
    """Return connections to the Hub, which the caller closes. No cookie that a server sets is kept."""
    return httpx2.AsyncClient(
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
    )


def request_headers(token: str | None) -> dict[str, str]:
    """Return the headers of every request.

    Not `huggingface_hub.utils.build_hf_headers`: unless telemetry was switched off before its import, it asks
    the Hub for a registry, blocking, and adds what it finds in the environment to the user agent.
    """
    headers = {
        "User-Agent": f"dryserve/{__version__}",
        "Accept": "application/json, text/plain",
        # A compressed answer could unfold far beyond the limit on bytes within one chunk.
        "Accept-Encoding": "identity",
    }
    return headers | ({"Authorization": f"Bearer {token}"} if token else {})


def _may_pass(error: Exception) -> bool:
    return isinstance(error, HubUnreachable) and error.status in _PASSING and not error.retry_after


class Transfer:
    """Downloads small files, or spans of large ones, from one endpoint."""

    def __init__(
        self, http: httpx2.AsyncClient, endpoint: Endpoint, limits: TransferLimits, gate: CircuitBreaker
    ) -> None:
        self._http = http
        self._endpoint = endpoint.address
        self._redirects = Redirects(httpx2.URL(endpoint.address), endpoint.storage_hosts, limits.redirects)
        self._limits = limits
        self._gate = gate
        self._shares = Shares(CONNECTIONS_OF_AN_OWNER)
        self._timeout = httpx2.Timeout(
            limits.read_seconds, connect=limits.connect_seconds, pool=limits.total_seconds
        )

    async def get(self, wanted: HubRequest, credential: Credential) -> Download:
        """Download one file, or the span of it that is wanted.

        Raises:
            HubError: the refusal, by its cause.
        """
        self._gate.check(credential.owner, wanted.quota, wanted.model_id)
        async with self._shares.of(wanted.model_id.partition("/")[0]):
            return await self._try(wanted, credential)

    @stamina.retry(
        on=_may_pass,
        attempts=ATTEMPTS,
        timeout=None,
        wait_initial=FIRST_WAIT_SECONDS,
        wait_jitter=FIRST_WAIT_SECONDS,
    )
    async def _try(self, wanted: HubRequest, credential: Credential) -> Download:
        return await self._follow(wanted, credential)

    async def _follow(self, wanted: HubRequest, credential: Credential) -> Download:
        hop = Hop(httpx2.URL(wanted.url), trusted=True)
        for _ in range(self._redirects.limit + 1):
            answer = await self._get_once(hop, wanted, credential)
            if isinstance(answer, Download):
                return answer
            hop = answer
        reason = f"it redirected more than {self._redirects.limit} times"
        raise HubUnreachable(wanted.model_id, reason, status=httpx2.codes.FOUND)

    async def _get_once(self, hop: Hop, wanted: HubRequest, credential: Credential) -> Download | Hop:
        headers: Mapping[str, str] = request_headers(credential.token if hop.trusted else None)
        try:
            async with self._http.stream(
                "GET",
                hop.url,
                headers={**headers, **wanted.headers},
                timeout=self._timeout,
                follow_redirects=False,
            ) as response:
                if hop.trusted:
                    self._honour_quota(response, credential, wanted)
                if response.has_redirect_location:
                    return self._redirects.next(response, wanted, hop)
                if credential.own and hop.trusted and token_refused(response):
                    raise HubTokenRefused(wanted.model_id)
                return await self._read(response, wanted)
        except httpx2.TimeoutException as error:
            self._count(hop, wanted, error)
            raise HubTimedOut(wanted.model_id) from error
        except httpx2.HTTPError as error:
            self._count(hop, wanted, error)
            reason = f"the connection failed ({type(error).__name__})"
            raise HubUnreachable(wanted.model_id, reason) from error

    def _count(self, hop: Hop, wanted: HubRequest, error: httpx2.HTTPError) -> None:
        """Count a failure of the Hub itself, not of a store of its nor of our own pool of connections."""
        if hop.trusted and not isinstance(error, httpx2.PoolTimeout):
            connected = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            self._gate.failed(wanted.model_id, connected=connected)

    def _honour_quota(self, response: httpx2.Response, credential: Credential, wanted: HubRequest) -> None:
        """Note what an answer says of the Hub's state.

        Raises:
            HubRateLimited: the quota is used up.
        """
        status, wait = response.status_code, quota_wait(response)
        if status == httpx2.codes.TOO_MANY_REQUESTS:
            raise HubRateLimited(wanted.model_id, self._gate.refused(credential.owner, wait))
        if status in _PASSING:
            self._gate.failed(wanted.model_id)
        else:
            self._gate.answered(wanted.model_id)
        if wait is not None:
            self._gate.spent(credential.owner, wanted.quota, wait)

    async def _read(self, response: httpx2.Response, wanted: HubRequest) -> Download:
        expected = httpx2.codes.OK if wanted.span is None else httpx2.codes.PARTIAL_CONTENT
        if response.status_code not in {httpx2.codes.OK, expected}:
            raise response_error(response, wanted, self._endpoint)
        _check_form(response, wanted)
        body = await self._body(response, wanted)
        return Download(body, commit_or_none(response.headers.get(HUGGINGFACE_HEADER_X_REPO_COMMIT)))

    async def _body(self, response: httpx2.Response, wanted: HubRequest) -> bytes:
        enough = None if wanted.span is None else wanted.span[1] - wanted.span[0] + 1
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if enough is not None and len(body) >= enough:
                return bytes(body[:enough])
            if enough is None and len(body) > self._limits.file_bytes:
                raise ConfigTooLarge(wanted.model_id, wanted.file, self._limits.file_bytes)
        return bytes(body)


def _check_form(response: httpx2.Response, wanted: HubRequest) -> None:
    """Refuse what is no plain file, or another span of it than asked for, before any of it is read."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type in {"text/html", "application/xhtml+xml"}:
        raise ConfigNotJson(wanted.model_id, wanted.file, "a web page came instead")
    status = response.status_code
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
        raise HubUnreachable(wanted.model_id, "it answered compressed though asked not to", status=status)
    if wanted.span is not None and _first_byte(response) != wanted.span[0]:
        raise HubUnreachable(wanted.model_id, "it answered with another part of a file", status=status)


def _first_byte(response: httpx2.Response) -> int | None:
    if response.status_code == httpx2.codes.OK:  # the whole file, from its beginning
        return 0
    match = _PLACE.fullmatch(response.headers.get("Content-Range", "").strip())
    return int(match[1]) if match else None
