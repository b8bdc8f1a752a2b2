"""Reads a model from a folder of this host, and what a GGUF file says of its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from service.hub.assemble import assemble
from service.hub.checkpoint_weights import weight_files
from service.hub.errors import ConfigTooLarge, FolderWithoutModel, GgufNotPlanned, HubError
from service.hub.fetched_config import (
    CONFIG,
    HF_QUANT_CONFIG,
    PARAMS,
    POOLING,
    SENTENCES,
    TOKENIZER,
    FetchedConfig,
)
from service.hub.gguf import MOST_HEADER_BYTES, HeaderTruncated, InvalidHeader, read_gguf
from service.hub.json_object import parse_object
from service.hub.limits import DEFAULT_LIMITS
from service.hub.model_ids import is_path
from service.hub.model_info import listed_files
from service.hub.safetensors import LENGTH_BYTES, HeaderTensors, header_bytes, read_header
from service.units import gib_text

if TYPE_CHECKING:
    from pathlib import Path

    from service.hub.model_info import ModelInfo

_DOCUMENTS: Final = (CONFIG, PARAMS, HF_QUANT_CONFIG, POOLING, SENTENCES, TOKENIZER)
_GGUF: Final = ".gguf"


def local_model(given: str, path: Path) -> FetchedConfig | None:
    """Return the model at a path of this host; None if the text is rather the id of a model on the Hub.

    A folder that holds a model is read whatever its name, as the engine does (vLLM 0.32.0,
    transformers_utils/repo_utils.py file_or_path_exists): `org/name` below the current folder is that folder.

    Args:
        given: the text that the caller gave; commands repeat it.
        path: the same as a path.

    Raises:
        GgufNotPlanned: it is a GGUF file.
        FolderWithoutModel: it can only be a path, and no model is there.
        HubError: a file cannot be read as JSON, or is too large.
        OSError: a file cannot be opened.
    """
    if path.is_dir() and any((path / name).is_file() for name in (CONFIG, PARAMS)):
        return _read_folder(given, path)
    if path.is_file() and path.suffix.lower() == _GGUF:
        raise _gguf(given, path)
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


def _gguf(given: str, path: Path) -> GgufNotPlanned:
    with path.open("rb") as file:
        beginning = file.read(MOST_HEADER_BYTES)
    try:
        tensors = read_gguf(beginning)
    except HeaderTruncated:
        return GgufNotPlanned(given, f"{given} ends within its header")
    except InvalidHeader as error:
        return GgufNotPlanned(given, f"{given} cannot be read: {error}")
    kinds = ", ".join(f"{gib_text(size)} GiB in {kind}" for kind, size in tensors.stored_bytes.items())
    return GgufNotPlanned(
        given,
        f"the weights in {given} take {tensors.total_bytes:,} bytes ({gib_text(tensors.total_bytes)} GiB: "
        f"{kinds}), in {tensors.count:,} tensors. The file alone is planned for llama.cpp (--engine "
        "llama.cpp). For vLLM plan the model that it was made from, by its id or with --config: from 0.24 on "
        "it loads no GGUF file without a plug-in",
    )
