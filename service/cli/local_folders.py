"""Models in folders of this host that a plan names, in its options or in its command."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.hub.local_model import local_model
from service.hub.model_files.fetched_config import FetchedConfig
from service.hub.model_files.model_ids import is_path


@dataclass(frozen=True, slots=True)
class NamedModels:
    """What a body calls its models; ``None`` where it names none."""

    model: str | None = None
    draft: str | None = None
    """The model with which it speculates."""


def is_gguf_file(model: str) -> bool:
    """Whether a text is the path of a GGUF file of this host."""
    path = Path(model).expanduser()
    return path.suffix.lower() == ".gguf" and path.is_file()


def folder_of(model: str, config: Mapping[str, Any] | None = None) -> FetchedConfig | None:
    """Return the model of a folder or file of this host; ``None`` if the text is rather an id on the Hub.

    ``config``: the config.json of a GGUF file.

    Raises:
        FolderWithoutModel: the text can only be a path, and no model is there.
        GgufNotPlanned: it is a GGUF file without a config.
    """
    return local_model(model, Path(model).expanduser(), config)


def with_local_models(document: dict[str, Any]) -> tuple[dict[str, Any], list[FetchedConfig]]:
    """Return a body, and its models that are folders of this host.

    The body names the model of its command where that is a folder that is here. Any other folder of a command
    may be on another host, so it is left to the plan, which says what to do.

    Raises:
        FolderWithoutModel: an option names a path where no model is.
    """
    serve = document.get("serve", {})
    given = NamedModels(document.get("model"), _draft(serve))
    if "command" in document:
        there = _named_in_command(document)
        given = NamedModels(given.model or _if_here(there.model), given.draft or _if_here(there.draft))
    if given.model is not None and is_gguf_file(given.model):
        config = document.get("config")
        document = {key: value for key, value in document.items() if key != "config"}
        document["model"] = given.model
        return document, [each for each in (folder_of(given.model, config),) if each is not None]
    if given.model is not None and "config" not in document:
        document = {**document, "model": given.model}
    model = None if given.model is None or "config" in document else folder_of(given.model)
    draft = None if given.draft is None or not is_path(given.draft) else folder_of(given.draft)
    return document, [each for each in (model, draft) if each is not None]


def _named_in_command(document: Mapping[str, Any]) -> NamedModels:
    # Most plans have no command, and need none of these modules.
    from service.launch_command.launch import UnreadableCommand  # noqa: PLC0415
    from service.launch_command.read_commands import read_command  # noqa: PLC0415

    try:
        reading = read_command(document["command"], document.get("engine", {}).get("version"))
    except (UnreadableCommand, ValueError):
        return NamedModels()  # the plan reads it again, and says what is wrong
    return NamedModels(reading.launch.model, _draft(reading.flags.serve))


def _draft(serve: Mapping[str, Any]) -> str | None:
    speculative = serve.get("speculative_config")
    draft = speculative.get("model") if isinstance(speculative, Mapping) else None
    return draft if isinstance(draft, str) else None


def _if_here(path: str | None) -> str | None:
    if path is None or not (is_path(path) or is_gguf_file(path)):
        return None
    return path if Path(path).expanduser().exists() else None
