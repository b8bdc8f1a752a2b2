"""Finds the command of another engine in a manifest or a Compose file, and the release of its image."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

from service.launch_command.documents.document_lines import DOCUMENT_KEY, documents_within
from service.launch_command.documents.unrendered import with_placeholders
from service.launch_command.launch import UnreadableCommand
from service.launch_command.manifests.document_values import MAX_VISITED, list_of

_PARTS: Final = ("entrypoint", "command", "args")
"""What a container runs, in this order: Compose's first two, Kubernetes' last two."""
_VERSION: Final = r"(?P<version>[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(?:\.?(?:post|rc)[0-9]{1,3})?)"
_RELEASES: Final = {
    "sglang": re.compile(rf"\b(?:lmsysorg/sglang:v|sglang(?:\[[\w,. -]{{0,80}}\])?(?:==|@)){_VERSION}"),
    "tensorrt-llm": re.compile(rf"\b(?:tensorrt-llm/release:|tensorrt[-_]llm==){_VERSION}"),
}
"""Images and packages that the makers of an engine publish; other tags name no release."""


def release_of_engine(text: str, engine: str) -> str | None:
    """Return the release of an engine that a text names; ``None`` where it does not, or names several."""
    pattern = _RELEASES.get(engine)
    found = {each["version"] for each in pattern.finditer(text)} if pattern is not None else set[str]()
    return found.pop() if len(found) == 1 else None


def commands_of_containers(text: str) -> Iterator[str]:
    """Yield the commands of the containers of a document, each as a shell takes it."""
    if not DOCUMENT_KEY.search(text):
        return
    for document in _documents(with_placeholders(text)):
        yield from _commands(document)


def _documents(text: str) -> tuple[Any, ...]:
    from service.launch_command.documents.documents import read_documents  # noqa: PLC0415 - YAML is slow to import

    for each in (text, *(inner for inner, _ in documents_within(text))):
        try:
            return read_documents(each)
        except UnreadableCommand:
            continue
    return ()


def _commands(document: Any) -> Iterator[str]:  # noqa: ANN401 - a value of a document
    waiting, visited = [document], 0
    while waiting and visited < MAX_VISITED:
        value = waiting.pop(0)
        visited += 1
        if isinstance(value, dict):
            words = [word for part in _PARTS for word in _words(value.get(part))]
            # The text behind `sh -c` is a command of its own.
            yield from (word for word in words if " " in word.strip())
            if words:
                yield shlex.join(words)
            waiting.extend(each for each in value.values() if isinstance(each, dict | list))
        elif isinstance(value, list):
            waiting.extend(each for each in value if isinstance(each, dict | list))


def _words(value: Any) -> list[str]:  # noqa: ANN401 - a value of a document
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError:
            return value.split()
    return [str(each) for each in list_of(value) if isinstance(each, str | int | float)]
