"""Starts in what ``docker inspect`` prints of a container."""

from collections.abc import Iterator
from dataclasses import replace

from service.launch_command.launch import Invocation, LaunchForm, Word
from service.launch_command.manifests.document_values import (
    Document,
    line_of,
    list_of,
    mapping_of,
    text_of,
    variables_of,
    whole_of,
    words_of,
)
from service.launch_command.shell.starts import argv_starts
from service.launch_command.shell.visible_gpus import seen_inside, visible_devices


def is_inspected(document: Document) -> bool:
    """Whether a document is a container as Docker prints it."""
    return text_of(document.get("Path")) is not None and isinstance(document.get("Args"), list)


def inspected_starts(document: Document) -> Iterator[Invocation]:
    """Yield the start of a container.

    Source: Docker Engine API 1.43, ContainerInspect: ``Path``, ``Args``, ``Config`` and ``HostConfig``.
    """
    config = mapping_of(document.get("Config"))
    environment = variables_of(config.get("Env"))
    program = Word(str(document["Path"]), line_of(document["Path"]))
    words = (program, *words_of(document["Args"], {}))
    image = text_of(config.get("Image"))
    requests = map(mapping_of, list_of(mapping_of(document.get("HostConfig")).get("DeviceRequests")))
    given = next(
        ((list_of(each.get("DeviceIDs")), whole_of(each.get("Count"))) for each in requests), ([], None)
    )
    devices = seen_inside(tuple(map(str, given[0])), visible_devices(environment))
    for start in argv_starts(words, environment, LaunchForm.DOCKER, image=image):
        gpus = len(given[0]) or given[1] or start.placement.gpus_per_node
        placement = replace(start.placement, gpus_per_node=gpus, devices=devices or start.placement.devices)
        yield replace(start, environment=environment, placement=placement)
