"""The draft model that the flags of a request name."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.advisor.request.plan_request import Model
from service.application.catalogs.model_reading import with_quantization
from service.application.errors import InputFault
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.engines.flags import ServeFlags
from service.engines.speculative_config import LOOKUPS
from service.hub.errors import (
    ConfigNotFound,
    InvalidModelId,
    ModelGated,
    ModelNotFound,
    NotATextModel,
    RevisionNotFound,
)
from service.hub.model_files.fetched_config import CONFIG
from service.hub.model_files.model_ids import is_path

DRAFT_POINTER: Final = "/serve/speculative_config/model"
NOT_TO_BE_HAD: Final = (InvalidModelId, ModelGated, ModelNotFound, NotATextModel, RevisionNotFound)
"""Errors of the Hub that another draft model, or its config in the request, would avoid."""


async def with_draft(model: Model, body: PlanBody, flags: ServeFlags, services: PlanServices) -> Model:
    """Return a model with the config of the draft that its flags name.

    Raises:
        InputFault: the draft's config cannot be read.
        HubError: it could not be fetched.
    """
    speculative = flags.speculative_config
    if speculative is None or speculative.model is None or speculative.method in LOOKUPS:
        return model
    document = body.draft_config or await _draft_document(speculative.model, speculative.revision, services)
    try:
        checkpoint = read_draft_checkpoint(speculative.model, read_document(document))
    except InvalidConfig as error:
        specified = f"/draft_config{error.pointer}" if body.draft_config else DRAFT_POINTER
        raise InputFault(specified, error) from error
    drafts = replace(model.architecture.drafts, checkpoint=checkpoint)
    return replace(model, architecture=replace(model.architecture, drafts=drafts))


async def _draft_document(draft_id: str, revision: str | None, services: PlanServices) -> Mapping[str, Any]:
    try:
        if is_path(draft_id) and services.models.local(draft_id) is None:
            rule = (
                "it is a path, which the command line alone reads; send the draft's config.json in "
                "`draft_config`, or name the draft on the Hub"
            )
            raise InvalidModelId(draft_id, rule)
        fetched = await services.models.resolve(draft_id, revision)
        if not fetched.config and fetched.params is not None:
            raise ConfigNotFound(draft_id, CONFIG)
        return with_quantization(fetched)
    except NOT_TO_BE_HAD as error:
        raise InputFault(DRAFT_POINTER, error) from error
