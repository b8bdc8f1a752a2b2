"""How the two kinds of documents are read and written."""

from pydantic import BaseModel, ConfigDict


class Input(BaseModel):
    """A document from a caller: unknown names are refused, and text is not taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Output(BaseModel):
    """A document of ours, read off the core's own values. No field has a default, so all are required."""

    model_config = ConfigDict(from_attributes=True, frozen=True)
