"""One request to the Hub, before it is made."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

MODEL_INFO: Final = "model info"
"""What is asked of the Hub's API, in the place of a file's name."""


class Quota(Enum):
    """The Hub's quotas: it counts questions to its API and files apart."""

    API = auto()
    FILES = auto()


@dataclass(frozen=True, slots=True)
class HubRequest:
    """One file of a model at a revision, and the address that should answer with it.

    Attributes:
        span: the first and the last byte wanted, both included; None for the whole file.
    """

    model_id: str
    revision: str
    file: str
    url: str
    span: tuple[int, int] | None = None

    @property
    def quota(self) -> Quota:
        """The quota that the request is counted against."""
        return Quota.API if self.file == MODEL_INFO else Quota.FILES

    @property
    def headers(self) -> dict[str, str]:
        """What asks for the span."""
        return {} if self.span is None else {"Range": f"bytes={self.span[0]}-{self.span[1]}"}
