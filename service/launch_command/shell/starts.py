"""Finds the commands of a shell text that start the engine, in a container or not."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from service.launch_command.launch import (
    Invocation,
    LaunchForm,
    UnreadableCommand,
    Word,
)
from service.launch_command.releases import is_engine_image, is_requirement
from service.launch_command.shell.shell_words import SimpleCommand, simple_commands
from service.launch_command.shell.visible_gpus import (
    gpus_of,
    listed_devices,
    placement_of_devices,
    seen_inside,
    visible_devices,
)

MODEL_FLAG: Final = "--model"
"""What flags alone must hold, so that they are a start."""
DEEPEST: Final = 3
"""Levels of ``sh -c '...'`` that are read."""
_MODULES: Final = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})
_MODULE_FILE: Final = re.compile(r"(?:.*/)?vllm/entrypoints/(?:openai/)?api_server\.py")
_SHELL: Final = re.compile(r"(?:.*/)?(?:ba|da|z|k|a)?sh")
_SHELL_OPTION: Final = re.compile(r"-[a-z]*c[a-z]*")
_REMOTE: Final = frozenset({"ssh", "tmux", "screen", "su", "eval", "srun", "tini", "xargs"})
_SPEAKING: Final = frozenset(
    {"echo", "printf", "grep", "pkill", "pgrep", "kill", "man", "which", "alias", "curl", "sed", "awk", "ps"}
)
"""Programs that only mention a command."""
_CONTAINERS: Final = frozenset({"docker", "podman", "nerdctl", "finch"})
_SWITCHES: Final = frozenset(
    {
        *("--rm", "--detach", "--interactive", "--tty", "--init", "--privileged", "--read-only", "--quiet"),
        *(
            "--publish-all",
            "--oom-kill-disable",
            "--no-healthcheck",
            "--sig-proxy",
            "--replace",
            "--tls-verify",
        ),
        *("--use-api-socket", "--disable-content-trust", "--no-hosts", "--rmi", "--env-host", "--http-proxy"),
    }
)
"""Options of ``docker run`` and ``podman run`` without a value. Source: their manual pages."""
_SHORT_SWITCHES: Final = re.compile(r"-[ditPq]{1,5}")
_IMAGE_OPTION: Final = re.compile(r"--(?:container-)?image(?:=(.*))?")
_IMAGE_ID: Final = re.compile(r"(?:sha256:)?[0-9a-f]{12,64}")
"""An image without a name."""
_NAMED_PROGRAM: Final = re.compile(
    r"^(?:python[0-9.]*|vllm|env|tini|dumb-init|(?:ba|da|z|k|a)?sh)$|\.(?:sh|py)$"
)
_PROGRAMS: Final = frozenset({"vllm", "vllm-omni"})
"""Programs whose `serve` takes the engine's arguments; vllm-omni's, entrypoints/cli/main.py, adds its own."""
_REQUIRED: Final = re.compile(r"^vllm(?:\[[^\]]{0,80}\])?[=@><~]")
ONE_WORD: Final = (
    "The command is one word with spaces in it: a container has no program of that name and does not start. "
    "It is read as a shell would; write a list of words."
)
Shell = Mapping[str, Word]


def shell_starts(
    text: str,
    form: LaunchForm = LaunchForm.SHELL,
    *,
    line: int = 1,
    depth: int = 0,
    variables: Shell = MappingProxyType({}),
) -> tuple[list[Invocation], tuple[str, ...], dict[str, str]]:
    """Return the starts in a shell text, the texts that its commands read, and the files that it writes.

    Raises:
        UnreadableCommand: a quote or a bracket is not closed, or the text is too long.
    """
    found: list[Invocation] = []
    bodies: list[str] = []
    files: dict[str, str] = {}
    requirement: str | None = None
    open_start = False
    for command in simple_commands(text, variables):
        requirement = _installed(command.words) or requirement
        if open_start and command.words[0].text.startswith("-"):
            found[-1] = _with_stray_words(found[-1], command)
            continue
        starts = tuple(_starts_of(command, form, depth))
        open_start = len(starts) == 1
        for start in starts:
            image = start.image or requirement
            found.append(replace(start, image=image, line=start.line + line - 1))
        for body in command.bodies:
            if command.target is not None:
                files[command.target.rpartition("/")[2]] = body
            elif not starts:
                bodies.append(body)
    return found, tuple(bodies), files


def argv_starts(
    words: Sequence[Word], environment: Shell, form: LaunchForm, *, image: str | None = None, depth: int = 0
) -> Iterator[Invocation]:
    """Yield the starts of one command that is given as words, as containers have it; none of no words."""
    if not words:
        return
    if len(words) == 1 and re.search(r"\s", words[0].text.strip()):
        found, _, _ = shell_starts(words[0].text, form, line=words[0].line, variables=environment)
        for start in found:
            yield replace(start, image=start.image or image, notes=(*start.notes, ONE_WORD))
        return
    command = SimpleCommand(tuple(words), dict(environment))
    for start in _starts_of(command, form, depth):
        yield replace(start, image=start.image or image)


def entrypoint_start(
    words: Sequence[Word], environment: Shell, form: LaunchForm, image: str
) -> Iterator[Invocation]:
    """Yield the start of a container: its words name a program, or are flags for the image's own program."""
    if not words or words[0].text.startswith("-") or words[0].text == "serve":
        if is_engine_image(image) or (words and words[0].text == "serve" and _IMAGE_ID.fullmatch(image)):
            yield Invocation(
                form, words[0].line if words else 1, _after_serve(words), environment=environment, image=image
            )
        return
    found = tuple(argv_starts(words, environment, form, image=image))
    yield from found
    if not found and is_engine_image(image) and not _is_program(words):
        yield Invocation(form, words[0].line, tuple(words), environment=environment, image=image)


def _is_program(words: Sequence[Word]) -> bool:
    """Whether the first word of a container's command is a program, and not a model for the image's own.

    A folder that only options of several letters follow is a model.
    """
    word, following = words[0].text, words[1].text if len(words) > 1 else ""
    name = word.rpartition("/")[2]
    if word.startswith("/"):
        return not following.startswith("--") or _NAMED_PROGRAM.search(name) is not None
    return "/" not in word or name in {"python", "python3"}


def _after_serve(words: Sequence[Word]) -> tuple[Word, ...]:
    return tuple(words[1:] if words and words[0].text == "serve" else words)


def _starts_of(command: SimpleCommand, form: LaunchForm, depth: int) -> Iterator[Invocation]:
    words = command.words
    name = words[0].text.rpartition("/")[2]
    if name in _SPEAKING:
        return
    container = _container_at(words)
    if container is not None:
        yield from _container_start(words[container:], command, depth)
        return
    for at, word in enumerate(words):
        length = _program_length(words, at)
        if length:
            before = words[:at]
            environment = {**command.environment, **_env_words(before)}
            yield Invocation(
                form,
                words[0].line,
                words[at + length :],
                environment=environment,
                image=_image_before(before),
                placement=placement_of_devices(visible_devices(environment)),
            )
            return
        nested = _nested_text(words, at, word)
        if nested is not None and depth < DEEPEST:
            yield from _nested_starts(nested, command, form, depth)
            return


def _nested_starts(
    nested: Word, command: SimpleCommand, form: LaunchForm, depth: int
) -> Iterator[Invocation]:
    # What was already looked for and not found, in another place, is not what the shell has.
    known = {name: word for name, word in command.environment.items() if name not in nested.missing}
    found, _, _ = shell_starts(nested.text, form, line=nested.line, depth=depth + 1, variables=known)
    for start in found:
        yield replace(
            start,
            environment={**command.environment, **start.environment},
            image=start.image or _image_before(command.words),
        )


def _nested_text(words: Sequence[Word], at: int, word: Word) -> Word | None:
    """Return the text that a shell is to run: the word after ``-c``, or the last word of ``ssh``."""
    if "vllm" not in word.text or not re.search(r"\s", word.text) or at == 0:
        return None
    if _SHELL_OPTION.fullmatch(words[at - 1].text) or words[0].text.rpartition("/")[2] in _REMOTE:
        return word
    return None


def _program_length(words: Sequence[Word], at: int) -> int:
    """Return how many words name the engine's program here; 0 where they do not."""
    text = words[at].text
    following = words[at + 1].text if at + 1 < len(words) else ""
    name = text.rpartition("/")[2]
    if (name in _PROGRAMS or _REQUIRED.match(text)) and following == "serve":
        return 2
    if text == "-m" and following in _MODULES:
        return 2
    if text == "-m" and following in {"vllm", "vllm.entrypoints.cli.main"}:
        return 3 if at + 2 < len(words) and words[at + 2].text == "serve" else 0
    return 1 if _MODULE_FILE.fullmatch(text) else 0


def _installed(words: Sequence[Word]) -> str | None:
    """Return the release that ``pip install vllm==...`` installs."""
    if not any(word.text == "install" for word in words):
        return None
    return next((word.text for word in words if is_requirement(word.text)), None)


def _image_before(words: Sequence[Word]) -> str | None:
    """Return the image, or the requirement, that the words before the program name."""
    for at, word in enumerate(words):
        found = _IMAGE_OPTION.fullmatch(word.text)
        if found is not None:
            image = found[1] or (words[at + 1].text if at + 1 < len(words) else "")
            return image.removeprefix("docker://").replace("#", "/") or None
        if is_requirement(word.text):
            return word.text
        if word.text.startswith("docker://"):
            return word.text.removeprefix("docker://")
    return None


def _env_words(words: Sequence[Word]) -> dict[str, Word]:
    """Return the variables that ``env A=1`` or ``sudo A=1`` set."""
    found = {}
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
            found[name] = replace(word, text=value)
    return found


def _with_stray_words(start: Invocation, command: SimpleCommand) -> Invocation:
    """Return a start with the options of the line after it, which a shell would take for a command."""
    note = (
        f"Line {command.line} begins with an option, and the line before does not end in a backslash: a "
        "shell would run it as another command. It is read as a part of the start."
    )
    return replace(start, words=(*start.words, *command.words), notes=(*start.notes, note))


# Containers


def _container_at(words: Sequence[Word]) -> int | None:
    """Return where the options of ``docker run`` begin; ``None`` for other commands."""
    for at, word in enumerate(words[:-1]):
        if word.text.rpartition("/")[2] not in _CONTAINERS:
            continue
        following = [each.text for each in words[at + 1 : at + 3]]
        if following[:1] == ["run"] or following[:1] == ["create"]:
            return at + 2
        if following == ["container", "run"]:
            return at + 3
    return None


_CACHE: Final = re.compile(r"\.cache/huggingface(?:/hub)?(?:$|[:,])")
_OF_HOST: Final = re.compile(r"^(?:[./~$%]|[A-Za-z]:[\\/])|(?:^|,)type=bind(?:,|$)")
"""A folder of the host: a volume of Docker has a name, without a slash."""
CACHE_OF_HOST: Final = (
    "The container shares a cache of models with its host: --format docker and compose name a volume in its "
    "place (huggingface), which downloads the model once more."
)


@dataclass(slots=True)
class _ContainerOptions:
    """Options of ``docker run`` that matter."""

    environment: dict[str, Word] = field(default_factory=dict)
    entrypoint: Word | None = None
    gpus: int | None = None
    devices: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def take(self, option: str, word: Word, outside: Shell) -> None:
        """Keep one option; ``outside``: variables of the command itself."""
        match option:
            case "-e" | "--env":
                self.environment |= _one_variable(word, outside)
            case "--entrypoint":
                self.entrypoint = word
            case "--gpus":
                self.gpus, self.devices = gpus_of(word.text), listed_devices(word.text)
            case "-v" | "--volume" | "--mount" if _CACHE.search(word.text) and _OF_HOST.search(word.text):
                self.notes.append(CACHE_OF_HOST)
            case "--env-file":
                self.notes.append(f"The variables in {_file(word.text)} are not known.")
            case _:
                return


def _container_options(words: Sequence[Word], outside: Shell) -> tuple[_ContainerOptions, int]:
    """Return the options before the image, and where the image is."""
    found = _ContainerOptions()
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        option, joined, value = words[at].text.partition("=")
        word = replace(words[at], text=value)
        is_switch = option in _SWITCHES or _SHORT_SWITCHES.fullmatch(option) is not None
        at += 1
        if not joined and not is_switch and at < len(words):
            word = words[at]
            at += 1
        found.take(option, word, outside)
    return found, at


def _container_start(words: Sequence[Word], command: SimpleCommand, depth: int) -> Iterator[Invocation]:
    options, at = _container_options(words, command.environment)
    if at >= len(words):
        return
    image, arguments, environment = words[at], words[at + 1 :], options.environment
    notes = list(options.notes)
    if image.missing:
        notes.append(f"The image is {image.text}, whose value the text does not give.")
    devices = seen_inside(options.devices, visible_devices(environment))
    gpus = options.gpus if options.gpus is not None else len(devices) or None
    entrypoint = options.entrypoint
    if entrypoint is not None and entrypoint.text:
        program = (entrypoint, *arguments)
        found = tuple(argv_starts(program, environment, LaunchForm.DOCKER, image=image.text, depth=depth))
    else:
        found = tuple(entrypoint_start(arguments, environment, LaunchForm.DOCKER, image.text))
    for start in found:
        counted = replace(
            start.placement,
            gpus_per_node=gpus or start.placement.gpus_per_node,
            devices=devices or start.placement.devices,
        )
        yield replace(start, line=command.line, placement=counted, notes=(*notes, *start.notes))


def _file(text: str) -> str:
    return text.rpartition("/")[2][:64] or "a file"


def _one_variable(word: Word, outside: Shell) -> dict[str, Word]:
    """Return the variable of ``-e NAME=value``; of ``-e NAME`` the value that the command itself has."""
    name, equals, value = word.text.partition("=")
    if not equals:
        return {name: outside[name]} if name in outside else {name: Word("", word.line, (name,))}
    return {name: replace(word, text=value)}


def flags_alone(
    words: Sequence[Word], environment: Shell = MappingProxyType({}), form: LaunchForm = LaunchForm.SHELL
) -> Iterator[Invocation]:
    """Yield the start of flags without a program, as the ``args`` of a container have them."""
    if any(word.text.partition("=")[0] == MODEL_FLAG for word in words):
        yield Invocation(form, words[0].line, tuple(words), environment=dict(environment))


def json_words(text: str) -> tuple[Word, ...] | None:
    """Return the words of a JSON list of texts, as ``docker inspect`` prints a command."""
    if not text.lstrip().startswith("["):
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, list) or not all(isinstance(each, str) for each in document):
        return None
    return tuple(map(Word, document))


__all__ = [
    "UnreadableCommand",
    "argv_starts",
    "entrypoint_start",
    "flags_alone",
    "json_words",
    "shell_starts",
]
