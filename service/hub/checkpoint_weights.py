"""Reads the tensors of a model's weights from the headers of the weight files, without the weights.

A header has about a thousandth of the bytes of its file. At a given commit it never changes, so its summary
is cached without an end; a later request reads only the headers that are still missing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    HubError,
    HubTimedOut,
)
from service.hub.formats.gguf import read_gguf
from service.hub.formats.safetensors import (
    FIRST_SPAN,
    LENGTH_BYTES,
    HeaderTensors,
    header_bytes,
    read_header,
)
from service.hub.gguf_headers import parsed_beginning
from service.hub.model_files.allowed_files import is_consolidated, is_gguf, is_safetensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.hub.model_files.gguf_name import GgufName
    from service.hub.model_files.model_info import ModelInfo
    from service.hub.repositories import Repositories
    from service.hub.transport.credential import Credential

FILES_AT_ONCE: Final = 8
"""Headers that are read in parallel."""
GGUFS_LISTED: Final = 30
"""GGUF files that an error message lists at most."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model's weight files and the tensors that their headers describe.

    Attributes:
        files: the weight files, in order.
        read: how many headers were read. Files that were not read are not counted in `tensors`.
        tensors: the tensors of the files that were read.
        fault: why some headers could not be read, as text for people; None if all were read.
    """

    files: tuple[str, ...]
    read: int
    tensors: HeaderTensors
    fault: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the headers of all files were read."""
        return self.read == len(self.files)


def weight_files(info: ModelInfo, file: str | None = None) -> tuple[str, ...]:
    """Return the weight files of a model, each tensor once.

    `file` selects a single file, as repositories of several GGUF files need. Mistral's consolidated files
    are used only if there are no other safetensors files: they hold the same weights.
    """
    files = info.files or ()
    if file is not None:
        return (file,) if file in files and (is_gguf(file) or is_safetensors(file)) else ()
    safetensors = [name for name in files if is_safetensors(name)]
    plain = [name for name in safetensors if not is_consolidated(name)]
    ggufs = [name for name in files if is_gguf(name)]
    return tuple(plain or safetensors or (ggufs if len(ggufs) == 1 else ()))


def no_weights(model_id: str, info: ModelInfo, file: str | None) -> ConfigNotFound:
    """Return the error for a model without readable weight files; it lists the GGUF files to choose from."""
    if file is not None:
        return ConfigNotFound(model_id, ascii(file[:100]))
    ggufs = [name for name in info.files or () if is_gguf(name)]
    remark = f"; name one of its GGUF files: {', '.join(ggufs[:GGUFS_LISTED])}" if ggufs else ""
    return ConfigNotFound(model_id, "weights that can be read", remark)


def no_gguf(name: GgufName, info: ModelInfo) -> ConfigNotFound:
    """Return the error for a name of GGUF weights that no file has; it lists the files to choose from."""
    ggufs = [file for file in info.files or () if is_gguf(file)]
    remark = f"; its GGUF files: {', '.join(ggufs[:GGUFS_LISTED])}" if ggufs else ""
    wanted = "GGUF file" if name.tag is None else f"GGUF file of {name.tag}"
    return ConfigNotFound(name.model_id, wanted if name.file is None else ascii(name.file), remark)


async def read_weights(
    repositories: Repositories,
    credential: Credential,
    place: tuple[str, str],
    files: Sequence[str],
    seconds: float,
) -> Weights:
    """Read the headers of files at a place (a model's id and a commit), for at most `seconds`.

    Headers that are not read in time, or that fail, are missing in the result, which then has a fault.

    Raises:
        HubError: no header could be read.
    """
    parallel = asyncio.Semaphore(FILES_AT_ONCE)

    async def read(file: str) -> HeaderTensors:
        async with parallel:
            return await header(repositories, credential, place, file)

    tasks = [asyncio.create_task(read(file)) for file in files]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        known = [task.result() for task in tasks if task.done() and task.exception() is None]
        fault = next((task.exception() for task in tasks if task.done() and task.exception()), None)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if fault is None and len(known) < len(files):
        fault = HubTimedOut(place[0])
    if fault is not None and (not known or not isinstance(fault, HubError)):
        raise fault
    return Weights(
        tuple(files), len(known), sum(known, HeaderTensors()), None if fault is None else str(fault)
    )


async def header(
    repositories: Repositories, credential: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    """Return the tensors of one file by its header; concurrent callers share one read.

    Raises:
        HubError: the header could not be fetched, or it is not a valid header.
    """
    read = _gguf if is_gguf(file) else _safetensors

    async def summary() -> bytes:
        return json.dumps(asdict(await read(repositories, credential, place, file))).encode()

    stored = await repositories.derived(credential, place, f"{file}#tensors", summary)
    return HeaderTensors(**json.loads(stored))


async def _span(
    repositories: Repositories,
    credential: Credential,
    place: tuple[str, str],
    file: str,
    span: tuple[int, int],
) -> bytes:
    body = await repositories.span(credential, place, file, span)
    if body is None:
        raise ConfigNotFound(place[0], file)
    return body


async def _safetensors(
    repositories: Repositories, credential: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    model_id, _ = place
    beginning = await _span(repositories, credential, place, file, FIRST_SPAN)
    end = LENGTH_BYTES + header_bytes(beginning, model_id=model_id, file=file)
    if end > len(beginning):
        beginning += await _span(repositories, credential, place, file, (len(beginning), end - 1))
    if end > len(beginning):
        raise ConfigNotJson(model_id, file, "the file ends within its header")
    return await asyncio.to_thread(read_header, beginning[LENGTH_BYTES:end], model_id=model_id, file=file)


async def _gguf(
    repositories: Repositories, credential: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    return await parsed_beginning(repositories, credential, place, file, read_gguf)
