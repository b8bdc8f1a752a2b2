"""Reads requests for models in GGUF's format, which llama.cpp loads: on the Hub, or of this host."""

from service.application.errors import InvalidRequest
from service.application.plans.chosen_gpus import chosen_gpus
from service.application.plans.engine_requests import asked_engines
from service.application.schemas.requests.engine_body import EngineBody, LlamaBody
from service.application.services import PlanServices
from service.engines_compared.engine_choice import LlamaAsked
from service.engines_compared.gguf_plan import GgufQuestion
from service.gpus.catalog import GpuCatalog
from service.hub.formats.gguf import GgufHeader
from service.hub.gguf_headers import GgufOnHub
from service.hub.model_files.gguf_name import GgufName
from service.llama_cpp.gguf_model import GgufModel, gguf_model
from service.llama_cpp.llama_source import FileSource
from service.llama_cpp.model_layers import NotConverted, UnmodelledLayers

SHORT_COMMIT = 12
"""Digits of a commit that a note shows."""


def gguf_name(body: EngineBody) -> GgufName | None:
    """Return the GGUF weights that a request for llama.cpp asks for; ``None`` for a model with a config."""
    if not isinstance(body, LlamaBody) or body.model is None or body.config is not None:
        return None
    serve = body.serve
    named = GgufName.of(body.model) or GgufName(body.model)
    if named.tag is None and named.file is None:
        tag = serve.quant if "quant" in serve.model_fields_set else None
        named = GgufName(named.model_id, tag=None if serve.hf_file else tag, file=serve.hf_file)
    return named


async def gguf_question(body: EngineBody, name: GgufName, services: PlanServices) -> GgufQuestion:
    """Read the header of GGUF weights on the Hub.

    Raises:
        InvalidRequest: the header does not describe a model that can be planned.
        InputFault: a GPU type or a build is not known.
        HubError: the header could not be fetched.
    """
    found = await services.models.gguf(name, body.revision)
    source = FileSource(read_model(found.header), str(name), name.words(), _remarks(name, found))
    return question_of(body, source, services.gpus)


def question_of(body: EngineBody, source: FileSource, gpus: GpuCatalog) -> GgufQuestion:
    """Return the question about a model in GGUF's format.

    Raises:
        InputFault: a GPU type or a build is not known.
    """
    types, counts = chosen_gpus(body.gpus, gpus)
    (server,) = asked_engines(body)
    if not isinstance(server, LlamaAsked):
        raise TypeError(type(server))
    pairs = tuple(zip(types, counts or (None,) * len(types), strict=True))
    work = body.workload
    tokens = None if work is None else work.prompt_tokens + work.output_tokens
    return GgufQuestion(source, server, pairs, body.cache_bytes, tokens)


def read_model(header: GgufHeader) -> GgufModel:
    """Return the model of a header.

    Raises:
        InvalidRequest: it lacks an entry, or its caches are not modelled.
    """
    try:
        return gguf_model(header.values, header.tensor_bytes, header.vocabulary)
    except (NotConverted, UnmodelledLayers) as error:
        raise InvalidRequest([("/model", f"cannot be planned: {error}")]) from error


def _remarks(name: GgufName, found: GgufOnHub) -> tuple[str, ...]:
    first, *others = found.files
    parts = f" and {len(others)} more parts" if others else ""
    read = f"{name.model_id}/{first}{parts} at commit {found.commit[:SHORT_COMMIT]}"
    if found.projector is None:
        return (read,)
    return (read, f"`-hf` loads {found.projector} too, which is not counted; `--no-mmproj` leaves it out")
