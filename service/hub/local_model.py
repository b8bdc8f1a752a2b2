"""Reads a model from a folder of this host, and what a GGUF file says of its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from service.hub.checkpoint_weights import weight_files
from service.hub.errors import ConfigTooLarge, FolderWithoutModel, GgufNotPlanned, HubError
from service.hub.formats.gguf import MOST_HEADER_BYTES, HeaderTruncated, InvalidHeader, read_gguf
from service.hub.formats.json_object import parse_object
from service.hub.formats.safetensors import LENGTH_BYTES, HeaderTensors, header_bytes, read_header
from service.hub.limits import DEFAULT_LIMITS
from service.hub.model_files.assemble import assemble
from service.hub.model_files.fetched_config import (
    CONFIG,
    HF_QUANT_CONFIG,
    PARAMS,
    POOLING,
    SENTENCES,
    TOKENIZER,
    FetchedConfig,
)
from service.hub.model_files.gguf_name import GgufName
from service.hub.model_files.model_ids import is_path
from service.hub.model_files.model_info import listed_files
from service.units import gib_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from service.hub.model_files.model_info import ModelInfo

_DOCUMENTS: Final = (CONFIG, PARAMS, HF_QUANT_CONFIG, POOLING, SENTENCES, TOKENIZER)
_GGUF: Final = ".gguf"
GGUF_METHOD: Final = "gguf"
"""The engine's name of weights in this format."""
GGUF_NOTE: Final = (
    "the weights are the tensors of the GGUF file, by its header; the engine reads the model of a local "
    "file from that header too, and this plan from config.json"
)


def local_model(given: str, path: Path, config: Mapping[str, Any] | None = None) -> FetchedConfig | None:
    """Return the model at a path of this host; None if the text is rather the id of a model on the Hub.

    A folder that holds a model is read whatever its name, as the engine does (vLLM 0.32.0,
    transformers_utils/repo_utils.py file_or_path_exists): `org/name` below the current folder is that folder.

    Args:
        given: the text that the caller gave; commands repeat it.
        path: the same as a path.
        config: the config.json of a GGUF file; None for the one beside it.

    Raises:
        GgufNotPlanned: it is a GGUF file that cannot be read, or without a config.
        FolderWithoutModel: it can only be a path, and no model is there.
        HubError: a file cannot be read as JSON, or is too large.
        OSError: a file cannot be opened.
    """
    if path.is_dir() and any((path / name).is_file() for name in (CONFIG, PARAMS)):
        return _read_folder(given, path)
    if path.is_file() and path.suffix.lower() == _GGUF:
        return _gguf(given, path, config)
    if not is_path(given) and path.suffix.lower() != _GGUF:
        return None
    if not path.exists():
        raise FolderWithoutModel(given, f"{given} does not exist")
    ggufs = sorted(each.name for each in path.glob("*.gguf")) if path.is_dir() else []
    hint = f"; give one of its GGUF files: {', '.join(ggufs)}" if ggufs else ""
    raise FolderWithoutModel(given, f"{given} holds no {CONFIG} and no {PARAMS}{hint}")


def _read_folder(given: str, folder: Path) -> FetchedConfig:
    files = {name: _document(given, folder, name) for name in _DOCUMENTS if (folder / name).is_file()}
    names = sorted({*(each.name for each in folder.iterdir() if each.is_file()), *files})
    info = listed_files(names)
    read = assemble(given, f"the folder {given}", info, files, _stored_bytes(given, folder, info))
    return replace(read, revision=None, source="inline")


def _document(given: str, folder: Path, name: str) -> dict[str, Any]:
    with (folder / name).open("rb") as file:
        body = file.read(DEFAULT_LIMITS.file_bytes + 1)
    if len(body) > DEFAULT_LIMITS.file_bytes:
        raise ConfigTooLarge(given, name, DEFAULT_LIMITS.file_bytes)
    return parse_object(body, model_id=given, file=name, depth=DEFAULT_LIMITS.depth)


def _stored_bytes(given: str, folder: Path, info: ModelInfo) -> int | None:
    """Return the bytes of all tensors by the headers of the safetensors files; None if one cannot be read."""
    names = weight_files(info)
    try:
        headers = [_header(given, folder, name) for name in names]
    except HubError:
        return None
    return sum(headers, HeaderTensors()).total_bytes if headers else None


def _header(given: str, folder: Path, name: str) -> HeaderTensors:
    with (folder / name).open("rb") as file:
        length = header_bytes(file.read(LENGTH_BYTES), model_id=given, file=name)
        return read_header(file.read(length), model_id=given, file=name)


def _gguf(given: str, path: Path, config: Mapping[str, Any] | None) -> FetchedConfig:
    folder = path.parent
    names = sorted(each.name for each in folder.iterdir() if each.suffix.lower() == _GGUF)
    parts = GgufName("", file=path.name).files(names) or (path.name,)
    tensors = sum((_gguf_tensors(given, folder / name) for name in parts), HeaderTensors())
    if config is None:
        if not (folder / CONFIG).is_file():
            raise GgufNotPlanned(given, _without_config(given, tensors))
        config = _document(given, folder, CONFIG)
    found = FetchedConfig(
        id=given, revision=None, source="inline", config=config, provenance=f"the file {given}"
    )
    return as_gguf(found, given, tensors.total_bytes)


def _gguf_tensors(given: str, path: Path) -> HeaderTensors:
    with path.open("rb") as file:
        beginning = file.read(MOST_HEADER_BYTES)
    try:
        return read_gguf(beginning)
    except HeaderTruncated:
        raise GgufNotPlanned(given, f"{path.name} ends within its header") from None
    except InvalidHeader as error:
        raise GgufNotPlanned(given, f"{path.name} cannot be read: {error}") from None


def _without_config(given: str, tensors: HeaderTensors) -> str:
    kinds = ", ".join(f"{gib_text(size)} GiB in {kind}" for kind, size in tensors.stored_bytes.items())
    return (
        f"the weights in {given} take {tensors.total_bytes:,} bytes ({gib_text(tensors.total_bytes)} GiB: "
        f"{kinds}), in {tensors.count:,} tensors. For llama.cpp the file is enough (--engine llama.cpp). For "
        "vLLM give the config.json of the model that it was made from too (--config FILE)"
    )


def as_gguf(config: FetchedConfig, model: str, tensor_bytes: int) -> FetchedConfig:
    """Return the config of a model whose weights are a GGUF file, with the bytes of its tensors."""
    return replace(
        config,
        id=model,
        config={**config.config, "quantization_config": {"quant_method": GGUF_METHOD}},
        total_parameters=None,
        parameter_counts=None,
        total_parameter_bytes=tensor_bytes,
        note="; ".join(filter(None, (config.note, GGUF_NOTE))),
    )


def is_gguf_checkpoint(config: FetchedConfig) -> bool:
    """Whether the weights of a model are a GGUF file."""
    stored = config.config.get("quantization_config")
    return isinstance(stored, dict) and stored.get("quant_method") == GGUF_METHOD
