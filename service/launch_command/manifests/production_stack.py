"""Starts in the values and objects of the vLLM production stack."""

from collections.abc import Iterator
from typing import Any, Final

from service.launch_command.launch import Invocation, LaunchForm, Placement
from service.launch_command.manifests.document_values import (
    Document,
    gpu_name_of,
    line_of,
    list_of,
    mapping_of,
    text_of,
    variables_of,
    whole_of,
    words_of,
)


def production_stack_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of the values of the vLLM production stack.

    Source: vllm-project/production-stack, helm/templates/deployment-vllm-multi.yaml.
    """
    for spec in map(mapping_of, list_of(mapping_of(document.get("servingEngineSpec")).get("modelSpec"))):
        config = mapping_of(spec.get("vllmConfig"))
        environment = {**variables_of(config.get("env")), **variables_of(spec.get("env"))}
        repository, tag = text_of(spec.get("repository")), spec.get("tag")
        yield Invocation(
            LaunchForm.HELM_VALUES,
            line_of(next(iter(spec), 1)),
            tuple(words_of(config.get("extraArgs"), environment)),
            tuple(_chart_settings(spec, config)),
            model=text_of(spec.get("modelURL")),
            environment=environment,
            image=f"{repository}:{tag}" if repository and tag else repository,
            placement=Placement(
                gpus_per_node=whole_of(spec.get("requestGPU")),
                replicas=whole_of(spec.get("replicaCount")),
                gpu_name=gpu_name_of(spec),
            ),
            notes=tuple(_chart_notes(spec)),
        )


_CHART_NAMES: Final = {
    "maxModelLen": "max_model_len",
    "dtype": "dtype",
    "tensorParallelSize": "tensor_parallel_size",
    "maxNumSeqs": "max_num_seqs",
    "gpuMemoryUtilization": "gpu_memory_utilization",
    "maxLoras": "max_loras",
    "runner": "runner",
    "convert": "convert",
}


def _chart_settings(spec: Document, config: Document) -> Iterator[tuple[str, Any]]:
    """Yield the flags that the chart makes of its values.

    With any ``vllmConfig`` it turns prefix caching off, unless the values turn it on.
    """
    if spec.get("enableLoRA") is True or config.get("enableLoRA") is True:
        yield "enable_lora", True
    if config:
        yield "enable_prefix_caching", config.get("enablePrefixCaching") is True
    if "enableChunkedPrefill" in config:
        yield "enable_chunked_prefill", config["enableChunkedPrefill"] is True
    for key, name in _CHART_NAMES.items():
        if config.get(key) is not None:
            yield name, config[key]
    if (revision := text_of(spec.get("modelRevision"))) is not None:
        yield "revision", revision
    if mapping_of(spec.get("lmcacheConfig")).get("enabled") is True:
        yield "kv_transfer_config", {"kv_connector": "LMCacheConnectorV1"}


def _chart_notes(spec: Document) -> Iterator[str]:
    unread = sorted({"extraArgs", *_CHART_NAMES} & spec.keys())
    if unread:
        yield f"The chart reads {', '.join(unread)} inside of vllmConfig alone: here they have no effect."


def runtime_starts(spec: Document) -> Iterator[Invocation]:
    """Yield the start of a VLLMRuntime, the object of the production stack's operator.

    Source: vllm-project/production-stack, operator/api/v1alpha1/vllmruntime_types.go.
    """
    model, config = mapping_of(spec.get("model")), mapping_of(spec.get("vllmConfig"))
    deployment = mapping_of(spec.get("deploymentConfig"))
    image = mapping_of(deployment.get("image"))
    merged = {**model, **spec, **config}
    environment = variables_of(config.get("env"))
    switches = {
        "enableLoRA": "enable_lora",
        "enablePrefixCaching": "enable_prefix_caching",
        "enableChunkedPrefill": "enable_chunked_prefill",
    }
    settings = [(name, merged[key]) for key, name in _CHART_NAMES.items() if merged.get(key) is not None]
    settings += [(name, merged[key]) for key, name in switches.items() if isinstance(merged.get(key), bool)]
    yield Invocation(
        LaunchForm.KUBERNETES,
        line_of(next(iter(spec), 1)),
        tuple(words_of(merged.get("extraArgs"), environment)),
        tuple(settings),
        model=text_of(model.get("modelURL")),
        environment=environment,
        image=text_of(image.get("name")),
        placement=Placement(
            gpus_per_node=whole_of(mapping_of(deployment.get("resources")).get("gpu")),
            replicas=whole_of(deployment.get("replicas")),
        ),
    )
