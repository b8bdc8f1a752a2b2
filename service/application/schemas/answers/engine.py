"""Answers about engines."""

from datetime import date

from pydantic import Field

from service.application.schemas.base import Output
from service.engines.releases import Check


class ReleaseAnswer(Output):
    """A release that can be planned."""

    version: str = Field(description="The release, such as `0.19.0`")
    released: date = Field(description="The day on which its files were uploaded to PyPI")
    checked: list[Check] = Field(
        description="How its rules were checked: `oracle` against answers of the release itself, `logs` "
        "against starts that were logged, `sources` by reading its source. Plans on a release without any "
        "are uncertain"
    )
    kv_cache_dtypes: list[str] = Field(description="Values that the release accepts for `--kv-cache-dtype`")


class PatchAnswer(Output):
    """An unreleased pull request that can be laid over a release."""

    id: str = Field(description="Name to pass in `engine.patches`, such as `vllm#40391`")
    title: str = Field(description="Title of the pull request")
    status: str = Field(description="State of the pull request when it was modelled")
    source: str = Field(description="Address of the pull request")


class FlagAnswer(Output):
    """A flag that not every release has."""

    name: str = Field(description="Name of the flag, with underscores")
    since: str = Field(description="First release that has the flag")


class FlagValueAnswer(Output):
    """A value of a flag that takes only certain words."""

    value: str = Field(description="The value")
    since: str = Field(description="First release that takes the value")
    until: str | None = Field(description="First release that no longer takes it; null where the newest does")


class FlagValuesAnswer(Output):
    """The values of a flag that takes only certain words."""

    flag: str = Field(description="Name of the flag, with underscores; after a dot, a key of its value")
    values: list[FlagValueAnswer] = Field(description="Values of all releases together")


class RuleAnswer(Output):
    """A behaviour that changes by release."""

    name: str = Field(description="Topic and name of the rule, such as `pages.unification`")
    summary: str = Field(description="What the rule decides")
    changed_in: list[str] = Field(description="First release of each value of the rule, the oldest first")


class EngineDescription(Output):
    """What is modelled of an engine."""

    name: str = Field(description="Name of the engine: `vllm`")
    newest: str = Field(description="The newest release that is modelled")
    releases: list[ReleaseAnswer] = Field(description="Releases that can be planned, the oldest first")
    patches: list[PatchAnswer] = Field(description="Pull requests that can be laid over a release")
    flags: list[FlagAnswer] = Field(description="Flags that not every release has")
    flag_values: list[FlagValuesAnswer] = Field(
        description="Values of the flags that take only certain words, by flag"
    )
    rules: list[RuleAnswer] = Field(description="Behaviours that change by release")


class EngineList(Output):
    """All engines."""

    engines: list[EngineDescription] = Field(description="All engines")
