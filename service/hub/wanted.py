"""One request to the Hub, before it is made."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """One file of a model at a revision, and the address that should answer with it."""

    model_id: str
    revision: str
    file: str
    url: str
