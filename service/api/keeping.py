"""Startup logs that are kept as evidence for later plans."""

import time
from dataclasses import dataclass, replace
from typing import Final

from service.advisor.request import PlanRequest
from service.api.probing import startable_config
from service.api.questions import UNNAMED_MODEL
from service.api.schemas.explanation import ExplainBody
from service.api.services import Services
from service.api.turns import in_turn
from service.documents import identity
from service.explanation.answer import Explanation
from service.probe.logged import CROWDED, Kept, NotKept, known_start, measurement_of_log
from service.probe.measurements import MeasuredModel

NO_CONFIG: Final = "the model has no config.json"
CALLERS_OWN: Final = "the config was had with your own token of the Hub, for you alone; send it in `config`"


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a log."""

    name: str
    token: str = ""
    """Id of the token that it came with; empty on the service's own host."""


async def keep_log(
    explanation: Explanation, body: ExplainBody, services: Services, *, sender: Sender, private: bool = False
) -> Kept:
    """Keep what an explained log measured, or say why not.

    ``private``: the Hub was asked with the caller's own token.

    Raises:
        StoreUnavailable: the database cannot be used.
        HubError: the model's config could not be had again.
    """
    if private and body.config is None:
        return Kept(None, new=False, why=CALLERS_OWN)
    try:
        model = await _model(known_start(explanation), body, services)
        now = time.time()
        logged = await in_turn(lambda: measurement_of_log(explanation, model, witness=sender.name, now=now))
    except NotKept as reason:
        return Kept(None, new=False, why=str(reason))
    measurement = replace(logged, witness=sender.token)
    new = await services.probes.measurements.keep([measurement])
    await services.probes.learned.refresh()
    return Kept(identity(measurement), new > 0, CROWDED if measurement.contaminated else "")


async def _model(request: PlanRequest, body: ExplainBody, services: Services) -> MeasuredModel:
    config = await startable_config(body.config, request.model.id, body.revision, services)
    if config is None:
        raise NotKept(NO_CONFIG)
    # A log may name a folder of whoever started the engine; with a config of his own that is nobody's matter.
    name = request.model.id if body.config is None else body.model or UNNAMED_MODEL
    return MeasuredModel(name, config, request.model.checkpoint_bytes)
