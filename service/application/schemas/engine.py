"""Engines as they are answered."""

from pydantic import Field

from service.application.schemas.base import Output


class ReleaseAnswer(Output):
    """A release that can be planned."""

    version: str
    kv_cache_dtypes: list[str]


class PatchAnswer(Output):
    """An unreleased pull request that can be laid over a release."""

    id: str
    title: str
    status: str
    source: str


class FlagAnswer(Output):
    """A flag that not every release has."""

    name: str
    since: str


class RuleAnswer(Output):
    """A behaviour that changes by release."""

    name: str
    summary: str
    changed_in: list[str] = Field(description="First release of each value, oldest first")


class EngineDescription(Output):
    """What is modelled of an engine."""

    name: str
    newest: str
    releases: list[ReleaseAnswer]
    patches: list[PatchAnswer]
    flags: list[FlagAnswer]
    rules: list[RuleAnswer]


class EngineList(Output):
    """All engines."""

    engines: list[EngineDescription]
