"""Decides where a model's config comes from: the Hub, the cache, or the bundled snapshot.

- Offline: from the cache (files pulled or imported before), else from the snapshot.
- Online: from the Hub. If the Hub says that a model, revision or file does not exist, that is the result. If
  it does not answer, answers with something that is not JSON, or the model is gated, a bundled model is taken
  from the snapshot, with a note.

A caller who names a revision gets that revision or an error: the snapshot is used only for the default branch
and for the commit that was bundled.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from service.hub.bundled.published_checkpoints import models_stored_by
from service.hub.errors import (
    ConfigNotJson,
    HubError,
    HubRateLimited,
    HubTimedOut,
    HubUnreachable,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
)
from service.hub.model_files.model_ids import DEFAULT_REVISION, check_model_id, check_revision

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.hub.bundled.snapshot import BundledSnapshot
    from service.hub.checkpoint_weights import Weights
    from service.hub.gguf_headers import GgufOnHub
    from service.hub.hub_client import HubClient
    from service.hub.model_files.fetched_config import FetchedConfig
    from service.hub.model_files.gguf_name import GgufName
    from service.hub.transport.credential import Credential

MOST_NEAREST: Final = 3
"""Ids that are named beside one that was not found."""
FEW_FILES: Final = 4
"""Most weight files whose headers are read during a plan, if its verdict depends on them."""
_SNAPSHOT_ERRORS: Final = (HubUnreachable, HubTimedOut, HubRateLimited, ModelGated, ConfigNotJson)
"""Errors after which the snapshot is used."""


class ModelSource:
    """Resolves a model id to its config, with the service's own credential or with a caller's."""

    def __init__(
        self,
        client: HubClient,
        snapshot: BundledSnapshot,
        *,
        offline: bool = False,
        credential: Credential | None = None,
        local: Sequence[FetchedConfig] = (),
    ) -> None:
        """``local``: models of this host, each resolved by its id (the path that was given for it)."""
        self._client = client
        self._snapshot = snapshot
        self._offline = offline
        self._credential = credential
        self._local = local

    def with_local(self, *local: FetchedConfig) -> ModelSource:
        """Return a source that also knows models of this host."""
        return ModelSource(
            self._client, self._snapshot, offline=self._offline, credential=self._credential, local=local
        )

    def on_behalf_of(self, credential: Credential) -> ModelSource:
        """Return a source that uses a caller's own credential; show its results to that caller only."""
        return ModelSource(self._client, self._snapshot, offline=self._offline, credential=credential)

    def local(self, model_id: str) -> FetchedConfig | None:
        """Return a model of this host; ``None`` where none of this id was given."""
        return next((each for each in self._local if each.id == model_id), None)

    @property
    def is_shared(self) -> bool:
        """Whether its results may be shown to every caller, and come from nowhere on this host."""
        return self._credential is None and not self._local

    @property
    def on_cache_lookup(self) -> list[Callable[[bool], None]]:
        """Called with whether the shared cache had an entry, at each look-up."""
        return self._client.on_cache_lookup

    async def close(self) -> None:
        """Close the caches."""
        await self._client.close()

    async def resolve(self, model_id: str, revision: str | None = None) -> FetchedConfig:
        """Return the config of a model at a revision (None: the default branch).

        Raises:
            HubError: the config could not be fetched; the subclass names the cause, and `nearest` lists
                bundled and stored models with a similar spelling.
        """
        if (local := self.local(model_id)) is not None:
            return local
        check_model_id(model_id)
        if revision is not None:
            check_revision(model_id, revision)
        try:
            if self._offline:
                return await self._resolve_offline(model_id, revision)
            return await self._resolve_online(model_id, revision)
        except HubError as error:
            error.nearest = await self._nearest(model_id)
            error.is_absent = self._snapshot.get(model_id) is None
            raise

    async def _nearest(self, model_id: str) -> tuple[str, ...]:
        """Return ids of bundled models, and of those stored for this caller, that are spelt alike."""
        stored = await self._client.stored_models(self._credential)
        return await asyncio.to_thread(self._nearest_among, model_id, stored)

    def _nearest_among(self, model_id: str, stored: tuple[str, ...]) -> tuple[str, ...]:
        # The model of a quantized checkpoint is planned with the checkpoint's layout.
        own = (each for each in models_stored_by(model_id) if self._snapshot.get(each) is not None)
        alike = self._snapshot.nearest(model_id, beside=stored) or self._snapshot.holding(model_id)
        return tuple(dict.fromkeys((*own, *alike)))[:MOST_NEAREST]

    async def weights(
        self, model_id: str, revision: str | None = None, file: str | None = None
    ) -> tuple[str, Weights]:
        """Return the commit and the tensors of a model's weight files; `file` selects one file.

        Raises:
            HubError: no header could be fetched, or the service works offline.
        """
        check_model_id(model_id)
        if self._offline:
            raise ModelNotFound(
                model_id,
                f"the Hub is not asked (HF_HUB_OFFLINE is set), and no weights of {model_id} are stored",
            )
        return await self._client.weights(model_id, revision, self._credential, file=file)

    async def gguf(self, name: GgufName, revision: str | None = None) -> GgufOnHub:
        """Return the header of a model in GGUF's format.

        Raises:
            HubError: it could not be fetched, or the service works offline.
        """
        check_model_id(name.model_id)
        if self._offline:
            raise ModelNotFound(
                name.model_id,
                f"the Hub is not asked (HF_HUB_OFFLINE is set), and no header of {name} is stored. A file of "
                "this host needs no Hub: dryserve plan FILE.gguf --engine llama.cpp, and for releases of "
                "vLLM that load it dryserve plan FILE.gguf --config FILE",
            )
        return await self._client.gguf(name, revision, self._credential)

    async def with_weight_bytes(self, fetched: FetchedConfig) -> FetchedConfig:
        """Return a config with `total_parameter_bytes` read from the headers of the weight files.

        It is returned unchanged if there are more than `FEW_FILES` files or the headers cannot be fetched.
        """
        if self._offline or fetched.source != "hub" or fetched.stale or fetched.revision is None:
            return fetched
        try:
            _, weights = await self._client.weights(
                fetched.id, fetched.revision, self._credential, most_files=FEW_FILES
            )
        except HubError:
            return fetched
        return (
            replace(fetched, total_parameter_bytes=weights.tensors.total_bytes) if weights.whole else fetched
        )

    async def _resolve_online(self, model_id: str, revision: str | None) -> FetchedConfig:
        try:
            return await self._client.fetch(model_id, revision, self._credential)
        except _SNAPSHOT_ERRORS as failure:
            bundled = await asyncio.to_thread(self._bundled_at, model_id, revision)
            if bundled is None:
                raise
            _free_frames(failure)
            return replace(bundled, note=f"this config is from the bundled snapshot: {failure}")

    async def _resolve_offline(self, model_id: str, revision: str | None) -> FetchedConfig:
        try:
            return await self._client.fetch_cached(model_id, revision, self._credential)
        except HubError as failure:
            _free_frames(failure)
            return await asyncio.to_thread(self._bundled, model_id, revision)

    def _bundled(self, model_id: str, revision: str | None) -> FetchedConfig:
        bundled = self._bundled_at(model_id, revision)
        if bundled is not None:
            return replace(bundled, note="this config is from the bundled snapshot: HF_HUB_OFFLINE is set")
        known = self._snapshot.get(model_id)
        if known is None or revision is None:
            raise ModelNotFound(
                model_id,
                f"the Hub is not asked (HF_HUB_OFFLINE is set), and {model_id} is neither stored nor "
                "bundled. Unset HF_HUB_OFFLINE; or store the model where the Hub can be reached (dryserve "
                f"models pull {model_id}) or from a folder (dryserve models import FOLDER); or send its "
                "config.json (`config`, --config FILE; of a draft `draft_config`, or a folder in "
                "--speculative-config)",
            )
        taken_at = f"commit {known.revision}" if known.revision else "a commit that its source does not state"
        reason = f"HF_HUB_OFFLINE is set, and dryserve bundles {known.id} at {taken_at}, not at {revision}"
        raise RevisionNotFound(model_id, revision, reason)

    def _bundled_at(self, model_id: str, revision: str | None) -> FetchedConfig | None:
        bundled = self._snapshot.get(model_id)
        if bundled is None or revision in {None, DEFAULT_REVISION}:
            return bundled
        return bundled if revision == bundled.revision else None


def _free_frames(failure: HubError) -> None:
    """Forget where a failure came from that was made up for: its frames hold it, which is a cycle."""
    failure.with_traceback(None)
