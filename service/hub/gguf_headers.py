"""Reads the headers of GGUF files on the Hub by ranges of bytes, without their tensors."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from service.hub.errors import ConfigNotFound, ConfigNotJson
from service.hub.formats.gguf import (
    FIRST_BYTES,
    MOST_HEADER_BYTES,
    GgufHeader,
    HeaderTruncated,
    InvalidHeader,
    Value,
    read_gguf_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.hub.repositories import Repositories
    from service.hub.transport.credential import Credential

MOST_PARTS: Final = 64
"""Most parts of a split model whose headers are read."""
_ARCHITECTURE: Final = "general.architecture"
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class GgufOnHub:
    """A model in GGUF's format at a commit.

    Attributes:
        header: entries of its first file, and the tensors of all files.
        projector: the encoder of images that its repository holds beside it.
    """

    commit: str
    files: tuple[str, ...]
    header: GgufHeader
    projector: str | None = None


async def parsed_beginning(
    repositories: Repositories,
    credential: Credential,
    place: tuple[str, str],
    file: str,
    parse: Callable[[bytes], _Found],
) -> _Found:
    """Parse the beginning of a GGUF file at a place (a model's id and a commit), as long as its header.

    Raises:
        HubError: the header could not be fetched, or it is not a valid header.
    """
    beginning, needed = b"", FIRST_BYTES
    while True:
        more = await repositories.span(credential, place, file, (len(beginning), needed - 1))
        if more is None:
            raise ConfigNotFound(place[0], file)
        beginning += more
        try:
            return await asyncio.to_thread(parse, beginning)
        except HeaderTruncated:
            if len(beginning) < needed or needed >= MOST_HEADER_BYTES:
                raise ConfigNotJson(place[0], file, "the file ends within its header") from None
            needed *= 2
        except InvalidHeader as error:
            raise ConfigNotJson(place[0], file, str(error)) from None


async def gguf_header(
    repositories: Repositories, credential: Credential, place: tuple[str, str], file: str
) -> GgufHeader:
    """Return the header of one file; it is cached, since a file at a commit never changes.

    Raises:
        HubError: the header could not be fetched, or it is not a valid header.
    """

    async def summary() -> bytes:
        header = await parsed_beginning(repositories, credential, place, file, read_gguf_header)
        return json.dumps(asdict(_of_architecture(header)), separators=(",", ":")).encode()

    stored: Mapping[str, Any] = json.loads(
        await repositories.derived(credential, place, f"{file}#header", summary)
    )
    values = {name: _listed(value) for name, value in stored["values"].items()}
    return GgufHeader(values, stored["tensor_bytes"], stored["vocabulary"])


def whole_header(headers: Sequence[GgufHeader]) -> GgufHeader:
    """Return the header of a model from those of its parts, the first of which has the entries."""
    tensors = {name: size for header in headers for name, size in header.tensor_bytes.items()}
    return GgufHeader(headers[0].values, tensors, headers[0].vocabulary)


def _of_architecture(header: GgufHeader) -> GgufHeader:
    """Return a header without the texts and the other entries that no cache depends on."""
    name = header.values.get(_ARCHITECTURE)
    values = {
        key: value
        for key, value in header.values.items()
        if key == _ARCHITECTURE or (key.startswith(f"{name}.") and not isinstance(value, str))
    }
    return GgufHeader(values, header.tensor_bytes, header.vocabulary)


def _listed(value: Any) -> Value:  # noqa: ANN401 - of JSON that was written here
    found: Value = tuple(value) if isinstance(value, list) else value
    return found
