"""Asks the Hub for a model's config.

One round of parallel requests; a second only if the branch moved between their answers, or if the repository
lists a params.json (Mistral's own format) or has no config.json.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx2
from huggingface_hub import hf_hub_url

from service.hub.errors import ConfigNotFound, HubError, HubTimedOut, ModelNotFound
from service.hub.fetched import CONFIG, HF_QUANT_CONFIG, PARAMS, FetchedConfig
from service.hub.identity import DEFAULT_REVISION, check_model_id, check_revision, commit_or_none
from service.hub.json_object import parse_object
from service.hub.transfer import DEFAULT_LIMITS, Limits, Transfer
from service.hub.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC_ENDPOINT: Final = "https://huggingface.co"
_MODEL_INFO: Final = "model info"
_EXPAND: Final = "expand[]=safetensors&expand[]=sha&expand[]=gated&expand[]=siblings"
_CONSOLIDATED: Final = "consolidated*.safetensors"


@dataclass(frozen=True, slots=True)
class _HubFile:
    """A JSON file of a repository and the commit it was read at, where the answer states one."""

    content: Mapping[str, Any]
    commit: str | None


@dataclass(frozen=True, slots=True)
class _ModelInfo:
    """What the Hub knows about a model beside its files; `fault` says why it is not known."""

    commit: str | None = None
    gated: bool = False
    parameter_counts: Mapping[str, int] | None = None
    files: frozenset[str] | None = None
    fault: str | None = None

    def may_hold(self, file: str, *, otherwise: bool) -> bool:
        """Whether the repository lists a file; `otherwise` where the Hub did not list any."""
        return otherwise if self.files is None else file in self.files

    @property
    def consolidated(self) -> bool:
        """Whether weights lie in Mistral's own files, in any folder; assumed where the Hub lists no files."""
        if self.files is None:
            return True
        return any(fnmatchcase(file.rpartition("/")[2], _CONSOLIDATED) for file in self.files)


class HubClient:
    """Fetches configs from one endpoint over a shared HTTP client, which stays the caller's to close.

    The endpoint and the token belong to the service, never to a request: whoever may ask this service sees
    what its token may see.

    Raises:
        ValueError: the endpoint is not a plain http(s) address.
    """

    def __init__(
        self,
        http: httpx2.AsyncClient,
        *,
        endpoint: str = PUBLIC_ENDPOINT,
        token: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._endpoint = _plain_endpoint(endpoint)
        self._transfer = Transfer(http, self._endpoint, token, limits)
        self._limits = limits

    async def fetch(self, model_id: str, revision: str | None = None) -> FetchedConfig:
        """Fetch a model's config at a revision (the default branch if None), within `Limits.total_seconds`.

        Raises:
            HubError: the config could not be had, by its cause.
        """
        revision = DEFAULT_REVISION if revision is None else revision
        check_model_id(model_id)
        check_revision(model_id, revision)
        try:
            async with asyncio.timeout(self._limits.total_seconds):
                return await self._fetch(model_id, revision)
        except TimeoutError as error:
            raise HubTimedOut(model_id) from error

    async def _fetch(self, model_id: str, revision: str) -> FetchedConfig:
        config, quantization, info = await self._first_round(model_id, revision)
        commit = (config and config.commit) or info.commit or commit_or_none(revision)
        params = None
        if info.may_hold(PARAMS, otherwise=config is None):
            params = await self._optional_file(model_id, commit or revision, PARAMS)
        if config is None and params is None:
            raise ConfigNotFound(model_id, CONFIG)
        if quantization and quantization.commit and commit and quantization.commit != commit:
            quantization = await self._optional_file(model_id, commit, HF_QUANT_CONFIG)
        same_commit = info.commit is None or info.commit == commit
        counts = info.parameter_counts if same_commit else None
        return FetchedConfig(
            id=model_id,
            revision=commit,
            source="hub",
            config=config.content if config else {},
            params=params.content if params else None,
            consolidated=info.consolidated,
            quantization_config=quantization.content if quantization else None,
            parameter_counts=counts,
            total_parameters=sum(counts.values()) if counts else None,
            provenance=f"{self._endpoint}/{model_id} at {f'commit {commit}' if commit else revision}",
            note=_note(model_id, info),
        )

    async def _first_round(
        self, model_id: str, revision: str
    ) -> tuple[_HubFile | None, _HubFile | None, _ModelInfo]:
        config = asyncio.create_task(self._config(model_id, revision))
        quantization = asyncio.create_task(self._optional_file(model_id, revision, HF_QUANT_CONFIG))
        info = asyncio.create_task(self._info(model_id, revision))
        try:
            # In this order, so that a missing model is reported by its config and not by a lesser file.
            return await config, await quantization, await info
        finally:
            for task in (config, quantization, info):
                task.cancel()
            await asyncio.gather(config, quantization, info, return_exceptions=True)

    async def _config(self, model_id: str, revision: str) -> _HubFile | None:
        try:
            return await self._file(model_id, revision, CONFIG)
        except ConfigNotFound:
            return None

    async def _file(self, model_id: str, revision: str, file: str) -> _HubFile:
        url = hf_hub_url(model_id, file, revision=revision, endpoint=self._endpoint)
        download = await self._transfer.get(Wanted(model_id, revision, file, url))
        content = parse_object(download.body, model_id=model_id, file=file, depth=self._limits.depth)
        return _HubFile(content, download.commit)

    async def _optional_file(self, model_id: str, revision: str, file: str) -> _HubFile | None:
        try:
            return await self._file(model_id, revision, file)
        except ModelNotFound:
            return None

    async def _info(self, model_id: str, revision: str) -> _ModelInfo:
        path = f"{self._endpoint}/api/models/{model_id}/revision/{quote(revision, safe='')}"
        wanted = Wanted(model_id, revision, _MODEL_INFO, f"{path}?{_EXPAND}")
        try:
            download = await self._transfer.get(wanted)
            depth = self._limits.depth
            return _parse_info(parse_object(download.body, model_id=model_id, file=_MODEL_INFO, depth=depth))
        except HubError as error:
            # The config alone answers the question; counts only sharpen it.
            return _ModelInfo(fault=str(error))


def _parse_info(info: Mapping[str, Any]) -> _ModelInfo:
    safetensors = info.get("safetensors")
    counts = safetensors.get("parameters") if isinstance(safetensors, dict) else None
    whole = isinstance(counts, dict) and all(type(count) is int and count >= 0 for count in counts.values())
    return _ModelInfo(
        commit=commit_or_none(info.get("sha")),
        gated=bool(info.get("gated")),
        parameter_counts=counts if whole and counts else None,
        files=_parse_names(info.get("siblings")),
    )


def _parse_names(siblings: object) -> frozenset[str] | None:
    if not isinstance(siblings, list):
        return None
    names = (entry.get("rfilename") for entry in siblings if isinstance(entry, dict))
    return frozenset(name for name in names if isinstance(name, str))


def _note(model_id: str, info: _ModelInfo) -> str | None:
    if info.fault is not None:
        return f"parameter counts are not known: {info.fault}"
    if info.gated:
        return f"{model_id} is gated: the server that loads it needs a token with access"
    return None


def _plain_endpoint(endpoint: str) -> str:
    try:
        url = httpx2.URL(endpoint)
    except httpx2.InvalidURL:
        url = httpx2.URL()
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query or url.fragment:
        raise ValueError("the Hub endpoint must be an http(s) address without user, query or fragment")
    return endpoint.rstrip("/")
