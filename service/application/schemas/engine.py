"""Engines as they are answered."""

from datetime import date

from pydantic import Field

from service.application.schemas.base import Output
from service.engines.releases import Check


class ReleaseAnswer(Output):
    """A release that can be planned."""

    version: str
    released: date = Field(description="The day on which its files were uploaded to PyPI")
    checked: list[Check] = Field(
        description="How its rules were checked: `oracle` against answers of the release itself, `logs` "
        "against starts that were logged, `sources` by reading its source. Plans on a release without any "
        "are uncertain"
    )
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
