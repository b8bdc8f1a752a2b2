"""The engines that can be planned, as answers list them."""

from functools import cache

from packaging.version import Version

from service.application.catalogs.choice_catalog import choices_by_flag
from service.application.schemas.answers.engine import (
    EngineDescription,
    EngineList,
    FlagAnswer,
    FlagValueAnswer,
    FlagValuesAnswer,
    PatchAnswer,
    ReleaseAnswer,
    RuleAnswer,
)
from service.engines.releases import (
    FLAG_SINCE,
    PATCHES,
    RELEASE_FACTS,
    RELEASES,
    RULES,
    rules_for,
)


@cache
def engine_list() -> EngineList:
    """Return the engines with the releases, patches and dated rules that are modelled."""
    return EngineList(engines=[_vllm()])


def _vllm() -> EngineDescription:
    return EngineDescription(
        name="vllm",
        newest=str(RELEASES[-1]),
        releases=[
            ReleaseAnswer(
                version=str(release),
                released=facts.released,
                checked=sorted(facts.checked),
                kv_cache_dtypes=list(rules_for(release).dtypes.accepted),
            )
            for release, facts in sorted(RELEASE_FACTS.items())
        ],
        patches=[PatchAnswer.model_validate(patch) for patch in PATCHES.values()],
        flags=[FlagAnswer(name=name, since=str(since)) for name, since in FLAG_SINCE.items()],
        flag_values=[
            FlagValuesAnswer(flag=flag, values=[_value(name, *of) for name, of in choices.items()])
            for flag, choices in choices_by_flag().items()
        ],
        rules=[
            RuleAnswer(
                name=rule.name,
                summary=rule.summary,
                changed_in=[str(change.since) for change in rule.timeline.changes],
            )
            for rule in RULES
        ],
    )


def _value(name: str, since: Version, until: Version | None) -> FlagValueAnswer:
    return FlagValueAnswer(value=name, since=str(since), until=None if until is None else str(until))
