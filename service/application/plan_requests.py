"""Reads the body of a request, and resolves its model, release, GPU types and flags."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from service.advisor.plan_request import (
    EngineChoice,
    MeasuredTpot,
    Model,
    Objective,
    PlanRequest,
    Workload,
)
from service.advisor.plan_types import Plan
from service.advisor.siblings import siblings_of
from service.application.command_requests import at_its_place, with_gpu_of_command, without_command
from service.application.errors import (
    MOST_ERRORS,
    GpuNotModelled,
    InputFault,
    InvalidRequest,
    UnknownFlag,
    escaped,
)
from service.application.field_words import field_words
from service.application.flag_faults import flag_faults
from service.application.known_names import is_flag, meant_in_body, moved_in_body, parameter_meant
from service.application.recent_models import ModelKey
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.base import UNKNOWN_NAMES, Input
from service.application.schemas.flag_objects import EplbInput, SpeculativeInput
from service.application.schemas.plan_body import PLACES, CountedGpu, GpuInput, PlanBody
from service.application.schemas.serve import ServeInput
from service.application.services import PlanServices
from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.mistral_format.files import ModelFiles, is_params
from service.architecture.model import ModelArchitecture
from service.architecture.overrides import overridden
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.backends.backend_rules import UnknownBackend
from service.engine_config.config_format import read_files
from service.engine_plans.engine_plan import ENGINES
from service.engines.flags import ServeFlags
from service.engines.releases import (
    PATCHES,
    RELEASES,
    ResolvedRelease,
    UnknownPatch,
    UnknownRelease,
    resolve_release,
    rules_for,
)
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.speculative_config import LOOKUPS
from service.gpus.catalog import AmbiguousGpu, GpuCatalog, UnknownGpu
from service.gpus.gpu_count import InvalidCount, split_count
from service.gpus.gpu_type import GpuType, InvalidGpu
from service.gpus.own_gpu import own_gpu
from service.hub.errors import (
    ConfigNotFound,
    InvalidModelId,
    ModelGated,
    ModelNotFound,
    NotATextModel,
    RevisionNotFound,
)
from service.hub.fetched_config import CONFIG, FetchedConfig
from service.hub.model_ids import is_path
from service.hub.snapshot import BundledSnapshot
from service.memory.weights.checkpoint_parameters import needs_checkpoint_bytes
from service.speed.prices import Price, PriceKind, PriceList

Place: TypeAlias = tuple[int | str, ...]
"""Keys and indices down to a value."""

UNNAMED_MODEL: Final = "./model"
"""Name of a config that is sent without an id; commands show it too."""
DEFAULT_REVISION: Final = "main"
"""The branch that the engine loads by default."""
SECTIONS: Final[Mapping[Place, tuple[str, ...]]] = {
    ("serve",): tuple(ServeInput.model_fields),
    ("serve", "speculative_config"): tuple(SpeculativeInput.model_fields),
    ("serve", "eplb_config"): tuple(EplbInput.model_fields),
}
"""Objects of the body whose members are flags of the engine, with the flags that are modelled."""
MAX_COMPARED: Final = 640
"""Most GPU types times releases of one request: every known type, for eight releases."""
MAX_DETAILED_GPUS: Final = 80
"""Most GPU types of one request with details or levers: every known type."""
BODY_TAGS: Final = frozenset({*(f"<{name}>" for name in ENGINES), "<engines>"})
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
        raise invalid_request(error.errors(include_url=False), PlanBody) from None


def invalid_request(
    errors: Sequence[ErrorDetails], schema: type[Input] | None = None
) -> InvalidRequest | UnknownFlag:
    """Return the error for what Pydantic found in a body or among flat parameters.

    Args:
        errors: what Pydantic found.
        schema: schema of the body, among whose names a similar one is looked for; None: no names are advised.
    """
    located = [place for error in errors for place in _places(error)]
    unnamed = sum(map(_unnamed, errors))
    for section, known in SECTIONS.items():
        flags = [each for each in located if _is_unknown(each[1]) and each[0][:-1] == section]
        if flags:
            taken = {id(each) for each in flags}
            others = [each for each in located if id(each) not in taken]
            names = [str(place[-1]) for place, _ in flags]
            pairs = _described(others[: max(0, MOST_ERRORS - len(flags))], schema)
            return UnknownFlag(
                names,
                known,
                section=_pointer(section),
                count=len(names) + sum(_unnamed(error) for error in errors if _location(error) == section),
                advice=["" if schema is None else moved_in_body(schema, section, name) for name in names],
                others=pairs,
                more=len(others) - len(pairs),
            )
    return InvalidRequest(_described(located[:MOST_ERRORS], schema), count=len(located) + unnamed)


def _described(
    located: Sequence[tuple[Place, ErrorDetails]], schema: type[Input] | None
) -> list[tuple[str, str]]:
    """Return pointers with what is wrong there. Finding words takes time, so only listed errors get some."""
    return [
        (_pointer(place), "; ".join(filter(None, (field_words(error), _advice(place, error, schema)))))
        for place, error in located
    ]


def _advice(place: Place, error: ErrorDetails, schema: type[Input] | None) -> str:
    """Return what a caller may have meant by an unknown name; empty for other errors, or without a hint."""
    if not _is_unknown(error) or not place:
        return ""
    name = str(place[-1])
    if error["loc"] and error["loc"][0] == "query":
        parameter = parameter_meant(name)
        return "" if parameter is None or is_flag(parameter) else f"use `{parameter}`"
    if schema is None:
        return ""
    inside = error["loc"] if error["type"] == UNKNOWN_NAMES else error["loc"][:-1]
    inside = inside[1:] if inside and inside[0] == "body" else inside
    # The tag says which body was read; its own members are at the root.
    return meant_in_body(schema, inside[1:] if inside and inside[0] in BODY_TAGS else inside, name)


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


def _location(error: ErrorDetails) -> Place:
    loc = error["loc"]
    source, *rest = loc if loc and loc[0] in {"body", "query", "path"} else ("", *loc)
    # Tags, which say which form of a value was read, are no part of the document.
    place = tuple(part for part in rest if not (isinstance(part, str) and part.startswith("<")))
    if source != "query":
        return place
    # An unknown parameter is treated as an unknown flag, unless its name is similar to another parameter's.
    if not place:
        return ("serve",) if error["type"] == UNKNOWN_NAMES else place
    name, *inside = str(place[0]), *place[1:]
    parameter = parameter_meant(name) if error["type"] == "extra_forbidden" else name
    is_unknown_flag = error["type"] == "extra_forbidden" and (parameter is None or is_flag(parameter))
    meant = ("serve", name) if is_unknown_flag else (name,)
    return (*PLACES.get(name, meant), *inside)


def _pointer(place: Place) -> str:
    return "".join(f"/{escaped(part)}" for part in place)


async def plan_request(body: PlanBody, services: PlanServices) -> PlanRequest:
    """Resolve the names in a body: its release with its rules, its GPU types, its model.

    Raises:
        InvalidRequest: there is neither a model nor a config, or the request is too large to plan.
        InputFault: a value names what does not exist, or a config cannot be read.
        HubError: the model's config could not be fetched.
    """
    without, command = body, None
    if body.command is not None:
        # A long document takes some tenths of a second.
        without, command = await run_cpu_bound(lambda: without_command(body))
        if command is not None:
            without, command = with_gpu_of_command(without, command, services.gpus)
    try:
        request = await _plan_request(without, services)
    except InputFault as fault:
        raise at_its_place(fault, body) from fault.cause
    return replace(request, command=command)


async def _plan_request(body: PlanBody, services: PlanServices) -> PlanRequest:
    _check_work(body)
    flags = body.serve.flags()
    engine = _engine(body, flags)
    gpus, counts = chosen_gpus(body.gpus, services.gpus)
    model = await _with_draft(await _model(body, services, engine.rules.checkpoints), body, flags, services)
    workload = _workload(body)
    return PlanRequest(
        model,
        gpus,
        engine,
        flags,
        workload,
        Objective(body.objective),
        body.free_memory_bytes,
        prices=_prices(body, services),
        with_levers="levers" in body.include,
        counts=counts,
        search=body.search,
    )


def _workload(body: PlanBody) -> Workload | None:
    """Return the workload of a body.

    Raises:
        InvalidRequest: measurements stand beside a search, whose candidates they are not of.
    """
    if body.workload is None:
        return None
    given = body.workload.model_dump()
    measured = tuple(MeasuredTpot(**each) for each in given.pop("measured"))
    if measured and body.search and body.command is None:
        words = "needs `search` to be false: it is measured on one start"
        raise InvalidRequest([("/workload/measured", words)])
    return Workload(**given, measured=measured)


def _prices(body: PlanBody, services: PlanServices) -> PriceList:
    """Return the prices of a body, then those of the service.

    Raises:
        InvalidRequest: the cheapest tokens are asked for, and no tokens are put out.
        InputFault: a price is of a GPU type that the catalog lacks.
    """
    if body.objective == "cost" and (body.workload is None or not body.workload.output_tokens):
        words = "with `output_tokens` is needed where the objective is `cost`"
        raise InvalidRequest([("/workload", words)])
    kind = PriceKind(body.price_kind)
    given = tuple(
        Price(
            gpu=_known_gpu(each.gpu, f"/prices/{index}/gpu", services.gpus).id,
            usd_per_gpu_hour=each.usd_per_gpu_hour,
            kind=PriceKind(each.kind or kind),
            provider=each.provider,
            as_of=each.as_of,
            source="given",
        )
        for index, each in enumerate(body.prices)
    )
    return PriceList((given, services.prices), kind)


def answer_plan_request(request: PlanRequest, services: PlanServices) -> Plan:
    """Plan a request: milliseconds to a second of one core.

    Raises:
        InputFault: a flag names an attention backend that the release does not have.
    """
    # The names of the bundled models are read from a file, so not while a request is resolved.
    siblings = _planned_siblings(request.model.id, services.snapshot)
    if siblings != request.siblings:
        request = replace(request, siblings=siblings)
    try:
        return services.plan(request)
    except UnknownBackend as error:
        commanded = request.command is not None and "attention_backend" in request.command.flags.serve
        raise InputFault("/command" if commanded else "/serve/attention_backend", error) from error


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
    _refuse(flag_faults(flags, release.release))
    rules = [rules_for(each, patches) for each in (release, *compared)]
    return EngineChoice(rules[0], patches, body.engine.name, tuple(rules[1:]))


def _release(given: str | None, pointer: str) -> ResolvedRelease:
    try:
        return resolve_release(given)
    except UnknownRelease as error:
        raise InputFault(pointer, error) from error


def _refuse(found: Sequence[InputFault]) -> None:
    """Raise the first of several faults, which names the others too; nothing where there are none."""
    if found:
        raise InputFault(found[0].pointer, found[0].cause, found[1:]) from found[0].cause


def chosen_gpus(
    choices: Sequence[str | CountedGpu | GpuInput] | None, catalog: GpuCatalog
) -> tuple[tuple[GpuType, ...], tuple[int | None, ...]]:
    """Return the GPU types of a body, and how many there are of each.

    Raises:
        InvalidRequest: a count cannot be read.
        InputFault: a name is that of no GPU type that is modelled, or a GPU of the caller's own is not valid.
    """
    if choices is None:
        return tuple(gpu for gpu in catalog if gpu.modelled), ()
    found = [_gpu(choice, f"/gpus/{index}", catalog) for index, choice in enumerate(choices)]
    return tuple(gpu for gpu, _ in found), tuple(count for _, count in found)


def _gpu(
    choice: str | CountedGpu | GpuInput, pointer: str, catalog: GpuCatalog
) -> tuple[GpuType, int | None]:
    if isinstance(choice, GpuInput):
        try:
            return own_gpu(**choice.model_dump(exclude={"count"})), choice.count
        except InvalidGpu as error:
            raise InputFault(f"{pointer}/{error.field}", error) from error
    if isinstance(choice, CountedGpu):
        return _known_gpu(choice.id, f"{pointer}/id", catalog), choice.count
    try:
        name, count = split_count(choice)
    except InvalidCount as error:
        raise InvalidRequest([(pointer, str(error))]) from error
    return _known_gpu(name, pointer, catalog), count


def _known_gpu(name: str, pointer: str, catalog: GpuCatalog) -> GpuType:
    try:
        gpu = catalog.named(name)
    except (AmbiguousGpu, UnknownGpu) as error:
        raise InputFault(pointer, error) from error
    if not gpu.modelled:
        raise InputFault(pointer, GpuNotModelled(gpu))
    return gpu


async def _model(body: PlanBody, services: PlanServices, rules: CheckpointRules) -> Model:
    overrides = body.serve.overrides()
    if body.config is not None:
        config = overridden(body.config, overrides) if overrides else body.config
        return _inline_model(body.model or UNNAMED_MODEL, config, body.hf_quant_config, rules)
    if body.hf_quant_config is not None:
        raise InvalidRequest([("/hf_quant_config", "is read only beside a config")])
    if body.model is None:
        raise InvalidRequest([("/model", "is missing: give a model id, or a config")])
    if overrides or not services.models.is_shared:
        fetched = await services.models.resolve(body.model, body.revision)
        if overrides:
            fetched = _with_overrides(fetched, overrides)
        return await _read(fetched, body, services, rules)
    key, recent = ModelKey.of(body.model, body.revision, rules), services.recent_models
    if (known := recent.find(key)) is not None:
        return known
    fetched = await services.models.resolve(body.model, body.revision)
    model = recent.same(key, fetched)
    if model is None or model.checkpoint_bytes != fetched.total_parameter_bytes:
        model = await _read(fetched, body, services, rules)
    recent.store(key, fetched, model)
    return model


async def _read(
    fetched: FetchedConfig, body: PlanBody, services: PlanServices, rules: CheckpointRules
) -> Model:
    model = await run_cpu_bound(lambda: read_model(fetched, rules))
    if model.checkpoint_bytes is None and needs_checkpoint_bytes(model.architecture):
        weighed = await services.models.with_weight_bytes(fetched)
        model = replace(model, checkpoint_bytes=weighed.total_parameter_bytes)
    return replace(model, requested_revision=None if body.revision == DEFAULT_REVISION else body.revision)


def _with_overrides(fetched: FetchedConfig, overrides: Mapping[str, Any]) -> FetchedConfig:
    """Return a model's files with keys of its config replaced.

    Raises:
        InvalidRequest: the model has no config.json, only Mistral's params.json.
    """
    if fetched.params is not None:
        raise InvalidRequest([("/serve/hf_overrides", "is not modelled for a model in Mistral's format")])
    return replace(fetched, config=overridden(fetched.config, overrides))


def _inline_model(
    model_id: str, config: Mapping[str, Any], modelopt: Mapping[str, Any] | None, rules: CheckpointRules
) -> Model:
    document = with_modelopt_file(config, modelopt)
    try:
        if is_params(config):
            files = ModelFiles(config, quantization=modelopt)
            return Model(model_id, None, "inline", read_files(files, rules))
        return Model(model_id, None, "inline", read_architecture(read_document(document)))
    except InvalidConfig as error:
        raise InputFault(_inline_pointer(error.pointer, from_file=document is not config), error) from error
    except UnknownArchitecture as error:
        raise InputFault("/config/architectures", error) from error


def _inline_pointer(pointer: str, *, from_file: bool) -> str:
    """Return a pointer into the request; ``from_file``: the quantization came from ``hf_quant_config``."""
    section = "/quantization_config"
    if from_file and pointer.startswith(section):
        return f"/hf_quant_config{pointer.removeprefix(section)}"
    return f"/config{pointer}"


async def _with_draft(model: Model, body: PlanBody, flags: ServeFlags, services: PlanServices) -> Model:
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
                "it is a path, which is read from --speculative-config of the command line alone; send the "
                "draft's config.json in `draft_config`, or name the draft on the Hub"
            )
            raise InvalidModelId(draft_id, rule)
        fetched = await services.models.resolve(draft_id, revision)
        if not fetched.config and fetched.params is not None:
            raise ConfigNotFound(draft_id, CONFIG)
        return _with_quantization(fetched)
    except NOT_TO_BE_HAD as error:
        raise InputFault(DRAFT_POINTER, error) from error


@lru_cache(maxsize=256)
def _planned_siblings(model_id: str, snapshot: BundledSnapshot) -> tuple[str, ...]:
    """Return the quantized checkpoints of a model whose bundled configs the engine reads as quantized."""
    return tuple(each for each in siblings_of(model_id, snapshot.ids()) if _is_quantized(each, snapshot))


def _is_quantized(model_id: str, snapshot: BundledSnapshot) -> bool:
    fetched = snapshot.get(model_id)
    try:
        return fetched is not None and read_model(fetched).architecture.quantization is not None
    except (InvalidConfig, UnknownArchitecture, NotATextModel):
        return False


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
        makers_cache_dtype=makers_cache_dtype(fetched.quantization_config),
        stale=fetched.stale,
    )


def _architecture(fetched: FetchedConfig, rules: CheckpointRules) -> ModelArchitecture:
    if fetched.params is None:
        return read_architecture(read_document(_with_quantization(fetched)))
    files = ModelFiles(
        fetched.params, fetched.config or None, fetched.quantization_config, fetched.consolidated
    )
    return read_files(files, rules)


def makers_cache_dtype(document: Mapping[str, Any] | None) -> str | None:
    """Return the cache dtype that a ModelOpt file (``hf_quant_config.json``) asks for.

    The engine reads that file only where config.json has no quantization_config (vLLM 0.33.0, get_config), so
    that ``auto`` may not follow it.
    """
    section = {} if document is None else document.get("quantization")
    name = section.get("kv_cache_quant_algo") if isinstance(section, Mapping) else None
    return name.lower() if isinstance(name, str) else None


def _with_quantization(fetched: FetchedConfig) -> Mapping[str, Any]:
    """Return the config with the quantization that ModelOpt writes to a file of its own, if it has none.

    Source: vLLM 0.32.0, get_config.
    """
    if fetched.quantization_config is None or fetched.config.get("quantization_config") is not None:
        return fetched.config
    return {**fetched.config, "quantization_config": fetched.quantization_config}
