"""Decides who answers for a model: the Hub, or the bundled snapshot in its stead.

Offline, what was pulled or imported answers, else the snapshot. Online, the Hub is asked, and what it says of
existence stands: a model, revision or file that it does not know is not taken from the snapshot. Where it
gives no answer, no config, or will not show a gated one, a bundled model is answered from the snapshot with a
note that says so.

A caller who names a revision gets that revision or an error: the snapshot stands in only for the default
branch and for the very commit it was taken at.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

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
from service.hub.model_ids import DEFAULT_REVISION, check_model_id, check_revision

if TYPE_CHECKING:
    from service.hub.checkpoint_weights import Weights
    from service.hub.credential import Credential
    from service.hub.fetched import FetchedConfig
    from service.hub.hub_client import HubClient
    from service.hub.snapshot import BundledSnapshot

FEW_FILES: Final = 4
"""Headers that a plan may wait for, where its verdict depends on them."""
_STOOD_IN_FOR: Final = (HubUnreachable, HubTimedOut, HubRateLimited, ModelGated, ConfigNotJson)


class ModelSource:
    """Resolves a model id to its config; for one caller, where it comes with a credential of its own."""

    def __init__(
        self,
        client: HubClient,
        snapshot: BundledSnapshot,
        *,
        offline: bool = False,
        credential: Credential | None = None,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._offline = offline
        self._credential = credential

    def on_behalf_of(self, credential: Credential) -> ModelSource:
        """Return the source that asks with a caller's own credential; its answers are that caller's alone."""
        return ModelSource(self._client, self._snapshot, offline=self._offline, credential=credential)

    async def close(self) -> None:
        """Close what keeps answers."""
        await self._client.close()

    async def resolve(self, model_id: str, revision: str | None = None) -> FetchedConfig:
        """Return the config of a model at a revision (the default branch if None).

        Raises:
            HubError: the config could not be had, by its cause; `nearest` names bundled models spelt alike.
        """
        check_model_id(model_id)
        if revision is not None:
            check_revision(model_id, revision)
        try:
            if self._offline:
                return await self._resolve_offline(model_id, revision)
            return await self._resolve_online(model_id, revision)
        except HubError as error:
            error.nearest = await asyncio.to_thread(self._snapshot.nearest, model_id)
            raise

    async def weights(
        self, model_id: str, revision: str | None = None, file: str | None = None
    ) -> tuple[str, Weights]:
        """Return the commit and what the headers of a model's weights tell.

        Raises:
            HubError: they could not be had.
        """
        check_model_id(model_id)
        if self._offline:
            raise ModelNotFound(model_id, f"this service works offline and holds no weights of {model_id}")
        return await self._client.weights(model_id, revision, self._credential, file=file)

    async def weighed(self, fetched: FetchedConfig) -> FetchedConfig:
        """Return a model with the bytes of all its tensors, by the headers of its weights if those are few.

        Where they cannot be had it is returned as it is.
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
        except _STOOD_IN_FOR as failure:
            bundled = await asyncio.to_thread(self._stand_in, model_id, revision)
            if bundled is None:
                raise
            return replace(bundled, note=f"answered from the bundled snapshot: {failure}")

    async def _resolve_offline(self, model_id: str, revision: str | None) -> FetchedConfig:
        try:
            return await self._client.recall(model_id, revision, self._credential)
        except HubError:
            return await asyncio.to_thread(self._bundled, model_id, revision)

    def _bundled(self, model_id: str, revision: str | None) -> FetchedConfig:
        bundled = self._stand_in(model_id, revision)
        if bundled is not None:
            return replace(bundled, note="answered from the bundled snapshot: this service works offline")
        known = self._snapshot.get(model_id)
        if known is None or revision is None:
            raise ModelNotFound(model_id, f"this service works offline and holds no model {model_id}")
        taken_at = f"commit {known.revision}" if known.revision else "a commit its source does not state"
        reason = f"this service works offline and bundles {known.id} at {taken_at}, not at {revision}"
        raise RevisionNotFound(model_id, revision, reason)

    def _stand_in(self, model_id: str, revision: str | None) -> FetchedConfig | None:
        bundled = self._snapshot.get(model_id)
        if bundled is None or revision in {None, DEFAULT_REVISION}:
            return bundled
        return bundled if revision == bundled.revision else None
