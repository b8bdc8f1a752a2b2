"""Values of documents that describe containers, and what several kinds of them say alike."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from service.launch_command.launch import Word
from service.launch_command.shell.shell_words import simple_commands

GPU_RESOURCE: Final = re.compile(r"(?:nvidia|amd|habana|gpu\.intel|aws\.amazon)\.(?:com|ai)/.{1,60}")
_GPU_LABELS: Final = re.compile(
    r"(?:nvidia\.com/gpu\.product|cloud\.google\.com/gke-accelerator|gpu\.nvidia\.com/class)"
)
_REFERENCE: Final = re.compile(
    r"\$(\$)?(?:\(([A-Za-z_][A-Za-z0-9_.-]{0,127})\)|\{([A-Za-z_][A-Za-z0-9_]{0,127})(?::?-([^{}]{0,400}))?\})"
)
MAX_VISITED: Final = 20_000
"""Values of one document that are looked at."""
Document = Mapping[str, Any]


def mapping_of(value: Any) -> Document:  # noqa: ANN401 - a value of a document
    """Return a mapping; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:  # noqa: ANN401 - a value of a document
    """Return a list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def whole_of(value: Any) -> int | None:  # noqa: ANN401 - a value of a document
    """Return a whole number of at most four digits; ``None`` for any other value."""
    if isinstance(value, bool):
        return None
    text = str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None


def line_of(value: Any) -> int:  # noqa: ANN401 - a value of a document
    """Return the line in which a value begins; 1 where it has none."""
    return getattr(value, "line", 1)


def text_of(value: Any) -> str | None:  # noqa: ANN401 - a value of a document
    """Return a text that is not empty; ``None`` for any other value."""
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


def words_of(value: Any, environment: Mapping[str, Word]) -> list[Word]:  # noqa: ANN401 - a value of a document
    """Return the words of a list, or of a text as a shell splits it."""
    if isinstance(value, str):
        found = simple_commands(value)
        words = [word for command in found for word in command.words]
        return [replace(word, line=line_of(value) + word.line - 1) for word in words]
    return [
        references_replaced(_written(each), environment, line_of(each))
        for each in list_of(value)
        if each is not None
    ]


def _written(value: Any) -> str:  # noqa: ANN401 - a value of a document
    return str(value).lower() if isinstance(value, bool) else str(value)


def variables_of(
    value: Any,  # noqa: ANN401 - a value of a document
    given: Mapping[str, Word] = MappingProxyType({}),
) -> dict[str, Word]:
    """Return variables of a mapping, of ``NAME=value`` texts, or of Kubernetes' names and values.

    ``given``: those that the platform sets before them.
    """
    found = dict(given)
    if isinstance(value, dict):
        for name, each in value.items():
            found[str(name)] = Word(
                _written(each), 1, () if isinstance(each, str | int | float) else (str(name),)
            )
    for each in list_of(value):
        if isinstance(each, str):
            name, equals, text = each.partition("=")
            found[name] = Word(text, line_of(each), () if equals else (name,))
        elif isinstance(each, dict) and isinstance(each.get("name"), str):
            name, plain = str(each["name"]), each.get("value")
            known = isinstance(plain, str | int | float)
            found[name] = Word(
                _written(plain) if known else "", line_of(each["name"]), () if known else (name,)
            )
    return {
        name: replace(word, text=references_replaced(word.text, found, 1).text)
        for name, word in found.items()
    }


def container_gpus(container: Document) -> int | None:
    """Return the GPUs that a container asks for; ``None`` where it does not say."""
    resources = mapping_of(container.get("resources"))
    for key in ("limits", "requests"):
        for name, value in mapping_of(resources.get(key)).items():
            if GPU_RESOURCE.fullmatch(str(name)) and (count := whole_of(value)) is not None:
                return count
    return None


def gpu_name_of(pod: Document) -> str | None:
    """Return the GPU type that a node selector or an affinity asks for, if it is one."""
    for name, value in mapping_of(pod.get("nodeSelector")).items():
        if _GPU_LABELS.fullmatch(str(name)):
            return text_of(value)
    affinity = mapping_of(mapping_of(pod.get("affinity")).get("nodeAffinity"))
    terms = mapping_of(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")).get(
        "nodeSelectorTerms"
    )
    for term in map(mapping_of, list_of(terms)):
        for each in map(mapping_of, list_of(term.get("matchExpressions"))):
            values = list_of(each.get("values"))
            if _GPU_LABELS.fullmatch(str(each.get("key"))) and len(values) == 1:
                return text_of(values[0])
    return None


def model_of_uri(uri: str | None) -> str | None:
    """Return the model of ``hf://org/name``; other places, such as a volume, have no id on the Hub."""
    return uri.removeprefix("hf://").partition(":")[0] if uri and uri.startswith("hf://") else uri
