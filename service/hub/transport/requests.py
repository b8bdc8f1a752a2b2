"""HubRequest: one request to the Hub, and the quota it counts against."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

MODEL_INFO: Final = "model info"
"""Takes the place of a file name in requests for the metadata of the Hub's API."""


class Quota(Enum):
    """The Hub's two quotas: it counts API requests and files separately."""

    API = auto()
    FILES = auto()


@dataclass(frozen=True, slots=True)
class HubRequest:
    """A request for one file of a model at a revision.

    Attributes:
        model_id: the model's id.
        revision: a branch, tag or commit.
        file: the file's name, or `MODEL_INFO`.
        url: the address of the request.
        span: the first and the last byte to fetch, both included; None for the whole file.
    """

    model_id: str
    revision: str
    file: str
    url: str
    span: tuple[int, int] | None = None

    @property
    def quota(self) -> Quota:
        """The quota that the request counts against."""
        return Quota.API if self.file == MODEL_INFO else Quota.FILES

    @property
    def headers(self) -> dict[str, str]:
        """The `Range` header for the span; empty for the whole file."""
        return {} if self.span is None else {"Range": f"bytes={self.span[0]}-{self.span[1]}"}
