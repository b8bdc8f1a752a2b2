"""A GGUF file as a checkpoint of vLLM: a config, with the bytes of the file's tensors."""

from collections.abc import Callable
from typing import Final

from service.application.schemas.requests.plan_body import PlanBody
from service.application.services import PlanServices
from service.engines.releases import RELEASES, rules_for
from service.engines.rules.gguf import GgufRules
from service.hub.errors import ConfigNotFound, GgufNotPlanned
from service.hub.local_model import as_gguf, is_gguf_checkpoint
from service.hub.model_files.fetched_config import FetchedConfig
from service.hub.model_files.gguf_name import GgufName
from service.nearest_names import quoted

ELSEWHERE: Final = (
    "llama.cpp loads it in every build that is planned (`engine.name`, --engine llama.cpp); or plan the "
    "model that it was made from, by its id or its config.json (`config`, --config)"
)


async def gguf_checkpoint(body: PlanBody, services: PlanServices, rules: GgufRules) -> FetchedConfig | None:
    """Return the GGUF file that a body names as its model; ``None`` where it names another model.

    Raises:
        GgufNotPlanned: the release does not load it, or not by such a name.
        HubError: its config or its header could not be fetched.
    """
    model = body.model
    if model is None:
        return None
    local = services.models.local(model)
    if local is not None:
        if not is_gguf_checkpoint(local):
            return None
        _check_release(model, rules)
        return local
    name = GgufName.of(model)
    if name is None:
        return None
    _check_release(model, rules)
    if name.file is not None or not rules.by_quantization:
        raise GgufNotPlanned(model, _words_of_name(model))
    header = (await services.models.gguf(name, body.revision)).header
    fetched = await _config(body, name, services)
    return as_gguf(fetched, model, sum(header.tensor_bytes.values()))


async def _config(body: PlanBody, name: GgufName, services: PlanServices) -> FetchedConfig:
    """Return the config of a body, or else that of the repository, which the engine reads."""
    if body.config is not None:
        return FetchedConfig(
            id=name.model_id, revision=None, source="inline", config=body.config, provenance="the request"
        )
    try:
        return await services.models.resolve(name.model_id, body.revision)
    except ConfigNotFound as error:
        words = "; send the config.json of the model that it was made from (`config`, --config FILE)"
        raise GgufNotPlanned(str(name), f"{error}{words}") from error


def _check_release(model: str, rules: GgufRules) -> None:
    if rules.loads_files:
        return
    first, last = _loading(lambda each: each.loads_files)
    words = (
        f"{quoted(model)} is a GGUF file, which vLLM loads from {first} to {last} (`engine.version`, "
        f"--engine-version {last}); later releases need the package vllm-gguf-plugin, which is not modelled. "
    )
    raise GgufNotPlanned(model, words + ELSEWHERE)


def _words_of_name(model: str) -> str:
    first, last = _loading(lambda each: each.by_quantization)
    return (
        f"vLLM takes a GGUF file of the Hub as org/name:Q4_K_M from {first} to {last}, and a file of its "
        f"host in earlier releases too; {quoted(model)} is neither. {ELSEWHERE}"
    )


def _loading(does: Callable[[GgufRules], bool]) -> tuple[str, str]:
    """Return the first and the last release of which something holds."""
    found = [str(each) for each in RELEASES if does(rules_for(each).gguf)]
    return found[0], found[-1]
