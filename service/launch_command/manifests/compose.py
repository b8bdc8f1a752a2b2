"""Starts in Docker Compose files."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from service.launch_command.documents.document_text import Text
from service.launch_command.launch import MAX_TEXT, Invocation, LaunchForm, Placement, Word
from service.launch_command.manifests.document_values import (
    Document,
    line_of,
    list_of,
    mapping_of,
    references_replaced,
    text_of,
    variables_of,
    whole_of,
    words_of,
)
from service.launch_command.shell.starts import argv_starts, entrypoint_start
from service.launch_command.shell.visible_gpus import seen_inside, visible_devices

_INTERPOLATED: Final = re.compile(
    r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]{0,127})(?::?-([^{}]{0,400}))?\}|([A-Za-z_][A-Za-z0-9_]{0,127}))"
)


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
    for service in map(mapping_of, mapping_of(document.get("services")).values()):
        environment = variables_of(service.get("environment"))
        image = references_replaced(text_of(service.get("image")) or "", {}, 1)
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
    if isinstance(value, str):
        text = _interpolated(value, line_of(value))
        words = words_of(Text(text.text, text.line), environment)
        return [
            replace(
                word,
                missing=tuple(dict.fromkeys(name for name in text.missing if f"${{{name}}}" in word.text)),
            )
            for word in words
        ]
    return [
        _interpolated(str(each), line_of(each)) if isinstance(each, str) else word
        for each, word in zip(
            (each for each in list_of(value) if each is not None), words_of(value, {}), strict=True
        )
    ]


def _interpolated(text: str, line: int) -> Word:
    """Return a text in which Compose replaced the variables of its own caller; ``$$`` is a dollar sign.

    Source: the Compose specification, Interpolation.
    """
    missing: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        name, default = found[1] or found[3], found[2]
        if name is None:
            return "$"
        if default is not None:
            return default
        missing.append(name)
        return f"${{{name}}}"

    return Word(_INTERPOLATED.sub(replaced, text)[:MAX_TEXT], line, tuple(missing))


def _compose_placement(service: Document, start: Invocation) -> Placement:
    before = start.placement
    deploy = mapping_of(service.get("deploy"))
    resources = mapping_of(deploy.get("resources"))
    devices = [
        mapping_of(device)
        for key in ("reservations", "limits")
        for device in list_of(mapping_of(resources.get(key)).get("devices"))
    ]
    devices += map(mapping_of, list_of(service.get("gpus")))
    ids = next((each for device in devices if (each := list_of(device.get("device_ids")))), [])
    seen = seen_inside(tuple(map(str, ids)), visible_devices(start.environment))
    count = next(filter(None, map(_device_count, devices)), None)
    return replace(
        before,
        gpus_per_node=count or before.gpus_per_node or len(seen) or None,
        replicas=whole_of(deploy.get("replicas")),
        devices=seen,
    )


def _device_count(device: Document) -> int | None:
    return len(list_of(device.get("device_ids"))) or whole_of(device.get("count"))
