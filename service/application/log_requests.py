"""Turns a startup log, and what is given beside it, into the request for a plan of the same start."""

from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from service.advisor.plan_request import PlanRequest
from service.application.errors import InputFault, InvalidRequest, UnknownFlag
from service.application.plan_requests import plan_request, read_plan_body
from service.application.schemas.explanation import ExplainBody
from service.application.schemas.serve import ServeInput
from service.application.services import Services
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.engines.releases import UnknownRelease
from service.explanation.explain import explain
from service.explanation.explanation_types import Assumption, Explanation
from service.explanation.log_facts import flags_of, gpus_of, release_of
from service.hub.errors import HubError
from service.startup_log.log import StartupLog

STAND_IN: Final = "h100-sxm-80gb"
"""The GPU type that is planned where none is given: nothing that depends on its memory is compared."""
NO_PLAN: Final = (InputFault, InvalidRequest, UnknownFlag, HubError, InvalidConfig, UnknownArchitecture)
"""Errors of a request; where the log itself is their cause, no plan is made."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The start that a log describes, as far as it can be planned."""

    request: PlanRequest | None
    gpu_specified: bool
    assumptions: tuple[Assumption, ...]
    missing: tuple[Assumption, ...]

    def explain(self, log: StartupLog) -> Explanation:
        """Compare the log with the plan."""
        return explain(
            log,
            self.request,
            gpu_specified=self.gpu_specified,
            assumptions=self.assumptions,
            missing=self.missing,
        )


async def log_request(log: StartupLog, body: ExplainBody, services: Services) -> LogRequest:
    """Return the request for a plan of the start that a log describes.

    Raises:
        InputFault: what was given beside the log names what does not exist, or cannot be read.
        HubError: the config of a model that was given beside the log could not be fetched.
    """
    if body.model is None and body.config is None and log.model is None:
        return _unplanned("model", "the log does not name the model")
    try:
        release, assumed = _release(log, body)
    except UnknownRelease as error:
        return _unplanned("engine.version", str(error))
    gpu, gpu_specified, of_gpu = _gpu(log, body, services)
    serve, of_flags = _serve(log, body)
    document: dict[str, Any] = {
        **body.model_dump(include={"revision", "config", "draft_config"}, exclude_none=True),
        "model": body.model or log.model,
        "engine": {"version": release, "patches": body.engine.patches},
        "gpus": [gpu],
        "serve": serve,
    }
    try:
        request = await plan_request(read_plan_body(document), services)
    except NO_PLAN as error:
        if _specified_beside(error, body):
            raise _at_its_place(error) from error
        return _unplanned(_field_of(error), str(error))
    return LogRequest(request, gpu_specified, (*assumed, *of_gpu, *of_flags), ())


def _unplanned(field: str, why: str) -> LogRequest:
    return LogRequest(None, gpu_specified=False, assumptions=(), missing=(Assumption(field, "", why),))


def _release(log: StartupLog, body: ExplainBody) -> tuple[str, tuple[Assumption, ...]]:
    if body.engine.version is not None:
        return body.engine.version, ()
    return release_of(log)


def _gpu(log: StartupLog, body: ExplainBody, services: Services) -> tuple[Any, bool, tuple[Assumption, ...]]:
    if body.gpu is not None:
        return body.gpu if isinstance(body.gpu, str) else body.gpu.model_dump(), True, ()
    found = gpus_of(log, services.gpus)
    if not found:
        why = "the log does not say which GPU it is; what depends on its memory is not compared"
        return STAND_IN, False, (Assumption("gpu", STAND_IN, why),)
    likeliest = found[0].id
    if len(found) == 1:
        return likeliest, True, (_only(likeliest),)
    others = ", ".join(gpu.id for gpu in found[1:])
    return likeliest, True, (Assumption("gpu", likeliest, f"by what the log says; it could be {others} too"),)


def _only(gpu: str) -> Assumption:
    return Assumption("gpu", gpu, "the only type that the log can be of", certain=True)


def _serve(log: StartupLog, body: ExplainBody) -> tuple[dict[str, Any], tuple[Assumption, ...]]:
    """Return the flags of the start; logged values that no flag can have are left out, each with a note."""
    specified, assumptions = flags_of(log)
    serve: dict[str, Any] = {}
    dropped = []
    for name, value in specified.items():
        try:
            ServeInput.model_validate({name: value})
        except ValidationError:
            dropped.append(Assumption(f"serve.{name}", "the default", "the log's value cannot be read"))
        else:
            serve[name] = value
    given = body.serve.model_dump(exclude_none=True)
    beside = (replace(each, certain=bool(given)) for each in assumptions)
    return {**serve, **given}, (*beside, *(each for each in dropped if each.field[6:] not in given))


def _specified_beside(error: Exception, body: ExplainBody) -> bool:
    """Whether an error is caused by what the caller gave, and not by what the log says."""
    if not isinstance(error, InputFault):
        return body.model is not None or body.config is not None
    section, *rest = error.pointer.strip("/").split("/")
    if section in {"serve", "engine"}:
        return bool(rest) and rest[0] in getattr(body, section).model_fields_set
    return getattr(body, "gpu" if section == "gpus" else section, None) is not None


def _at_its_place(error: Exception) -> Exception:
    if isinstance(error, InputFault) and error.pointer.startswith("/gpus/0"):
        return InputFault(error.pointer.replace("/gpus/0", "/gpu", 1), error.cause)
    return error


def _field_of(error: Exception) -> str:
    return error.pointer.strip("/").replace("/", ".") if isinstance(error, InputFault) else "model"
