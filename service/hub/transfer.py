"""One bounded GET: in time, in bytes, in redirects, and to one origin only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx2
from huggingface_hub.constants import HUGGINGFACE_HEADER_X_REPO_COMMIT

from service import __version__
from service.hub.answers import refusal
from service.hub.errors import ConfigNotJson, ConfigTooLarge, HubTimedOut, HubUnreachable
from service.hub.identity import commit_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.hub.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a server's behaviour one fetch puts up with; times in seconds."""

    connect_seconds: float = 2.0
    read_seconds: float = 4.0
    total_seconds: float = 8.0
    file_bytes: int = 2 << 20
    redirects: int = 3
    depth: int = 64


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Download:
    """A file's bytes and the commit that the answer says they belong to, if it does."""

    body: bytes
    commit: str | None


def request_headers(token: str | None) -> Mapping[str, str]:
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


class Transfer:
    """Downloads small files from one origin, the endpoint's, which alone is sent the token."""

    def __init__(self, http: httpx2.AsyncClient, endpoint: str, token: str | None, limits: Limits) -> None:
        self._http = http
        self._endpoint = endpoint
        self._origin = _origin(httpx2.URL(endpoint))
        self._headers = request_headers(token)
        self._limits = limits
        self._timeout = httpx2.Timeout(limits.read_seconds, connect=limits.connect_seconds)

    async def get(self, wanted: Wanted) -> Download:
        """Download one file.

        Raises:
            HubError: the refusal, by its cause.
        """
        url = httpx2.URL(wanted.url)
        for _ in range(self._limits.redirects + 1):
            answer = await self._get_once(url, wanted)
            if isinstance(answer, Download):
                return answer
            url = answer
        reason = f"it redirected more than {self._limits.redirects} times"
        raise HubUnreachable(wanted.model_id, reason, status=httpx2.codes.FOUND)

    async def _get_once(self, url: httpx2.URL, wanted: Wanted) -> Download | httpx2.URL:
        try:
            async with self._http.stream(
                "GET", url, headers=self._headers, timeout=self._timeout, follow_redirects=False
            ) as response:
                if response.has_redirect_location:
                    return self._next_url(response, wanted)
                if response.status_code != httpx2.codes.OK:
                    raise refusal(response, wanted, self._endpoint)
                return await self._read(response, wanted)
        except httpx2.TimeoutException as error:
            raise HubTimedOut(wanted.model_id) from error
        except httpx2.HTTPError as error:
            reason = f"the connection failed ({type(error).__name__})"
            raise HubUnreachable(wanted.model_id, reason) from error

    def _next_url(self, response: httpx2.Response, wanted: Wanted) -> httpx2.URL:
        following = response.next_request
        if following is None or _origin(following.url) != self._origin or following.url.userinfo:
            reason = "it redirected to another host, which is not followed"
            raise HubUnreachable(wanted.model_id, reason, status=response.status_code)
        return following.url

    async def _read(self, response: httpx2.Response, wanted: Wanted) -> Download:
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type in {"text/html", "application/xhtml+xml"}:
            raise ConfigNotJson(wanted.model_id, wanted.file, "a web page came instead")
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in {"", "identity"}:
            reason = "it answered compressed though asked not to"
            raise HubUnreachable(wanted.model_id, reason, status=response.status_code)
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > self._limits.file_bytes:
                raise ConfigTooLarge(wanted.model_id, wanted.file, self._limits.file_bytes)
        commit = commit_or_none(response.headers.get(HUGGINGFACE_HEADER_X_REPO_COMMIT))
        return Download(bytes(body), commit)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
