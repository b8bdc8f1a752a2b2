"""The model that a request names or holds."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from service.advisor.request.plan_request import Model
from service.application.catalogs.model_reading import read_model
from service.application.errors import InputFault, InvalidRequest
from service.application.models.gguf_checkpoint import gguf_checkpoint
from service.application.recent_models import ModelKey
from service.application.run_cpu_bound import run_cpu_bound
from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.architecture.config import InvalidConfig, read_document
from service.architecture.model_files import ModelFiles, is_params
from service.architecture.overrides import overridden
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.engine_config.config_format import read_files
from service.engines.engine_rules import EngineRules
from service.engines.rules.checkpoints import CheckpointRules
from service.hub.model_files.fetched_config import FetchedConfig
from service.memory.weights.counts.checkpoint_parameters import needs_checkpoint_bytes

UNNAMED_MODEL: Final = "./model"
"""Name of a config that is sent without an id; commands show it too."""
DEFAULT_REVISION: Final = "main"
"""The branch that the engine loads by default."""


async def requested_model(body: PlanBody, services: PlanServices, engine: EngineRules) -> Model:
    """Return the model of a body, read by the rules of a release.

    Raises:
        InvalidRequest: there is neither a model nor a config, or a file goes with neither.
        InputFault: the config of the body cannot be read.
        HubError: the model's config could not be fetched.
    """
    overrides, rules = body.serve.overrides(), engine.checkpoints
    gguf = await gguf_checkpoint(body, services, engine.gguf)
    if gguf is not None:
        return await _read(_with_overrides(gguf, overrides) if overrides else gguf, body, services, rules)
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
