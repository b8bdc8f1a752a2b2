"""A Hub that speaks the real one's headers, counts what it is asked, and can be told to misbehave."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

import httpx2

from service.hub.caches.cache import HubCache
from service.hub.hub_client import HubClient
from service.hub.limits import DEFAULT_LIMITS, TransferLimits
from service.hub.repositories import Caches, Repositories
from service.hub.transport.circuit_breaker import CircuitBreaker
from service.hub.transport.endpoint import Endpoint
from service.hub.transport.transfer import Transfer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

ENDPOINT = "https://hub.test"
TOKEN = "hf_notARealToken"  # noqa: S105 - a made-up secret whose way is followed
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
MODEL = "acme/tiny"
LLAMA = {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}

_RESOLVE = re.compile(r"/(?P<model>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<file>[^/]+)")
_CACHED = re.compile(r"/api/resolve-cache/models/(?P<model>[^/]+/[^/]+)/(?P<revision>[^/]+)/(?P<file>[^/]+)")
_STORED = re.compile(r"/lfs/(?P<model>[^/]+/[^/]+)/(?P<file>[^/]+)")
WEIGHTS = (".safetensors", ".gguf")
_INFO = re.compile(r"/api/models/(?P<model>[^/]+(?:/(?!revision/)[^/]+)?)(?:/revision/(?P<revision>[^/]+))?")
_PATHS = re.compile(r"/api/models/(?P<model>[^/]+/[^/]+)/paths-info/(?P<revision>[^/]+)")
_SPAN = re.compile(r"bytes=<?(?P<first>\d+)-(?P<last>\d+)")  # the "<" is huggingface_hub's own


def _asked_paths(request: httpx2.Request) -> list[str]:
    """Return the `paths` of a form or of a JSON object, both of which the Hub takes."""
    if request.headers.get("Content-Type", "").startswith("application/json"):
        paths: list[str] = json.loads(request.content)["paths"]
        return paths
    return parse_qs(request.content.decode()).get("paths", [])


def refused(status: int, code: str, **headers: str) -> httpx2.Response:
    """Refuse as the Hub does: a status, the machine's word in X-Error-Code, a sentence in the body."""
    return httpx2.Response(
        status, headers={"X-Error-Code": code, **headers}, json={"error": f"{code}: sorry"}
    )


@dataclass
class Repository:
    """A model's files by name; `branches` maps the names of revisions to commits."""

    files: dict[str, bytes]
    branches: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    gated: bool | str = False
    parameters: dict[str, int] | None = None
    task: str | None = None

    def commit(self, revision: str) -> str | None:
        return revision if revision in self.branches.values() else self.branches.get(revision)


@dataclass
class FakeHub:
    """Answers by `repositories`, unless a fault is set for what the path ends with."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    faults: dict[str, Callable[[httpx2.Request], Awaitable[httpx2.Response]]] = field(default_factory=dict)
    redirects_to_cache: bool = False
    storage: str | None = None
    requests: list[httpx2.Request] = field(default_factory=list)

    def client(
        self,
        *,
        token: str | None = TOKEN,
        limits: TransferLimits = DEFAULT_LIMITS,
        cache: HubCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> HubClient:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))
        endpoint = Endpoint(ENDPOINT, token)
        return HubClient(http, endpoint=endpoint, limits=limits, cache=cache, clock=clock)

    def repositories_of_a_client(self) -> Repositories:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer))
        transfer = Transfer(http, Endpoint(ENDPOINT, TOKEN), DEFAULT_LIMITS, CircuitBreaker())
        return Repositories(transfer, ENDPOINT, Caches(HubCache(), HubCache()), DEFAULT_LIMITS.depth)

    def play(self, ending: str, response: Callable[[], httpx2.Response]) -> None:
        async def fault(_: httpx2.Request) -> httpx2.Response:
            return response()

        self.faults[ending] = fault

    def paths(self) -> list[str]:
        return sorted(request.url.raw_path.decode().partition("?")[0] for request in self.requests)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        path = request.url.raw_path.decode().partition("?")[0]
        for ending, fault in self.faults.items():
            if path.endswith(ending):
                return await fault(request)
        if match := _STORED.fullmatch(path):
            return self._stored(request, match)
        if match := _CACHED.fullmatch(path) or _RESOLVE.fullmatch(path):
            return self._file(
                request, match, redirect=self.redirects_to_cache and not path.startswith("/api/")
            )
        if match := _PATHS.fullmatch(path):
            return self._paths(request, match)
        if match := _INFO.fullmatch(path):
            return self._info(match)
        return httpx2.Response(404)

    def _locate(self, match: re.Match[str]) -> tuple[Repository, str] | httpx2.Response:
        repository = self.repositories.get(match["model"])
        if repository is None:
            return refused(401, "RepoNotFound")
        commit = repository.commit(unquote(match["revision"] or "main"))
        return (repository, commit) if commit else refused(404, "RevisionNotFound")

    def _stored(self, request: httpx2.Request, match: re.Match[str]) -> httpx2.Response:
        if "Authorization" in request.headers:  # as stores of signed addresses do
            return httpx2.Response(400)
        content = self.repositories[match["model"]].files[match["file"]]
        return self._part(request, content, {"Content-Type": "application/octet-stream"})

    def _part(self, request: httpx2.Request, content: bytes, headers: dict[str, str]) -> httpx2.Response:
        headers |= {"ETag": f'"{sha256(content).hexdigest()}"', "Accept-Ranges": "bytes"}
        span = _SPAN.fullmatch(request.headers.get("Range", ""))
        if span is None or not content:
            return httpx2.Response(200, headers=headers, content=content)
        first, last = int(span["first"]), min(int(span["last"]), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return httpx2.Response(206, headers=headers, content=content[first : last + 1])

    def _file(self, request: httpx2.Request, match: re.Match[str], *, redirect: bool) -> httpx2.Response:
        located = self._locate(match)
        if isinstance(located, httpx2.Response):
            return located
        repository, commit = located
        headers = {"X-Repo-Commit": commit}
        if match["file"] not in repository.files:
            return refused(404, "EntryNotFound", **headers)
        if self.storage and match["file"].endswith(WEIGHTS):
            headers |= {
                "X-Linked-Size": str(len(repository.files[match["file"]])),
                "X-Linked-ETag": '"large"',
            }
            location = f"{self.storage}/lfs/{match['model']}/{match['file']}"
            return httpx2.Response(302, headers={"Location": location, **headers})
        if redirect:
            location = f"/api/resolve-cache/models/{match['model']}/{commit}/{match['file']}"
            return httpx2.Response(307, headers={"Location": location, **headers})
        headers["Content-Type"] = "text/plain; charset=utf-8"
        return self._part(request, repository.files[match["file"]], headers)

    def _paths(self, request: httpx2.Request, match: re.Match[str]) -> httpx2.Response:
        located = self._locate(match)
        if isinstance(located, httpx2.Response):
            return located
        files = located[0].files
        requested = [path for path in _asked_paths(request) if path in files]
        return httpx2.Response(
            200,
            json=[
                {
                    "type": "file",
                    "path": path,
                    "size": len(files[path]),
                    "oid": sha256(files[path]).hexdigest()[:40],
                }
                for path in requested
            ],
        )

    def _info(self, match: re.Match[str]) -> httpx2.Response:
        located = self._locate(match)
        if isinstance(located, httpx2.Response):
            return located
        repository, commit = located
        info: dict[str, Any] = {"id": match["model"], "sha": commit, "gated": repository.gated}
        info |= {"pipeline_tag": repository.task} if repository.task else {}
        info["siblings"] = [{"rfilename": name} for name in repository.files]
        if repository.parameters is not None:
            total = sum(repository.parameters.values())
            info["safetensors"] = {"parameters": repository.parameters, "total": total}
        return httpx2.Response(200, json=info)


def hub_with_model(
    *,
    branches: dict[str, str] | None = None,
    gated: bool | str = False,
    parameters: dict[str, int] | None = None,
) -> FakeHub:
    """Return a Hub that holds one small model, `MODEL`."""
    files = {"config.json": json.dumps(LLAMA).encode()}
    return FakeHub({MODEL: Repository(files, branches or {"main": COMMIT}, gated, parameters)})


class EndlessBody(httpx2.AsyncByteStream):
    """A body of a stated length that counts how much of it was taken."""

    def __init__(self, size: int, chunk: int = 1 << 16) -> None:
        self.size, self.chunk, self.sent = size, chunk, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.sent < self.size:
            self.sent += self.chunk
            yield b" " * self.chunk
