"""What the weights of a model are, by the headers of their files, which are a thousandth of them.

A header at a commit never changes, so what it tells is kept for ever: asked again, reading goes on where it
ended.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from service.hub.allowed_files import is_consolidated, is_gguf, is_safetensors
from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    HubError,
    HubTimedOut,
)
from service.hub.gguf import (
    FIRST_BYTES,
    MOST_HEADER_BYTES,
    HeaderGoesOn,
    NotAHeader,
    read_gguf,
)
from service.hub.safetensors import (
    FIRST_SPAN,
    LENGTH_BYTES,
    HeaderTensors,
    header_bytes,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.hub.credential import Credential
    from service.hub.info import ModelInfo
    from service.hub.repository import Repositories

FILES_AT_ONCE: Final = 8
"""Headers that are read at the same time."""
GGUFS_NAMED: Final = 30


@dataclass(frozen=True, slots=True)
class Weights:
    """What is known of a model's weights.

    Attributes:
        files: the files that hold them, in order.
        read: how many of those headers were read; the rest is not counted in `tensors`.
        tensors: of the files that were read.
        fault: for people, why not all were; None where they were.
    """

    files: tuple[str, ...]
    read: int
    tensors: HeaderTensors
    fault: str | None = None

    @property
    def whole(self) -> bool:
        """Whether all of them were read."""
        return self.read == len(self.files)


def weight_files(info: ModelInfo, file: str | None = None) -> tuple[str, ...]:
    """Return the files that hold a model's weights once; `file` picks one, as GGUF repositories need."""
    files = info.files or ()
    if file is not None:
        return (file,) if file in files and (is_gguf(file) or is_safetensors(file)) else ()
    safetensors = [name for name in files if is_safetensors(name)]
    plain = [name for name in safetensors if not is_consolidated(name)]
    ggufs = [name for name in files if is_gguf(name)]
    return tuple(plain or safetensors or (ggufs if len(ggufs) == 1 else ()))


def no_weights(model_id: str, info: ModelInfo, file: str | None) -> ConfigNotFound:
    """Say why there is no file of weights to read."""
    if file is not None:
        return ConfigNotFound(model_id, ascii(file[:100]))
    ggufs = [name for name in info.files or () if is_gguf(name)]
    remark = f"; name one of its GGUF files: {', '.join(ggufs[:GGUFS_NAMED])}" if ggufs else ""
    return ConfigNotFound(model_id, "weights that can be read", remark)


async def read_weights(
    repositories: Repositories,
    asking: Credential,
    place: tuple[str, str],
    files: Sequence[str],
    seconds: float,
) -> Weights:
    """Read the headers of files at a place (a model's id and a commit), for at most `seconds`.

    Raises:
        HubError: not one could be read.
    """
    at_once = asyncio.Semaphore(FILES_AT_ONCE)

    async def read(file: str) -> HeaderTensors:
        async with at_once:
            return await header(repositories, asking, place, file)

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
    repositories: Repositories, asking: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    """Return what the header of one file tells, read once for all who ask.

    Raises:
        HubError: it could not be had, or is none.
    """
    read = _gguf if is_gguf(file) else _safetensors

    async def summary() -> bytes:
        return json.dumps(asdict(await read(repositories, asking, place, file))).encode()

    kept = await repositories.derived(asking, place, f"{file}#tensors", summary)
    return HeaderTensors(**json.loads(kept))


async def _span(
    repositories: Repositories, asking: Credential, place: tuple[str, str], file: str, span: tuple[int, int]
) -> bytes:
    body = await repositories.span(asking, place, file, span)
    if body is None:
        raise ConfigNotFound(place[0], file)
    return body


async def _safetensors(
    repositories: Repositories, asking: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    model_id, _ = place
    beginning = await _span(repositories, asking, place, file, FIRST_SPAN)
    end = LENGTH_BYTES + header_bytes(beginning, model_id=model_id, file=file)
    if end > len(beginning):
        beginning += await _span(repositories, asking, place, file, (len(beginning), end - 1))
    if end > len(beginning):
        raise ConfigNotJson(model_id, file, "it ends within its header")
    return await asyncio.to_thread(read_header, beginning[LENGTH_BYTES:end], model_id=model_id, file=file)


async def _gguf(
    repositories: Repositories, asking: Credential, place: tuple[str, str], file: str
) -> HeaderTensors:
    beginning, wanted = b"", FIRST_BYTES
    while True:
        more = await _span(repositories, asking, place, file, (len(beginning), wanted - 1))
        beginning += more
        try:
            return await asyncio.to_thread(read_gguf, beginning)
        except HeaderGoesOn:
            if len(beginning) < wanted or wanted >= MOST_HEADER_BYTES:
                raise ConfigNotJson(place[0], file, "it ends within its header") from None
            wanted *= 2
        except NotAHeader as error:
            raise ConfigNotJson(place[0], file, str(error)) from None
