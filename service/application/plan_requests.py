"""Reads the body of a request, and resolves its model, release, GPU types and flags."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.advisor.plan_request import (
    EngineChoice,
    Model,
    Objective,
    PlanRequest,
    Workload,
)
from service.advisor.plan_types import Plan
from service.application.errors import (
    GpuNotModelled,
    InputFault,
    InvalidRequest,
    UnknownCacheDtype,
    UnknownFlag,
    UnknownSpeculativeMethod,
    escaped,
)
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.base import UNKNOWN_NAMES
from service.application.schemas.plan_body import PLACES, GpuInput, PlanBody
from service.application.schemas.serve import ServeInput, SpeculativeInput
from service.application.services import Services
from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.mistral_format.files import ModelFiles, is_params
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.backends.backend_rules import UnknownBackend
from service.engine_config.config_format import read_files
from service.engines.flags import ServeFlags
from service.engines.releases import (
    PATCHES,
    RELEASES,
    ResolvedRelease,
    UnavailableFlag,
    UnknownPatch,
    UnknownRelease,
    check_flags,
    resolve_release,
    rules_for,
)
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.speculative_config import LOOKUPS, SpeculativeConfig
from service.gpus.catalog import GpuCatalog, UnknownGpu
from service.gpus.gpu_type import GpuType, InvalidGpu, inline_gpu
from service.hub.errors import (
    ConfigNotFound,
    InvalidModelId,
    ModelGated,
    ModelNotFound,
    NotATextModel,
    RevisionNotFound,
)
from service.hub.fetched_config import CONFIG, FetchedConfig
from service.memory.weights.checkpoint_parameters import needs_checkpoint_bytes

Place: TypeAlias = tuple[int | str, ...]
"""Keys and indices down to a value."""

UNNAMED_MODEL: Final = "./model"
"""Name of a config that is sent without an id; commands show it too."""
DEFAULT_REVISION: Final = "main"
"""The branch that the engine loads by default."""
SECTIONS: Final[Mapping[Place, tuple[str, ...]]] = {
    ("serve",): tuple(ServeInput.model_fields),
    ("serve", "speculative_config"): tuple(SpeculativeInput.model_fields),
}
"""Objects of the body whose members are flags of the engine, with the flags that are modelled."""
MAX_COMPARED: Final = 640
"""Most GPU types times releases of one request: every known type, for eight releases."""
MAX_DETAILED_GPUS: Final = 80
"""Most GPU types of one request with details or levers: every known type."""
DRAFT_POINTER: Final = "/serve/speculative_config/model"
NOT_TO_BE_HAD: Final = (InvalidModelId, ModelGated, ModelNotFound, NotATextModel, RevisionNotFound)
"""Errors of the Hub that another draft model, or its config in the request, would avoid."""


def read_plan_body(document: object) -> PlanBody:
    """Read the body of a plan.

    Raises:
        InvalidRequest: values are missing, of the wrong type or out of range.
        UnknownFlag: `serve` names a flag that is not modelled.
    """
    try:
        return PlanBody.model_validate(document)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False)) from None


def invalid_request(errors: Sequence[ErrorDetails]) -> InvalidRequest | UnknownFlag:
    """Return the error for what Pydantic found in a body or among flat parameters."""
    located = [place for error in errors for place in _places(error)]
    for section, known in SECTIONS.items():
        names = [str(place[-1]) for place, error in located if _is_unknown(error) and place[:-1] == section]
        if names:
            count = len(names) + sum(_unnamed(error) for error in errors if _location(error) == section)
            return UnknownFlag(names, known, section=_pointer(section), count=count)
    pairs = [(_pointer(place), _message(error)) for place, error in located]
    return InvalidRequest(pairs, count=len(pairs) + sum(map(_unnamed, errors)))


def _places(error: ErrorDetails) -> Iterator[tuple[Place, ErrorDetails]]:
    """Yield the place of an error; an error for many unknown names has the place of each of the first."""
    place = _location(error)
    if error["type"] != UNKNOWN_NAMES:
        yield place, error
        return
    for name in error["ctx"]["names"]:
        yield (*place, name), error


def _unnamed(error: ErrorDetails) -> int:
    """Return the number of unknown names that an error counts without naming them."""
    return error["ctx"]["count"] - len(error["ctx"]["names"]) if error["type"] == UNKNOWN_NAMES else 0


def _is_unknown(error: ErrorDetails) -> bool:
    return error["type"] in {"extra_forbidden", UNKNOWN_NAMES}


def _message(error: ErrorDetails) -> str:
    return "no such name is known" if error["type"] == UNKNOWN_NAMES else error["msg"]


def _location(error: ErrorDetails) -> Place:
    loc = error["loc"]
    source, *rest = loc if loc and loc[0] in {"body", "query", "path"} else ("", *loc)
    # Tags, which say which form of a value was read, are no part of the document.
    place = tuple(part for part in rest if not (isinstance(part, str) and part.startswith("<")))
    if source != "query":
        return place
    # An unknown parameter is treated as an unknown flag.
    if not place:
        return ("serve",) if error["type"] == UNKNOWN_NAMES else place
    name, *inside = str(place[0]), *place[1:]
    meant = ("serve", name) if error["type"] == "extra_forbidden" else (name,)
    return (*PLACES.get(name, meant), *inside)


def _pointer(place: Place) -> str:
    return "".join(f"/{escaped(part)}" for part in place)


async def plan_request(body: PlanBody, services: Services) -> PlanRequest:
    """Resolve the names in a body: its release with its rules, its GPU types, its model.

    Raises:
        InvalidRequest: there is neither a model nor a config, or the request is too large to plan.
        InputFault: a value names what does not exist, or a config cannot be read.
        HubError: the model's config could not be fetched.
    """
    _check_work(body)
    flags = body.serve.flags()
    engine = _engine(body, flags)
    gpus = _gpus(body, services.gpus)
    model = await _with_draft(await _model(body, services, engine.rules.checkpoints), body, flags, services)
    workload = Workload(**body.workload.model_dump()) if body.workload else None
    return PlanRequest(
        model,
        gpus,
        engine,
        flags,
        workload,
        Objective(body.objective),
        body.free_memory_bytes,
        with_levers="levers" in body.include,
    )


def answer_plan_request(request: PlanRequest, services: Services) -> Plan:
    """Plan a request: milliseconds to a second of one core.

    Raises:
        InputFault: a flag names an attention backend that the release does not have.
    """
    try:
        return services.plan(request)
    except UnknownBackend as error:
        raise InputFault("/serve/attention_backend", error) from error


def _check_work(body: PlanBody) -> None:
    """Refuse requests that would take minutes of a core or tens of megabytes of answer."""
    gpus, releases = len(body.gpus or ()), max(1, len(body.engine.versions))
    if gpus * releases > MAX_COMPARED:
        words = f"are {gpus} for {releases} releases: at most {MAX_COMPARED} are planned, of both together"
        raise InvalidRequest([("/gpus", words)])
    if body.include and gpus > MAX_DETAILED_GPUS:
        raise InvalidRequest([("/gpus", f"are {gpus}: `include` goes with at most {MAX_DETAILED_GPUS}")])


def _engine(body: PlanBody, flags: ServeFlags) -> EngineChoice:
    """Resolve the releases and patches that a body names, once, and check the flags against the release."""
    versions = enumerate(body.engine.versions)
    compared = [_release(version, f"/engine/versions/{index}") for index, version in versions]
    if body.engine.version is None and compared:
        release = compared[-1]
    else:
        release = _release(body.engine.version, "/engine/version")
    patches = tuple(body.engine.patches)
    for index, patch in enumerate(patches):
        if patch not in PATCHES:
            raise InputFault(f"/engine/patches/{index}", UnknownPatch(patch))
    try:
        check_flags(flags, release.release)
    except UnavailableFlag as error:
        raise InputFault(f"/serve/{error.flag}", error) from error
    _check_cache_dtype(flags.kv_cache_dtype)
    _check_method(flags.speculative_config)
    rules = [rules_for(each, patches) for each in (release, *compared)]
    return EngineChoice(rules[0], patches, body.engine.name, tuple(rules[1:]))


def _release(given: str | None, pointer: str) -> ResolvedRelease:
    try:
        return resolve_release(given)
    except UnknownRelease as error:
        raise InputFault(pointer, error) from error


@cache
def _cache_dtypes() -> tuple[str, ...]:
    """Return the cache dtypes of all releases together."""
    dtypes = (dtype for release in RELEASES for dtype in rules_for(release).dtypes.accepted)
    return tuple(dict.fromkeys(dtypes))


@cache
def _speculative_methods() -> tuple[str, ...]:
    """Return the methods of speculative decoding of all releases together."""
    methods = (method for release in RELEASES for method in rules_for(release).speculation.methods)
    return tuple(dict.fromkeys(methods))


def _check_cache_dtype(given: str | None) -> None:
    """Refuse a cache dtype that no release has; for one of another release the plan has the refusal."""
    if given is not None and given not in _cache_dtypes():
        raise InputFault("/serve/kv_cache_dtype", UnknownCacheDtype(given, _cache_dtypes()))


def _check_method(given: SpeculativeConfig | None) -> None:
    """Refuse a method that no release has; of one of other releases the plan says that it is refused."""
    if given is None or given.method is None or given.method in _speculative_methods():
        return
    fault = UnknownSpeculativeMethod(given.method, _speculative_methods())
    raise InputFault("/serve/speculative_config/method", fault)


def _gpus(body: PlanBody, catalog: GpuCatalog) -> tuple[GpuType, ...]:
    if body.gpus is None:
        return tuple(gpu for gpu in catalog if gpu.modelled)
    return tuple(_gpu(choice, f"/gpus/{index}", catalog) for index, choice in enumerate(body.gpus))


def _gpu(choice: str | GpuInput, pointer: str, catalog: GpuCatalog) -> GpuType:
    if isinstance(choice, GpuInput):
        try:
            return inline_gpu(**choice.model_dump())
        except InvalidGpu as error:
            raise InputFault(f"{pointer}/{error.field}", error) from error
    try:
        gpu = catalog.find(choice)
    except UnknownGpu as error:
        raise InputFault(pointer, error) from error
    if not gpu.modelled:
        raise InputFault(pointer, GpuNotModelled(gpu))
    return gpu


async def _model(body: PlanBody, services: Services, rules: CheckpointRules) -> Model:
    if body.config is not None:
        return _inline_model(body.model or UNNAMED_MODEL, body.config, rules)
    if body.model is None:
        raise InvalidRequest([("/model", "a model id or a config is needed")])
    fetched = await services.models.resolve(body.model, body.revision)
    model = await run_cpu_bound(lambda: read_model(fetched, rules))
    if model.checkpoint_bytes is None and needs_checkpoint_bytes(model.architecture):
        weighed = await services.models.with_weight_bytes(fetched)
        model = replace(model, checkpoint_bytes=weighed.total_parameter_bytes)
    return replace(model, requested_revision=None if body.revision == DEFAULT_REVISION else body.revision)


def _inline_model(model_id: str, config: Mapping[str, Any], rules: CheckpointRules) -> Model:
    try:
        if is_params(config):
            return Model(model_id, None, "inline", read_files(ModelFiles(config), rules))
        return Model(model_id, None, "inline", read_architecture(read_document(config)))
    except InvalidConfig as error:
        raise InputFault(f"/config{error.pointer}", error) from error
    except UnknownArchitecture as error:
        raise InputFault("/config/architectures", error) from error


async def _with_draft(model: Model, body: PlanBody, flags: ServeFlags, services: Services) -> Model:
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


async def _draft_document(draft_id: str, revision: str | None, services: Services) -> Mapping[str, Any]:
    try:
        fetched = await services.models.resolve(draft_id, revision)
        if not fetched.config and fetched.params is not None:
            raise ConfigNotFound(draft_id, CONFIG)
        return _with_quantization(fetched)
    except NOT_TO_BE_HAD as error:
        raise InputFault(DRAFT_POINTER, error) from error


def read_model(fetched: FetchedConfig, rules: CheckpointRules | None = None) -> Model:
    """Read a fetched config by the rules of a release, by default the newest.

    Raises:
        InvalidConfig: the config cannot be read as a model.
        UnknownArchitecture: its architecture is not modelled.
        NotATextModel: it is not modelled, and the Hub says that the model is for another task.
    """
    try:
        architecture = _architecture(fetched, rules or rules_for(RELEASES[-1]).checkpoints)
    except (InvalidConfig, UnknownArchitecture) as error:
        if fetched.task is None:
            raise
        raise NotATextModel(fetched.id, fetched.task) from error
    return Model(
        id=fetched.id,
        revision=fetched.revision,
        source=fetched.source,
        architecture=architecture,
        checkpoint_bytes=fetched.total_parameter_bytes,
        note=fetched.note,
        stale=fetched.stale,
    )


def _architecture(fetched: FetchedConfig, rules: CheckpointRules) -> ModelArchitecture:
    if fetched.params is None:
        return read_architecture(read_document(_with_quantization(fetched)))
    files = ModelFiles(
        fetched.params, fetched.config or None, fetched.quantization_config, fetched.consolidated
    )
    return read_files(files, rules)


def _with_quantization(fetched: FetchedConfig) -> Mapping[str, Any]:
    """Return the config with the quantization that ModelOpt writes to a file of its own, if it has none.

    Source: vLLM 0.32.0, get_config.
    """
    if fetched.quantization_config is None or fetched.config.get("quantization_config") is not None:
        return fetched.config
    return {**fetched.config, "quantization_config": fetched.quantization_config}
