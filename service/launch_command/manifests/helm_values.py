"""Starts in the values of llm-d's chart, and of charts that are not known."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from service.launch_command.launch import Invocation, LaunchForm, Placement, Word
from service.launch_command.manifests.document_values import (
    MAX_VISITED,
    Document,
    container_gpus,
    line_of,
    list_of,
    mapping_of,
    model_of_uri,
    text_of,
    variables_of,
    whole_of,
    words_of,
)
from service.launch_command.releases import is_engine_image
from service.launch_command.shell.starts import argv_starts, entrypoint_start, shell_starts


def is_llmd(document: Document) -> bool:
    """Whether a document is the values of llm-d's chart of model services."""
    return isinstance(document.get("modelArtifacts"), dict) and bool({"decode", "prefill"} & document.keys())


def llmd_starts(document: Document) -> Iterator[Invocation]:
    """Yield the starts of the values of llm-d's chart `llm-d-modelservice`: of its decode and prefill pods.

    Source: llm-d-incubation/llm-d-modelservice, values.yaml: `modelArtifacts.uri`, `parallelism`,
    `containers`, `modelCommand`.
    """
    artifacts = mapping_of(document.get("modelArtifacts"))
    model = text_of(artifacts.get("name")) or model_of_uri(text_of(artifacts.get("uri")))
    for role in ("decode", "prefill"):
        pods = mapping_of(document.get(role))
        if not pods or pods.get("create") is False:
            continue
        parallelism = mapping_of(pods.get("parallelism"))
        workers = whole_of(parallelism.get("workers"))
        settings = [
            (flag, parallelism[key])
            for key, flag in (("tensor", "tensor_parallel_size"), ("data", "data_parallel_size"))
            if whole_of(parallelism.get(key)) is not None
        ]
        for container in map(mapping_of, list_of(pods.get("containers"))):
            placement = Placement(
                gpus_per_node=container_gpus(container),
                nodes=workers,
                replicas=whole_of(pods.get("replicas")),
            )
            for start in _llmd_container(container):
                yield replace(start, settings=tuple(settings), model=model, placement=placement)


def _llmd_container(container: Document) -> Iterator[Invocation]:
    image, environment = text_of(container.get("image")), variables_of(container.get("env"))
    arguments = words_of(container.get("args"), environment)
    if container.get("modelCommand") in {"vllmServe", "imageDefault"}:
        line = line_of(next(iter(container), 1))
        words = tuple(_after_program(arguments))
        yield Invocation(LaunchForm.HELM_VALUES, line, words, environment=environment, image=image)
        return
    program = words_of(container.get("command"), environment)
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
    environment = variables_of(values.get("env") or values.get("environment"))
    image = values.get("image")
    if isinstance(image, dict):
        name, tag = text_of(image.get("repository")) or text_of(image.get("name")), image.get("tag")
        image = f"{name}:{tag}" if name and tag else name
    image = text_of(image)
    program = words_of(values.get("command"), environment)
    arguments = words_of(values.get("args") or values.get("extraArgs") or (), environment)
    if program:
        yield from argv_starts((*program, *arguments), environment, LaunchForm.HELM_VALUES, image=image)
    elif arguments and image and is_engine_image(image):
        yield from entrypoint_start(arguments, environment, LaunchForm.HELM_VALUES, image)
    for name in ("run", "setup", "script", "cmd", "entrypoint"):
        text = values.get(name)
        if isinstance(text, str) and "vllm" in text:
            found, _, _ = shell_starts(text, LaunchForm.HELM_VALUES, line=line_of(text))
            yield from found
