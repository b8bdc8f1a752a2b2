"""Stores the figures of startup logs as evidence for later plans."""

import time
from dataclasses import dataclass, replace
from typing import Final

from service.advisor.request.plan_request import PlanRequest
from service.application.models.requested_model import UNNAMED_MODEL
from service.application.probes.probe_jobs import startable_config
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.explanation import ExplainBody
from service.application.services import Services
from service.calibration.from_logs import (
    CONTAMINATED,
    LogNotStored,
    StoredLog,
    known_start,
    measurement_of_log,
)
from service.calibration.measurement import MeasuredModel
from service.explanation.explanation_types import Explanation
from service.serialization import identity

NO_CONFIG: Final = "the model has no config.json"
CALLERS_OWN: Final = (
    "the config was fetched with your own token of the Hub, so it is not stored; send it in `config`"
)


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sent a log."""

    name: str
    token: str = ""
    """Id of the token that the log came with; empty for the command line on the service's own host."""


async def store_log(
    explanation: Explanation, body: ExplainBody, services: Services, *, sender: Sender, private: bool = False
) -> StoredLog:
    """Store what an explained log measured, or say why not.

    ``private``: whether the Hub was asked with the caller's own token.

    Raises:
        StoreUnavailable: the database cannot be used.
        HubError: the model's config could not be fetched again.
    """
    if private and body.config is None:
        return StoredLog(None, new=False, why=CALLERS_OWN)
    try:
        model = await _model(known_start(explanation), body, services)
        now = time.time()
        logged = await run_cpu_bound(
            lambda: measurement_of_log(explanation, model, reporter=sender.name, now=now)
        )
    except LogNotStored as reason:
        return StoredLog(None, new=False, why=str(reason))
    measurement = replace(logged, reporter=sender.token)
    new = await services.probes.measurements.add([measurement])
    await services.probes.learned.refresh()
    return StoredLog(identity(measurement), new > 0, CONTAMINATED if measurement.contaminated else "")


async def _model(request: PlanRequest, body: ExplainBody, services: Services) -> MeasuredModel:
    config = await startable_config(body.config, request.model.id, body.revision, services)
    if config is None:
        raise LogNotStored(NO_CONFIG)
    # A log may name a folder of the sender's host, which must not be stored.
    name = request.model.id if body.config is None else body.model or UNNAMED_MODEL
    return MeasuredModel(name, config, request.model.checkpoint_bytes)
