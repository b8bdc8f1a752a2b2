"""Starts in objects of KServe: InferenceService with a model, and LLMInferenceService."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from service.launch_command.launch import Invocation, LaunchForm, Placement, Word
from service.launch_command.manifests.document_values import (
    Document,
    container_gpus,
    gpu_name_of,
    line_of,
    list_of,
    mapping_of,
    model_of_uri,
    text_of,
    variables_of,
    whole_of,
    words_of,
)
from service.launch_command.shell.shell_words import simple_commands
from service.launch_command.shell.starts import argv_starts


def predictor_model(spec: Document) -> Document | None:
    """Return the model of an InferenceService's predictor; ``None`` where it has containers instead."""
    model = mapping_of(mapping_of(spec.get("predictor")).get("model"))
    return model or None


def predictor_starts(spec: Document, model: Document) -> Iterator[Invocation]:
    """Yield the start of an InferenceService whose runtime has the command; the service has the flags.

    Source: KServe, `serving.kserve.io/v1beta1` InferenceService: `model.storageUri`, `args`, `env`.
    """
    form = str(mapping_of(model.get("modelFormat")).get("name", "")).lower()
    runtime = str(model.get("runtime", "")).lower()
    if "huggingface" not in form and "vllm" not in form + runtime:
        return
    environment = variables_of(model.get("env"))
    words = words_of(model.get("args"), environment)
    # KServe's own server has names of its own for the model; the rest goes to the engine.
    renamed = {"--model_id": "--model", "--model-id": "--model", "--model_name": "--served-model-name"}
    named = [replace(word, text=_renamed(word.text, renamed)) for word in words]
    predictor = mapping_of(spec.get("predictor"))
    nodes = whole_of(mapping_of(predictor.get("workerSpec")).get("pipelineParallelSize"))
    tensor = whole_of(mapping_of(predictor.get("workerSpec")).get("tensorParallelSize"))
    settings = (("pipeline_parallel_size", nodes), ("tensor_parallel_size", tensor))
    yield Invocation(
        LaunchForm.KSERVE,
        line_of(next(iter(model), 1)),
        tuple(named),
        tuple((name, value) for name, value in settings if value is not None),
        model=model_of_uri(text_of(model.get("storageUri"))),
        environment=environment,
        image=text_of(model.get("image")),
        placement=Placement(
            gpus_per_node=container_gpus(model),
            nodes=nodes,
            replicas=whole_of(predictor.get("minReplicas")),
            gpu_name=gpu_name_of(predictor),
        ),
    )


def _renamed(word: str, names: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    return names.get(name, name) + equals + value


_PARALLELISM: Final = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
}


def inference_service_starts(spec: Document) -> Iterator[Invocation]:
    """Yield the starts of an LLMInferenceService: of its pods, then of its prefill pods.

    Source: KServe, `serving.kserve.io/v1alpha1` LLMInferenceService: `model.uri`, `parallelism`, `template`,
    `prefill`.
    """
    model = mapping_of(spec.get("model"))
    for part in (spec, mapping_of(spec.get("prefill"))):
        if part is spec or mapping_of(part.get("template")):
            yield _service_part(part, model)


def _service_part(part: Document, model: Document) -> Invocation:
    parallelism, template = mapping_of(part.get("parallelism")), mapping_of(part.get("template"))
    settings = [
        (flag, parallelism[key])
        for key, flag in _PARALLELISM.items()
        if whole_of(parallelism.get(key)) is not None
    ]
    if parallelism.get("expert") is True:
        settings.append(("enable_expert_parallel", True))
    if mapping_of(model.get("lora")).get("adapters"):
        settings.append(("enable_lora", True))
    containers = [mapping_of(each) for each in list_of(template.get("containers"))]
    main = next((each for each in containers if each.get("name") == "main"), None)
    container = main or (containers[0] if containers else {})
    environment = variables_of(container.get("env"))
    return Invocation(
        LaunchForm.KSERVE,
        line_of(next(iter(part), 1)),
        tuple(_service_words(container, environment)),
        tuple(settings),
        model=model_of_uri(text_of(model.get("uri"))),
        environment=environment,
        image=text_of(container.get("image")),
        placement=Placement(
            gpus_per_node=container_gpus(container),
            replicas=whole_of(part.get("replicas")),
            gpu_name=gpu_name_of(template),
        ),
    )


def _service_words(container: Document, environment: Mapping[str, Word]) -> list[Word]:
    program = words_of(container.get("command"), environment)
    words = words_of(container.get("args"), environment)
    if program:
        started = next(argv_starts((*program, *words), environment, LaunchForm.KSERVE), None)
        words = list(started.words) if started else words
    extra = environment.get("VLLM_ADDITIONAL_ARGS")
    if extra is not None and not extra.missing:
        words += [word for command in simple_commands(extra.text) for word in command.words]
    return words
