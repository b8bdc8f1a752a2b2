"""Decides which redirects are followed, and whether the token is sent to the new address.

A redirect within the endpoint is followed if it leads to the same file (of a renamed repository, or in the
Hub's own cache); the token is sent. A redirect to a host that stores the Hub's large files is followed, but
the token is not sent. Any other redirect is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from service.hub.errors import HubError, HubUnreachable
from service.hub.model_files.model_ids import check_model_id, check_revision
from service.hub.transport.requests import MODEL_INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2

    from service.hub.transport.requests import HubRequest

STORAGE_HOSTS: Final = ("huggingface.co", "hf.co")
"""Domains where the Hub stores large files (cdn-lfs.huggingface.co, cas-bridge.xethub.hf.co and others)."""
OTHER_HOST: Final = "to another host, and such a redirect is not followed"

_ID: Final = r"(?P<id>[\w.-]+(?:/[\w.-]+)?)"
_INFO: Final = re.compile(rf"/api/models/{_ID}/revision/(?P<revision>[^/]+)", re.ASCII)
_FILES: Final = (
    re.compile(rf"/api/resolve-cache/models/{_ID}/(?P<revision>[^/]+)/(?P<file>.+)", re.ASCII),
    re.compile(rf"/{_ID}/resolve/(?P<revision>[^/]+)/(?P<file>.+)", re.ASCII),
)


@dataclass(frozen=True, slots=True)
class Hop:
    """The address of one request, and whether the token is sent to it."""

    url: httpx2.URL
    trusted: bool


class Redirects:
    """Checks redirects from one endpoint; the transfer follows at most `limit` of them for one file."""

    def __init__(self, endpoint: httpx2.URL, storage_hosts: Sequence[str], limit: int) -> None:
        self._endpoint = endpoint
        self._storage_hosts = tuple(storage_hosts)
        self.limit = limit

    def next(self, response: httpx2.Response, request: HubRequest, before: Hop) -> Hop:
        """Return the next hop of a redirect response.

        Raises:
            HubUnreachable: the redirect must not be followed for this file.
        """
        following = response.next_request
        if following is None or following.url.userinfo:
            raise _refused(request, OTHER_HOST, response.status_code)
        if _origin(following.url) == _origin(self._endpoint):
            if not self._same_file(following.url, request):
                raise _refused(request, "to something other than the file", response.status_code)
            return Hop(following.url, before.trusted)
        if not self._is_storage(following.url):
            raise _refused(request, OTHER_HOST, response.status_code)
        return Hop(following.url, trusted=False)

    def _is_storage(self, url: httpx2.URL) -> bool:
        if url.scheme not in {"https", self._endpoint.scheme}:
            return False
        authority = url.host if url.port is None else f"{url.host}:{url.port}"
        return any(authority == host or authority.endswith(f".{host}") for host in self._storage_hosts)

    def _same_file(self, url: httpx2.URL, request: HubRequest) -> bool:
        path = url.raw_path.decode("ascii", "replace").partition("?")[0]
        above = self._endpoint.raw_path.decode("ascii", "replace").rstrip("/")
        if not path.startswith(above):
            return False
        path = path.removeprefix(above)
        patterns = (_INFO,) if request.file == MODEL_INFO else _FILES
        match = next(filter(None, (pattern.fullmatch(path) for pattern in patterns)), None)
        return match is not None and _names(match.groupdict(), request)


def _names(parts: dict[str, str], request: HubRequest) -> bool:
    try:
        check_model_id(parts["id"])
        check_revision(parts["id"], unquote(parts["revision"]))
    except HubError:
        return False
    return unquote(parts.get("file", request.file)) == request.file


def _refused(request: HubRequest, target: str, status: int) -> HubUnreachable:
    return HubUnreachable(request.model_id, f"it redirected {target}", status=status)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
