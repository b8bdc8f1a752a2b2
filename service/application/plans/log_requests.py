"""Turns a startup log, and what is given beside it, into the request for a plan of the same start."""

import re
from asyncio import to_thread
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from packaging.version import Version
from pydantic import ValidationError

from service.advisor.request.plan_request import PlanRequest
from service.application.errors import InputFault, InvalidRequest, UnknownFlag
from service.application.models.local_models import local_model
from service.application.models.similar_models import SimilarModel, similar_models
from service.application.plans.plan_requests import plan_request, read_plan_body, with_siblings
from service.application.schemas.explanation import ExplainBody
from service.application.schemas.flags.serve import ServeInput
from service.application.services import PlanServices
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.engines.releases import RELEASES, UnknownRelease, rules_for, unavailable_flags
from service.explanation.explain import explain
from service.explanation.explanation_types import Agreement, Assumption, Explanation
from service.explanation.log_facts import (
    NOT_NAMED,
    flags_of,
    gpus_of,
    nearest_release,
    own_gpu,
    release_of,
    resolved_of,
    stand_in_for,
)
from service.gpus.capability import ComputeCapability
from service.hub.errors import HubError
from service.startup_log.log import StartupLog

NO_GPU: Final = (
    "the log does not say which GPU it is, and holds no figure that a plan of another one could confirm"
)
PLATFORMS: Final[Mapping[str, str]] = {
    "rocm": "AMD GPUs (ROCm)",
    "cpu": "CPUs",
    "xpu": "Intel GPUs (XPU)",
    "tpu": "TPUs",
    "hpu": "Gaudi (HPU)",
    "neuron": "Neuron devices",
    "npu": "Ascend NPUs",
    "metal": "the GPU of a Mac (Metal)",
}
OWN_NAME: Final = re.compile(r"[\w./~-]{1,200}", re.ASCII)
"""Names of a model that a command can hold as they are."""
NO_PLAN: Final = (InputFault, InvalidRequest, UnknownFlag, HubError, InvalidConfig, UnknownArchitecture)
"""Errors of a request; where the log itself is their cause, no plan is made."""


@dataclass(frozen=True, slots=True)
class SimilarStart:
    """The same start with the config of a model that should have the same shape."""

    request: PlanRequest
    model: SimilarModel
    assumption: Assumption


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The start that a log describes, as far as it can be planned."""

    request: PlanRequest | None
    gpu_specified: bool
    assumptions: tuple[Assumption, ...]
    missing: tuple[Assumption, ...]
    similar: tuple[SimilarStart, ...] = ()
    """Where the model's config is not to be had: plans of models that may have its shape."""

    def explain(self, log: StartupLog) -> Explanation:
        """Compare the log with the plan, or with that of the first similar model that its figures allow."""
        for similar in self.similar:
            explanation = explain(
                log,
                similar.request,
                gpu_specified=self.gpu_specified,
                assumptions=(similar.assumption, *self.assumptions),
            )
            if _is_confirmed(similar, explanation):
                return explanation
        if self.request is not None and not self.gpu_specified:
            explanation = explain(log, self.request, gpu_specified=False, assumptions=self.assumptions)
            if _says_something(explanation):
                return explanation
            return explain(log, None, missing=(Assumption("gpus", "", NO_GPU),))
        return explain(
            log,
            self.request,
            gpu_specified=self.gpu_specified,
            assumptions=() if self.request is None else self.assumptions,
            missing=self.missing,
        )


def _says_something(explanation: Explanation) -> bool:
    """Whether a plan of a GPU that is not known says more than the log: a figure, or a refusal."""
    compared = any(each.agreement is not Agreement.NOT_COMPARED for each in explanation.findings)
    return compared or (explanation.ending is not None and explanation.ending.planned is not None)


def _is_confirmed(similar: SimilarStart, explanation: Explanation) -> bool:
    """Whether the log's figures allow a similar model; without its name, cache and weights must agree."""
    if similar.model.named:
        return explanation.cache_figures is not Agreement.DIFFERS
    weights = {each.agreement for each in explanation.findings if each.name == "model_loading_gib"}
    return explanation.cache_figures is Agreement.AGREES and bool(
        weights & {Agreement.AGREES, Agreement.WITHIN}
    )


async def log_request(log: StartupLog, body: ExplainBody, services: PlanServices) -> LogRequest:
    """Return the request for a plan of the start that a log describes.

    Raises:
        InputFault: what was given beside the log names what does not exist, or cannot be read.
        HubError: the config of a model that was given beside the log could not be fetched.
    """
    if log.around.platform not in {None, "cuda"} and body.gpu is None:
        words = f"the log is of vLLM on {PLATFORMS[log.around.platform or '']}; plans cover NVIDIA GPUs alone"
        return _unplanned("gpu", words)
    if body.model is None and body.config is None and log.model is None:
        return _unplanned("model", "the log does not name the model")
    gpu, gpu_specified, of_gpu = _gpu(log, body, services)
    serve, of_flags = _serve(log, body)
    release, assumed = _with_flags(serve, _capability(gpu, services), *_release(log, body))
    if not gpu_specified or not log.server:
        serve = {**resolved_of(log), **serve}
    model, of_model = await _model(log, body, services)
    document: dict[str, Any] = {
        **body.model_dump(include={"revision", "config", "draft_config"}, exclude_none=True),
        "model": model,
        "engine": {"version": release, "patches": body.engine.patches},
        "gpus": [gpu],
        "serve": serve,
    }
    assumptions = (*assumed, *of_gpu, *of_flags)
    try:
        request = await plan_request(read_plan_body(document), services)
    except NO_PLAN as error:
        if _specified_beside(error, body):
            raise _at_its_place(error) from error
        field = _field_of(error)
        similar = (
            await _similar_starts(log, document, services) if field in {"model", "architectures"} else ()
        )
        missing = (Assumption(field, "", str(error)),)
        return LogRequest(None, gpu_specified, assumptions, missing, similar)
    if log.failure is not None:
        request = await to_thread(with_siblings, request, services.snapshot)
    request = replace(request, compiled_before=log.found_compiled)
    return LogRequest(request, gpu_specified, (*of_model, *assumptions), ())


async def _similar_starts(
    log: StartupLog, document: Mapping[str, Any], services: PlanServices
) -> tuple[SimilarStart, ...]:
    """Return the same start with each model at hand that should have the shape of the logged one."""
    if log.model is None:
        return ()
    found = await to_thread(similar_models, log.model, log.word("architecture"), services.snapshot)
    length = log.resolved.get("max_model_len")
    known = {} if length is None else {"max_model_len": length}
    starts: list[SimilarStart] = []
    for each in found:
        serve = {**known, **document["serve"]}
        body = {**document, "model": each.id, "revision": None, "serve": serve}
        try:
            request = await plan_request(read_plan_body(body), services)
        except NO_PLAN:
            continue
        own = log.model if OWN_NAME.fullmatch(log.model) else each.id
        request = replace(request, model=replace(request.model, id=own))
        starts.append(SimilarStart(request, each, _assumed_similar(log.model, each)))
    return tuple(starts)


def _assumed_similar(name: str, similar: SimilarModel) -> Assumption:
    fitting = (
        "by its name" if similar.named else "by its architecture and the log's figures of cache and weights"
    )
    why = (
        f"the config of {name[:100]} is not at hand; {fitting} it has the layers of this model, "
        "but its weights and limits can differ"
    )
    return Assumption("model", similar.id, why, doubt="a similar model")


def _unplanned(field: str, why: str) -> LogRequest:
    return LogRequest(None, gpu_specified=False, assumptions=(), missing=(Assumption(field, "", why),))


async def _model(
    log: StartupLog, body: ExplainBody, services: PlanServices
) -> tuple[str | None, tuple[Assumption, ...]]:
    """Return the model to plan; a local path is looked up among the models at hand."""
    if body.model is not None or body.config is not None or log.model is None:
        return body.model or log.model, ()
    found = await to_thread(local_model, log.model, log.word("architecture"), services.snapshot)
    if found is None:
        return log.model, ()
    why = f"the log's {log.model!r} is a local path; its last part and its architecture fit this model alone"
    return found, (Assumption("model", found, why),)


def _release(log: StartupLog, body: ExplainBody) -> tuple[str, tuple[Assumption, ...]]:
    if body.engine.version is not None:
        return body.engine.version, ()
    try:
        return release_of(log)
    except UnknownRelease as error:
        nearest = nearest_release(error.given)
        given = error.given[:40]
        why = f"vLLM {given} is not modelled; this is the nearest release that is, and figures can differ"
        return nearest, (Assumption("engine.version", nearest, why, doubt="another release"),)


def _capability(gpu: Any, services: PlanServices) -> ComputeCapability | None:  # noqa: ANN401 - an id or a body
    return next((each.compute_capability for each in services.gpus if each.id == gpu), None)


def _is_built_for(capability: ComputeCapability | None, release: Version) -> bool:
    """Whether the published builds of a release have kernels for a GPU."""
    least = ComputeCapability.parse(rules_for(release).kernels.least_built_capability)
    return capability is None or capability >= least


def _with_flags(
    serve: Mapping[str, Any],
    capability: ComputeCapability | None,
    release: str,
    assumed: tuple[Assumption, ...],
) -> tuple[str, tuple[Assumption, ...]]:
    """Return the release to plan: if the log names none, the newest with all flags, built for the GPU."""
    if [each.why for each in assumed] != [NOT_NAMED]:
        return release, assumed
    try:
        flags = ServeInput.model_validate(serve).flags()
    except ValidationError:
        return release, assumed
    flagged = [each for each in reversed(RELEASES) if not any(unavailable_flags(flags, each))]
    found = next((each for each in flagged if _is_built_for(capability, each)), next(iter(flagged), None))
    if found is None or str(found) == release:
        return release, assumed
    built = "" if found == flagged[0] else " and whose builds have kernels for this GPU"
    why = f"{NOT_NAMED}; this is the newest that has all its flags{built}"
    return str(found), (Assumption("engine.version", str(found), why),)


def _gpu(
    log: StartupLog, body: ExplainBody, services: PlanServices
) -> tuple[Any, bool, tuple[Assumption, ...]]:
    if body.gpu is not None:
        return body.gpu if isinstance(body.gpu, str) else body.gpu.model_dump(), True, ()
    found = gpus_of(log, services.gpus)
    own = None if found else own_gpu(log)
    if own is not None:
        return own[0], True, (Assumption("gpu", own[0]["name"], own[1]),)
    if not found:
        stand_in, says = stand_in_for(log, services.gpus)
        why = f"{says}; what depends on its memory is not compared"
        return stand_in, False, (Assumption("gpu", stand_in, why),)
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
        return error.moved(lambda pointer: pointer.replace("/gpus/0", "/gpu", 1))
    return error


def _field_of(error: Exception) -> str:
    return error.pointer.strip("/").replace("/", ".") if isinstance(error, InputFault) else "model"
