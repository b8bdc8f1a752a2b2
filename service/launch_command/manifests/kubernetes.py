"""Starts in Kubernetes objects."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.launch_command.launch import Invocation, LaunchForm, Placement, Word
from service.launch_command.manifests.document_values import (
    MAX_VISITED,
    Document,
    container_gpus,
    gpu_name_of,
    list_of,
    mapping_of,
    text_of,
    variables_of,
    whole_of,
    words_of,
)
from service.launch_command.manifests.kserve import (
    inference_service_starts,
    predictor_model,
    predictor_starts,
)
from service.launch_command.manifests.production_stack import runtime_starts
from service.launch_command.shell.starts import argv_starts, entrypoint_start, flags_alone


def kubernetes_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of a Kubernetes object: of every container in it, whatever object holds the container.

    Replicas and nodes come from the object: ``replicas``, and ``size`` of a LeaderWorkerSet.
    """
    kind = str(document.get("kind", ""))
    spec = mapping_of(document.get("spec"))
    if kind == "LLMInferenceService":
        yield from inference_service_starts(spec)
        return
    if kind == "VLLMRuntime":
        yield from runtime_starts(spec)
        return
    model = predictor_model(spec)
    if kind == "InferenceService" and model is not None:
        yield from predictor_starts(spec, model)
        return
    form = (
        LaunchForm.KSERVE
        if kind in {"InferenceService", "ServingRuntime", "ClusterServingRuntime"}
        else LaunchForm.KUBERNETES
    )
    pods = tuple(_pods(document))
    has_leader = any(_is_leader(path) for _, path in pods)
    for pod, path in pods:
        placement = _placement_of(document, path)
        is_first = _is_leader(path) or not has_leader
        yield from _pod_starts(pod, form, placement, _group_variables(placement.nodes, is_first=is_first))


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
        inside = mapping_of(inside.get(key))
        replicas = whole_of(inside.get("replicas")) if "replicas" in inside else replicas
        if key == "leaderWorkerTemplate":
            nodes = whole_of(inside.get("size"))
    return Placement(nodes=nodes, replicas=replicas)


def _is_leader(path: tuple[str, ...]) -> bool:
    return path[-2:-1] == ("leaderTemplate",)


def _group_variables(size: int | None, *, is_first: bool) -> dict[str, Word]:
    """Return what a LeaderWorkerSet tells the containers of a group; nothing for other objects.

    Source: LeaderWorkerSet, reference of labels, annotations and environment variables; API: a group without
    a template of its leader starts all from that of its workers.
    """
    if size is None:
        return {}
    found = {"LWS_GROUP_SIZE": Word(str(size))}
    return found | {"LWS_WORKER_INDEX": Word("0")} if is_first else found


def _pod_starts(
    pod: Document, form: LaunchForm, placement: Placement, given: Mapping[str, Word]
) -> Iterator[Invocation]:
    gpu_name = gpu_name_of(pod)
    for container in map(mapping_of, list_of(pod.get("containers"))):
        environment = variables_of(container.get("env"), given)
        for start in _container_starts(container, environment, form):
            own = replace(
                placement,
                gpus_per_node=container_gpus(container) or start.placement.gpus_per_node,
                gpu_name=gpu_name,
            )
            yield replace(start, placement=own)


def is_fragment(document: Document) -> bool:
    """Whether a document is a container, or a part of one, without the object around it."""
    return "args" in document or ("command" in document and "image" in document)


def fragment_starts(container: Document) -> Iterator[Invocation]:
    """Yield the starts of a container without the object around it."""
    environment = variables_of(container.get("env"))
    arguments = words_of(container.get("args"), environment)
    if "command" in container or "image" in container:
        yield from _container_starts(container, environment, LaunchForm.KUBERNETES)
    elif arguments and arguments[0].text.startswith("-"):
        yield from flags_alone(arguments, environment, LaunchForm.KUBERNETES)
    else:
        yield from argv_starts(arguments, environment, LaunchForm.KUBERNETES)


def _container_starts(
    container: Document, environment: Mapping[str, Word], form: LaunchForm
) -> Iterator[Invocation]:
    image = text_of(container.get("image")) or ""
    program, arguments = (
        words_of(container.get("command"), environment),
        words_of(container.get("args"), environment),
    )
    if program:
        yield from argv_starts((*program, *arguments), environment, form, image=image or None)
    elif image or arguments:
        yield from entrypoint_start(arguments, environment, form, image)
