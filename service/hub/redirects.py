"""Where an answer may send on to, and what goes along.

Within the endpoint: to the same file of a repository (its new name, the Hub's own cache), with the token. To
the hosts that store the Hub's large files: without it. Nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from service.hub.errors import HubError, HubUnreachable
from service.hub.model_ids import check_model_id, check_revision
from service.hub.requests import MODEL_INFO

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2

    from service.hub.requests import HubRequest

STORAGE_HOSTS: Final = ("huggingface.co", "hf.co")
"""Domains of the Hub's stores of large files (cdn-lfs.huggingface.co, cas-bridge.xethub.hf.co and others)."""
OTHER_HOST: Final = "to another host, which is not followed"

_ID: Final = r"(?P<id>[\w.-]+(?:/[\w.-]+)?)"
_INFO: Final = re.compile(rf"/api/models/{_ID}/revision/(?P<revision>[^/]+)", re.ASCII)
_FILES: Final = (
    re.compile(rf"/api/resolve-cache/models/{_ID}/(?P<revision>[^/]+)/(?P<file>.+)", re.ASCII),
    re.compile(rf"/{_ID}/resolve/(?P<revision>[^/]+)/(?P<file>.+)", re.ASCII),
)


@dataclass(frozen=True, slots=True)
class Hop:
    """An address to ask, and whether the token goes there."""

    url: httpx2.URL
    trusted: bool


class Redirects:
    """Follows redirects of one endpoint, at most `limit` for one file."""

    def __init__(self, endpoint: httpx2.URL, storage_hosts: Sequence[str], limit: int) -> None:
        self._endpoint = endpoint
        self._storage_hosts = tuple(storage_hosts)
        self.limit = limit

    def next(self, response: httpx2.Response, wanted: HubRequest, before: Hop) -> Hop:
        """Return where an answer sends on to.

        Raises:
            HubUnreachable: it is no place for this file.
        """
        following = response.next_request
        if following is None or following.url.userinfo:
            raise _refused(wanted, OTHER_HOST, response.status_code)
        if _origin(following.url) == _origin(self._endpoint):
            if not self._same_file(following.url, wanted):
                raise _refused(wanted, "to something else than the file", response.status_code)
            return Hop(following.url, before.trusted)
        if not self._stores(following.url):
            raise _refused(wanted, OTHER_HOST, response.status_code)
        return Hop(following.url, trusted=False)

    def _stores(self, url: httpx2.URL) -> bool:
        if url.scheme not in {"https", self._endpoint.scheme}:
            return False
        place = url.host if url.port is None else f"{url.host}:{url.port}"
        return any(place == host or place.endswith(f".{host}") for host in self._storage_hosts)

    def _same_file(self, url: httpx2.URL, wanted: HubRequest) -> bool:
        path = url.raw_path.decode("ascii", "replace").partition("?")[0]
        above = self._endpoint.raw_path.decode("ascii", "replace").rstrip("/")
        if not path.startswith(above):
            return False
        path = path.removeprefix(above)
        patterns = (_INFO,) if wanted.file == MODEL_INFO else _FILES
        match = next(filter(None, (pattern.fullmatch(path) for pattern in patterns)), None)
        return match is not None and _names(match.groupdict(), wanted)


def _names(parts: dict[str, str], wanted: HubRequest) -> bool:
    try:
        check_model_id(parts["id"])
        check_revision(parts["id"], unquote(parts["revision"]))
    except HubError:
        return False
    return unquote(parts.get("file", wanted.file)) == wanted.file


def _refused(wanted: HubRequest, whither: str, status: int) -> HubUnreachable:
    return HubUnreachable(wanted.model_id, f"it redirected {whither}", status=status)


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
