"""Reads the starts in a text of any form."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from service.launch_command.documents.document_lines import DOCUMENT_KEY, HERE_DOCUMENT, documents_within
from service.launch_command.documents.unrendered import NOT_RENDERED, with_placeholders
from service.launch_command.launch import (
    MAX_STARTS,
    MAX_TEXT,
    Invocation,
    LaunchForm,
    UnreadableCommand,
)
from service.launch_command.manifests.compose import compose_starts, is_compose
from service.launch_command.manifests.described_pods import DESCRIBED, described_starts
from service.launch_command.manifests.helm_values import is_llmd, llmd_starts, other_starts
from service.launch_command.manifests.inspected import inspected_starts, is_inspected
from service.launch_command.manifests.kubernetes import fragment_starts, is_fragment, kubernetes_starts
from service.launch_command.manifests.production_stack import production_stack_starts
from service.launch_command.other_engines import advice_on
from service.launch_command.shell.shell_words import simple_commands
from service.launch_command.shell.starts import argv_starts, flags_alone, json_words, shell_starts
from service.launch_command.texts.programs import python_starts, ray_starts
from service.launch_command.texts.quoted_texts import quoted_texts
from service.launch_command.texts.said_release import said_release
from service.launch_command.texts.word_lists import LIST, with_program, word_list_starts

MAX_BODIES: Final = 8
"""Here-documents of one text that are read as documents of their own."""
_PYTHON: Final = re.compile(
    r"^[ \t]*(?:[A-Za-z_][\w.]{0,80}[ \t]*=[ \t]*)?(?:[\w.]{1,80}\.)?"
    r"(?:LLMConfig|LLM|(?:Async)?EngineArgs)[ \t]*\(",
    re.MULTILINE,
)
_DOCUMENT: Final = re.compile(
    r"\s*(?:#[^\n]*\n\s*)*"
    r"(?:---|%YAML|\{|\[\s*\{|-[ \t]+[\w\"'-]+:|-[ \t]+[\"']?-{1,2}\w|[\w./\"'-]{1,200}[ \t]*:(?:\s|$))"
)
_UNIT: Final = re.compile(r"^[ \t]*\[Service\][ \t]*$", re.MULTILINE)
_FENCE: Final = re.compile(
    r"^[ \t]*(?:```|~~~)(?!.*(?:\bvllm serve\b|\bdocker run\b|api_server\b)).*$", re.MULTILINE
)
_COMMAND: Final = re.compile(r"\bvllm\b|docker|podman|nerdctl")
_OPTION_KEY: Final = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*(?:\.[a-z_.]+)?")
_UNIT_COMMAND: Final = re.compile(
    r"^[ \t]*ExecStart[ \t]*=[ \t]*[@:+!-]{0,4}((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE
)
_UNIT_VARIABLES: Final = re.compile(r"^[ \t]*Environment[ \t]*=[ \t]*((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)


class _StartsNothingError(UnreadableCommand):
    """A document among other lines can be read, and starts nothing."""


def read_invocations(text: str) -> tuple[Invocation, ...]:
    """Return the starts in a text, at most ``MAX_STARTS``, in their order.

    Raises:
        UnreadableCommand: the text has no start of the engine, or cannot be read.
    """
    if len(text) > MAX_TEXT:
        raise UnreadableCommand(f"the text has {len(text):,} characters; at most {MAX_TEXT:,} are read")
    text = text.replace("\r\n", "\n").replace("\x00", "").removeprefix("\ufeff")
    rendered = with_placeholders(text)
    found = _read_whole_or_quoted(rendered)[:MAX_STARTS]
    if not found:
        words = advice_on(text) or "no start of vLLM was found, such as `vllm serve MODEL`"
        raise UnreadableCommand(words)
    said = said_release(text)
    notes = () if rendered == text else (NOT_RENDERED,)
    return tuple(replace(each, said=said, notes=(*each.notes, *notes)) for each in found)


def _read_whole_or_quoted(text: str) -> tuple[Invocation, ...]:
    """Return the starts of a text as it is; of its first piece of code that has any where it has none.

    Raises:
        UnreadableCommand: neither can be read.
    """
    fault: UnreadableCommand | None = None
    for each in (_FENCE.sub("", text), *quoted_texts(text)):
        try:
            found = tuple(_found(each))
        except UnreadableCommand as error:
            fault = fault or error
            continue
        if found:
            return found
    if fault is not None:
        raise fault
    return ()


def _found(text: str, depth: int = 0) -> Iterator[Invocation]:
    """Yield the starts by the first form that has any."""
    if _UNIT.search(text):
        yield from _unit_starts(text)
        return
    words = json_words(text)
    if words:
        bare = words[0].text.startswith("-")
        yield from flags_alone(words) if bare else argv_starts(with_program(words), {}, LaunchForm.SHELL)
        return
    fault: UnreadableCommand | None = None
    for reader in _readers(text):
        try:
            found = tuple(reader(text)) if reader is not _shell else tuple(_shell(text, depth))
        except _StartsNothingError:
            fault = None
            continue
        except UnreadableCommand as error:
            fault = fault or error
            continue
        if found:
            yield from found if fault is None else _read_in_spite(found, text, fault)
            return
    if fault is not None:
        raise fault


def _read_in_spite(
    found: tuple[Invocation, ...], text: str, fault: UnreadableCommand
) -> Iterator[Invocation]:
    """Yield the commands in a manifest that cannot be read as one, with what is lost of it."""
    note = f"Read as commands alone, without image, variables and GPUs: {fault}."
    notes = (note,) if DOCUMENT_KEY.search(text) and found[0].form is LaunchForm.SHELL else ()
    yield from (replace(each, notes=(*each.notes, *notes)) for each in found)


def _documents_within(text: str) -> Iterator[Invocation]:
    """Yield the starts of documents that stand among other lines."""
    fault: UnreadableCommand | None = None
    for inner, note in documents_within(text):
        try:
            found = tuple(_documents(inner))
        except UnreadableCommand as error:
            fault = fault or error
            continue
        if found:
            yield from (replace(each, notes=(*each.notes, note)) for each in found)
            return
        raise _StartsNothingError
    if fault is not None:
        raise fault


def _bare_flags(text: str) -> Iterator[Invocation]:
    for command in simple_commands(text)[:1]:
        yield from flags_alone(command.words)


def _readers(text: str) -> Iterator[Any]:
    if _DOCUMENT.match(text):
        yield _documents
    if DOCUMENT_KEY.search(text) and not HERE_DOCUMENT.search(text):
        yield _documents_within
    if DESCRIBED.search(text):
        yield described_starts
    if _PYTHON.search(text):
        yield python_starts
    if LIST.search(text):
        yield word_list_starts
    if _COMMAND.search(text):
        yield _shell
    if text.lstrip().startswith("-"):
        yield _bare_flags


def _shell(text: str, depth: int = 0) -> Iterator[Invocation]:
    found, bodies, files = shell_starts(text)
    for start in found:
        yield _with_config_file(start, files)
    if not found and not depth:
        for body in bodies[:MAX_BODIES]:
            yield from _found(body, depth + 1)


def _with_config_file(start: Invocation, files: dict[str, str]) -> Invocation:
    """Return a start with the flags of the file that ``--config`` names, if the text writes that file."""
    for at, word in enumerate(start.words):
        name, equals, path = word.text.partition("=")
        if name != "--config":
            continue
        if not equals and at + 1 < len(start.words):
            path = start.words[at + 1].text
        body = files.get(path.rpartition("/")[2])
        if body is None:
            return start
        settings = next(
            (tuple(_settings(each)) for each in _read_documents(body) if isinstance(each, dict)), ()
        )
        words = (*start.words[:at], *start.words[at + (1 if equals else 2) :])
        return Invocation(
            start.form,
            start.line,
            words,
            settings,
            start.model,
            start.environment,
            start.image,
            start.placement,
            start.notes,
        )
    return start


def _read_documents(text: str) -> tuple[Any, ...]:
    from service.launch_command.documents.documents import read_documents  # noqa: PLC0415 - YAML is slow to import

    return read_documents(text)


def _documents(text: str) -> Iterator[Invocation]:
    for document in _read_documents(text):
        if isinstance(document, list) and document and isinstance(document[0], str):
            yield from fragment_starts({"args": document})
            continue
        for each in document if isinstance(document, list) else [document]:
            if isinstance(each, dict):
                yield from _document_starts(each)


def _document_starts(document: dict[str, Any]) -> Iterator[Invocation]:
    if document.get("kind") == "List":
        yield from (start for item in _items_of(document) for start in kubernetes_starts(item))
    elif "apiVersion" in document and "kind" in document:
        yield from kubernetes_starts(document)
        if document.get("kind") == "RayService":
            yield from _ray_service(document)
    elif is_compose(document):
        yield from compose_starts(document)
    elif "servingEngineSpec" in document:
        yield from production_stack_starts(document)
    elif is_llmd(document):
        yield from llmd_starts(document)
    elif {"applications", "engine_kwargs", "model_loading_config"} & document.keys():
        yield from ray_starts(document)
    elif _is_config_file(document):
        yield from _config_file(document)
    else:
        yield from _part_starts(document)


def _part_starts(document: dict[str, Any]) -> Iterator[Invocation]:
    """Yield the starts of a part of a document, or of one of a kind that is not known."""
    if is_fragment(document):
        yield from fragment_starts(document)
    elif is_inspected(document):
        yield from inspected_starts(document)
    elif is_compose({"services": document}):
        # The services of a Compose file without the line above them.
        yield from compose_starts({"services": document})
    else:
        yield from other_starts(document)


def _items_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    items = document.get("items")
    return [each for each in items if isinstance(each, dict)] if isinstance(items, list) else []


def _ray_service(document: dict[str, Any]) -> Iterator[Invocation]:
    """Yield the starts of the configuration that a RayService holds as text."""
    spec = document.get("spec")
    text = spec.get("serveConfigV2") if isinstance(spec, dict) else None
    if isinstance(text, str):
        for each in _read_documents(text):
            if isinstance(each, dict):
                yield from ray_starts(each)


def _is_config_file(document: dict[str, Any]) -> bool:
    """Whether a document looks like a file for ``--config``: names of options, and one that is sure."""
    names = {str(name).replace("_", "-") for name in document}
    sure = {"model", "tensor-parallel-size", "max-model-len", "gpu-memory-utilization", "kv-cache-dtype"}
    return bool(names & sure) and all(_OPTION_KEY.fullmatch(str(name)) for name in document)


def _config_file(document: dict[str, Any]) -> Iterator[Invocation]:
    line = getattr(next(iter(document), None), "line", 1)
    yield Invocation(LaunchForm.CONFIG_FILE, line, settings=tuple(_settings(document)))


def _settings(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the flags of a file for ``--config``.

    Source: vLLM 0.28.0, utils/argparse_utils.py FlexibleArgumentParser.load_config_file.
    """
    for name, value in document.items():
        yield str(name).replace("-", "_"), value


def _unit_starts(text: str) -> Iterator[Invocation]:
    """Yield the start of a systemd unit, whose ``%`` and ``$`` are systemd's own.

    Source: systemd.service(5), section "Command lines"; systemd.exec(5), ``Environment``.
    """
    variables = "".join(f"export {found[1]}\n" for found in _UNIT_VARIABLES.finditer(text))
    for found in _UNIT_COMMAND.finditer(text):
        line = text.count("\n", 0, found.start()) + 1 - variables.count("\n")
        starts, _, _ = shell_starts(variables + found[1], LaunchForm.SYSTEMD, line=line)
        yield from starts
