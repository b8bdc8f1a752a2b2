"""Starts in documents that describe containers: Docker Compose, Kubernetes, KServe and Helm values."""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from service.launch_command.documents import Text
from service.launch_command.launch import Invocation, LaunchForm, Placement, Word
from service.launch_command.releases import is_engine_image
from service.launch_command.shell_words import read_commands
from service.launch_command.starts import (
    argv_starts,
    entrypoint_start,
    seen_inside,
    shell_starts,
    visible_devices,
)

GPU_RESOURCE: Final = re.compile(r"(?:nvidia|amd|habana|gpu\.intel|aws\.amazon)\.(?:com|ai)/.{1,60}")
_GPU_LABELS: Final = re.compile(
    r"(?:nvidia\.com/gpu\.product|cloud\.google\.com/gke-accelerator|gpu\.nvidia\.com/class)"
)
_REFERENCE: Final = re.compile(
    r"\$(\$)?(?:\(([A-Za-z_][A-Za-z0-9_.-]{0,127})\)|\{([A-Za-z_][A-Za-z0-9_]{0,127})(?::?-([^{}]{0,400}))?\})"
)
MAX_VISITED: Final = 20_000
_INSIDE: Final = ("vllm", "server", "main", "leader", "prefill", "decode")
Document = Mapping[str, Any]


def _mapping(value: Any) -> Document:  # noqa: ANN401 - a value of a document
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:  # noqa: ANN401 - a value of a document
    return value if isinstance(value, list) else []


def _whole(value: Any) -> int | None:  # noqa: ANN401 - a value of a document
    if isinstance(value, bool):
        return None
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


def _line(value: Any) -> int:  # noqa: ANN401 - a value of a document
    return getattr(value, "line", 1)


def _text(value: Any) -> str | None:  # noqa: ANN401 - a value of a document
    return str(value) if isinstance(value, str) and value else None


def references_replaced(text: str, environment: Mapping[str, Word], line: int) -> Word:
    """Return a word in which ``$(NAME)`` and ``${NAME:-default}`` are replaced where their value is known."""
    missing: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        name = found[2] or found[3]
        if found[1]:
            return found[0][1:]
        word = environment.get(name)
        if word is not None and not word.missing:
            return word.text
        if found[4] is not None:
            return found[4]
        missing.append(name)
        return found[0]

    return Word(_REFERENCE.sub(replaced, text)[: 1 << 16], line, tuple(missing))


def _words(value: Any, environment: Mapping[str, Word]) -> list[Word]:  # noqa: ANN401 - a value of a document
    """Return the words of a list, or of a text as a shell splits it."""
    if isinstance(value, str):
        found = read_commands(value)
        words = [word for command in found for word in command.words]
        return [replace(word, line=_line(value) + word.line - 1) for word in words]
    return [
        references_replaced(_written(each), environment, _line(each))
        for each in _list(value)
        if each is not None
    ]


def _written(value: Any) -> str:  # noqa: ANN401 - a value of a document
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variables(value: Any) -> dict[str, Word]:  # noqa: ANN401 - a value of a document
    """Return variables of a mapping, of ``NAME=value`` texts, or of Kubernetes' names and values."""
    found: dict[str, Word] = {}
    if isinstance(value, dict):
        for name, each in value.items():
            found[str(name)] = Word(
                _written(each), 1, () if isinstance(each, str | int | float) else (str(name),)
            )
    for each in _list(value):
        if isinstance(each, str):
            name, equals, text = each.partition("=")
            found[name] = Word(text, _line(each), () if equals else (name,))
        elif isinstance(each, dict) and isinstance(each.get("name"), str):
            name, given = str(each["name"]), each.get("value")
            known = isinstance(given, str | int | float)
            found[name] = Word(
                _written(given) if known else "", _line(each["name"]), () if known else (name,)
            )
    return {
        name: replace(word, text=references_replaced(word.text, found, 1).text)
        for name, word in found.items()
    }


# Docker Compose


def is_compose(document: Document) -> bool:
    """Whether a document is a Compose file."""
    services = document.get("services")
    return isinstance(services, dict) and any(
        isinstance(each, dict) and {"image", "command", "build", "entrypoint"} & each.keys()
        for each in services.values()
    )


def compose_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of a Compose file.

    Source: the Compose specification: ``command``, ``entrypoint``, ``environment``, ``deploy``, ``gpus``.
    """
    for service in map(_mapping, _mapping(document.get("services")).values()):
        environment = _variables(service.get("environment"))
        image = references_replaced(_text(service.get("image")) or "", {}, 1)
        arguments = _compose_words(service.get("command"), environment)
        program = _compose_words(service.get("entrypoint"), environment)
        notes = (
            ["The variables in a file that `env_file` names are not known."]
            if service.get("env_file")
            else []
        )
        found = (
            argv_starts((*program, *arguments), environment, LaunchForm.COMPOSE, image=image.text)
            if program
            else entrypoint_start(arguments, environment, LaunchForm.COMPOSE, image.text)
        )
        for start in found:
            yield replace(start, placement=_compose_placement(service, start), notes=(*start.notes, *notes))


def _compose_words(value: Any, environment: Mapping[str, Word]) -> list[Word]:  # noqa: ANN401
    # Compose replaces variables before the container starts, by those of its own caller.
    if isinstance(value, str):
        text = references_replaced(value, {}, _line(value))
        words = _words(Text(text.text, text.line), environment)
        return [
            replace(word, missing=tuple(name for name in text.missing if name in word.text)) for word in words
        ]
    return _words(value, {})


def _compose_placement(service: Document, start: Invocation) -> Placement:
    before = start.placement
    deploy = _mapping(service.get("deploy"))
    resources = _mapping(deploy.get("resources"))
    devices = [
        _mapping(device)
        for key in ("reservations", "limits")
        for device in _list(_mapping(resources.get(key)).get("devices"))
    ]
    devices += map(_mapping, _list(service.get("gpus")))
    ids = next((each for device in devices if (each := _list(device.get("device_ids")))), [])
    seen = seen_inside(tuple(map(str, ids)), visible_devices(start.environment))
    count = next(filter(None, map(_device_count, devices)), None)
    return replace(
        before,
        gpus_per_node=count or before.gpus_per_node or len(seen) or None,
        replicas=_whole(deploy.get("replicas")),
        devices=seen,
    )


def _device_count(device: Document) -> int | None:
    return len(_list(device.get("device_ids"))) or _whole(device.get("count"))


# Kubernetes


def kubernetes_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of a Kubernetes object: of every container in it, whatever object holds the container.

    Replicas and nodes come from the object: ``replicas``, and ``size`` of a LeaderWorkerSet.
    """
    kind = str(document.get("kind", ""))
    spec = _mapping(document.get("spec"))
    if kind == "LLMInferenceService":
        yield from _inference_service(spec)
        return
    if kind == "VLLMRuntime":
        yield from _runtime_starts(spec)
        return
    model = _predictor_model(spec)
    if kind == "InferenceService" and model is not None:
        yield from _predictor(spec, model)
        return
    form = (
        LaunchForm.KSERVE
        if kind in {"InferenceService", "ServingRuntime", "ClusterServingRuntime"}
        else LaunchForm.KUBERNETES
    )
    for pod, path in _pods(document):
        yield from _pod_starts(pod, form, _placement_of(document, path))


def _pods(document: Document) -> Iterator[tuple[Document, tuple[str, ...]]]:
    """Yield every mapping that has containers, with the keys that lead to it."""
    waiting: deque[tuple[Any, tuple[str, ...]]] = deque([(document, ())])
    visited = 0
    while waiting and visited < MAX_VISITED:
        value, path = waiting.popleft()
        visited += 1
        if isinstance(value, dict):
            if isinstance(value.get("containers"), list):
                yield value, path
            waiting.extend(
                (each, (*path, str(key))) for key, each in value.items() if isinstance(each, dict | list)
            )
        elif isinstance(value, list):
            waiting.extend((each, path) for each in value if isinstance(each, dict))


def _placement_of(document: Document, path: tuple[str, ...]) -> Placement:
    replicas, nodes, inside = None, None, document
    for key in path:
        inside = _mapping(inside.get(key))
        replicas = _whole(inside.get("replicas")) if "replicas" in inside else replicas
        if key == "leaderWorkerTemplate":
            nodes = _whole(inside.get("size"))
    return Placement(nodes=nodes, replicas=replicas)


def _pod_starts(pod: Document, form: LaunchForm, placement: Placement) -> Iterator[Invocation]:
    gpu_name = _gpu_name(pod)
    for container in map(_mapping, _list(pod.get("containers"))):
        environment = _variables(container.get("env"))
        for start in _container_starts(container, environment, form):
            own = replace(
                placement,
                gpus_per_node=_container_gpus(container) or start.placement.gpus_per_node,
                gpu_name=gpu_name,
            )
            yield replace(start, placement=own)


def _container_starts(
    container: Document, environment: Mapping[str, Word], form: LaunchForm
) -> Iterator[Invocation]:
    image = _text(container.get("image")) or ""
    program, arguments = (
        _words(container.get("command"), environment),
        _words(container.get("args"), environment),
    )
    if program:
        yield from argv_starts((*program, *arguments), environment, form, image=image or None)
    elif image or arguments:
        yield from entrypoint_start(arguments, environment, form, image)


def _container_gpus(container: Document) -> int | None:
    resources = _mapping(container.get("resources"))
    for key in ("limits", "requests"):
        for name, value in _mapping(resources.get(key)).items():
            if GPU_RESOURCE.fullmatch(str(name)) and (count := _whole(value)) is not None:
                return count
    return None


def _gpu_name(pod: Document) -> str | None:
    """Return the GPU type that a node selector or an affinity asks for, if it is one."""
    for name, value in _mapping(pod.get("nodeSelector")).items():
        if _GPU_LABELS.fullmatch(str(name)):
            return _text(value)
    affinity = _mapping(_mapping(pod.get("affinity")).get("nodeAffinity"))
    terms = _mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms")
    for term in map(_mapping, _list(terms)):
        for each in map(_mapping, _list(term.get("matchExpressions"))):
            values = _list(each.get("values"))
            if _GPU_LABELS.fullmatch(str(each.get("key"))) and len(values) == 1:
                return _text(values[0])
    return None


# KServe


def _predictor_model(spec: Document) -> Document | None:
    model = _mapping(_mapping(spec.get("predictor")).get("model"))
    return model or None


def _predictor(spec: Document, model: Document) -> Iterator[Invocation]:
    """Yield the start of an InferenceService whose runtime has the command; the service has the flags.

    Source: KServe, `serving.kserve.io/v1beta1` InferenceService: `model.storageUri`, `args`, `env`.
    """
    form = str(_mapping(model.get("modelFormat")).get("name", "")).lower()
    runtime = str(model.get("runtime", "")).lower()
    if "huggingface" not in form and "vllm" not in form + runtime:
        return
    environment = _variables(model.get("env"))
    words = _words(model.get("args"), environment)
    # KServe's own server has names of its own for the model; the rest goes to the engine.
    renamed = {"--model_id": "--model", "--model-id": "--model", "--model_name": "--served-model-name"}
    named = [replace(word, text=_renamed(word.text, renamed)) for word in words]
    predictor = _mapping(spec.get("predictor"))
    nodes = _whole(_mapping(predictor.get("workerSpec")).get("pipelineParallelSize"))
    tensor = _whole(_mapping(predictor.get("workerSpec")).get("tensorParallelSize"))
    settings = (("pipeline_parallel_size", nodes), ("tensor_parallel_size", tensor))
    yield Invocation(
        LaunchForm.KSERVE,
        _line(next(iter(model), 1)),
        tuple(named),
        tuple((name, value) for name, value in settings if value is not None),
        model=_model_of_uri(_text(model.get("storageUri"))),
        environment=environment,
        image=_text(model.get("image")),
        placement=Placement(
            gpus_per_node=_container_gpus(model),
            nodes=nodes,
            replicas=_whole(predictor.get("minReplicas")),
            gpu_name=_gpu_name(predictor),
        ),
    )


def _renamed(word: str, names: Mapping[str, str]) -> str:
    name, equals, value = word.partition("=")
    return names.get(name, name) + equals + value


def _model_of_uri(uri: str | None) -> str | None:
    """Return the model of ``hf://org/name``; other places, such as a volume, have no id on the Hub."""
    return uri.removeprefix("hf://").partition(":")[0] if uri and uri.startswith("hf://") else uri


_PARALLELISM: Final = {
    "tensor": "tensor_parallel_size",
    "pipeline": "pipeline_parallel_size",
    "data": "data_parallel_size",
    "dataLocal": "data_parallel_size_local",
}


def _inference_service(spec: Document) -> Iterator[Invocation]:
    """Yield the starts of an LLMInferenceService: of its pods, then of its prefill pods.

    Source: KServe, `serving.kserve.io/v1alpha1` LLMInferenceService: `model.uri`, `parallelism`, `template`,
    `prefill`.
    """
    model = _mapping(spec.get("model"))
    for part in (spec, _mapping(spec.get("prefill"))):
        if part is spec or _mapping(part.get("template")):
            yield _service_part(part, model)


def _service_part(part: Document, model: Document) -> Invocation:
    parallelism, template = _mapping(part.get("parallelism")), _mapping(part.get("template"))
    settings = [
        (flag, parallelism[key])
        for key, flag in _PARALLELISM.items()
        if _whole(parallelism.get(key)) is not None
    ]
    if parallelism.get("expert") is True:
        settings.append(("enable_expert_parallel", True))
    if _mapping(model.get("lora")).get("adapters"):
        settings.append(("enable_lora", True))
    containers = [_mapping(each) for each in _list(template.get("containers"))]
    main = next((each for each in containers if each.get("name") == "main"), None)
    container = main or (containers[0] if containers else {})
    environment = _variables(container.get("env"))
    return Invocation(
        LaunchForm.KSERVE,
        _line(next(iter(part), 1)),
        tuple(_service_words(container, environment)),
        tuple(settings),
        model=_model_of_uri(_text(model.get("uri"))),
        environment=environment,
        image=_text(container.get("image")),
        placement=Placement(
            gpus_per_node=_container_gpus(container),
            replicas=_whole(part.get("replicas")),
            gpu_name=_gpu_name(template),
        ),
    )


def _service_words(container: Document, environment: Mapping[str, Word]) -> list[Word]:
    program = _words(container.get("command"), environment)
    words = _words(container.get("args"), environment)
    if program:
        started = next(argv_starts((*program, *words), environment, LaunchForm.KSERVE), None)
        words = list(started.words) if started else words
    extra = environment.get("VLLM_ADDITIONAL_ARGS")
    if extra is not None and not extra.missing:
        words += [word for command in read_commands(extra.text) for word in command.words]
    return words


# Helm values


def production_stack_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of the values of the vLLM production stack.

    Source: vllm-project/production-stack, helm/templates/deployment-vllm-multi.yaml.
    """
    for spec in map(_mapping, _list(_mapping(document.get("servingEngineSpec")).get("modelSpec"))):
        config = _mapping(spec.get("vllmConfig"))
        environment = {**_variables(config.get("env")), **_variables(spec.get("env"))}
        repository, tag = _text(spec.get("repository")), spec.get("tag")
        yield Invocation(
            LaunchForm.HELM_VALUES,
            _line(next(iter(spec), 1)),
            tuple(_words(config.get("extraArgs"), environment)),
            tuple(_chart_settings(spec, config)),
            model=_text(spec.get("modelURL")),
            environment=environment,
            image=f"{repository}:{tag}" if repository and tag else repository,
            placement=Placement(
                gpus_per_node=_whole(spec.get("requestGPU")),
                replicas=_whole(spec.get("replicaCount")),
                gpu_name=_gpu_name(spec),
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
    if (revision := _text(spec.get("modelRevision"))) is not None:
        yield "revision", revision
    if _mapping(spec.get("lmcacheConfig")).get("enabled") is True:
        yield "kv_transfer_config", {"kv_connector": "LMCacheConnectorV1"}


def _chart_notes(spec: Document) -> Iterator[str]:
    unread = sorted({"extraArgs", *_CHART_NAMES} & spec.keys())
    if unread:
        yield f"The chart reads {', '.join(unread)} inside of vllmConfig alone: here they have no effect."


def _runtime_starts(spec: Document) -> Iterator[Invocation]:
    """Yield the start of a VLLMRuntime, the object of the production stack's operator.

    Source: vllm-project/production-stack, operator/api/v1alpha1/vllmruntime_types.go.
    """
    model, config = _mapping(spec.get("model")), _mapping(spec.get("vllmConfig"))
    deployment = _mapping(spec.get("deploymentConfig"))
    image = _mapping(deployment.get("image"))
    merged = {**model, **spec, **config}
    environment = _variables(config.get("env"))
    switches = {
        "enableLoRA": "enable_lora",
        "enablePrefixCaching": "enable_prefix_caching",
        "enableChunkedPrefill": "enable_chunked_prefill",
    }
    settings = [(name, merged[key]) for key, name in _CHART_NAMES.items() if merged.get(key) is not None]
    settings += [(name, merged[key]) for key, name in switches.items() if isinstance(merged.get(key), bool)]
    yield Invocation(
        LaunchForm.KUBERNETES,
        _line(next(iter(spec), 1)),
        tuple(_words(merged.get("extraArgs"), environment)),
        tuple(settings),
        model=_text(model.get("modelURL")),
        environment=environment,
        image=_text(image.get("name")),
        placement=Placement(
            gpus_per_node=_whole(_mapping(deployment.get("resources")).get("gpu")),
            replicas=_whole(deployment.get("replicas")),
        ),
    )


def is_llmd(document: Document) -> bool:
    """Whether a document is the values of llm-d's chart of model services."""
    return isinstance(document.get("modelArtifacts"), dict) and bool({"decode", "prefill"} & document.keys())


def llmd_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of the values of llm-d's chart `llm-d-modelservice`: of its decode and prefill pods.

    Source: llm-d-incubation/llm-d-modelservice, values.yaml: `modelArtifacts.uri`, `parallelism`,
    `containers`, `modelCommand`.
    """
    artifacts = _mapping(document.get("modelArtifacts"))
    model = _text(artifacts.get("name")) or _model_of_uri(_text(artifacts.get("uri")))
    for role in ("decode", "prefill"):
        pods = _mapping(document.get(role))
        if not pods or pods.get("create") is False:
            continue
        parallelism = _mapping(pods.get("parallelism"))
        workers = _whole(parallelism.get("workers"))
        settings = [
            (flag, parallelism[key])
            for key, flag in (("tensor", "tensor_parallel_size"), ("data", "data_parallel_size"))
            if _whole(parallelism.get(key)) is not None
        ]
        for container in map(_mapping, _list(pods.get("containers"))):
            placement = Placement(
                gpus_per_node=_container_gpus(container), nodes=workers, replicas=_whole(pods.get("replicas"))
            )
            for start in _llmd_container(container):
                yield replace(start, settings=tuple(settings), model=model, placement=placement)


def _llmd_container(container: Document) -> Iterator[Invocation]:
    image, environment = _text(container.get("image")), _variables(container.get("env"))
    arguments = _words(container.get("args"), environment)
    if container.get("modelCommand") in {"vllmServe", "imageDefault"}:
        line = _line(next(iter(container), 1))
        words = tuple(_after_program(arguments))
        yield Invocation(LaunchForm.HELM_VALUES, line, words, environment=environment, image=image)
        return
    program = _words(container.get("command"), environment)
    yield from argv_starts((*program, *arguments), environment, LaunchForm.HELM_VALUES, image=image)


def _after_program(words: list[Word]) -> list[Word]:
    texts = [word.text for word in words[:2]]
    return words[2:] if texts == ["vllm", "serve"] else words


def other_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of other values: of mappings with an image, a command or arguments."""
    waiting: deque[Any] = deque([document])
    visited = 0
    while waiting and visited < MAX_VISITED:
        value = waiting.popleft()
        visited += 1
        if isinstance(value, list):
            waiting.extend(each for each in value if isinstance(each, dict | list))
        if not isinstance(value, dict):
            continue
        found = tuple(_of_values(value))
        yield from found
        if not found:
            waiting.extend(each for each in value.values() if isinstance(each, dict | list))


def _of_values(values: Document) -> Iterator[Invocation]:
    environment = _variables(values.get("env") or values.get("environment"))
    image = values.get("image")
    if isinstance(image, dict):
        name, tag = _text(image.get("repository")) or _text(image.get("name")), image.get("tag")
        image = f"{name}:{tag}" if name and tag else name
    image = _text(image)
    program = _words(values.get("command"), environment)
    arguments = _words(values.get("args") or values.get("extraArgs") or (), environment)
    if program:
        yield from argv_starts((*program, *arguments), environment, LaunchForm.HELM_VALUES, image=image)
    elif arguments and image and is_engine_image(image):
        yield from entrypoint_start(arguments, environment, LaunchForm.HELM_VALUES, image)
    for name in ("run", "setup", "script", "cmd", "entrypoint"):
        text = values.get(name)
        if isinstance(text, str) and "vllm" in text:
            found, _, _ = shell_starts(text, LaunchForm.HELM_VALUES, line=_line(text))
            yield from found
