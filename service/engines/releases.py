"""Releases and patches that can be planned, and the rules each brings."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from service.engines.flags import ServeFlags
from service.engines.rules import RULE_PARSERS, EngineRules
from service.engines.timeline import InvalidTimeline, Timeline
from service.spelling import cut, nearest, quoted


class UnknownRelease(ValueError):
    """The release is not modelled, so nothing is said about it.

    Attributes:
        given: what was asked for.
        newest: the newest release that is modelled.
        nearest: modelled releases of the same minor version, or else all.
    """

    def __init__(self, given: str) -> None:
        self.given = given
        self.newest = str(RELEASES[-1])
        minor = ".".join(given.split(".")[:2])
        known = tuple(str(release) for release in RELEASES)
        self.nearest = tuple(text for text in known if text.startswith(f"{minor}.")) or known
        super().__init__(
            f"vLLM {cut(given)} is not modelled; the newest known release is {self.newest}, "
            f"the nearest: {', '.join(self.nearest)}"
        )


class UnknownPatch(ValueError):
    """No patch of this name can be laid over a release."""

    def __init__(self, given: str) -> None:
        self.given = given
        self.nearest = nearest(given, PATCHES, cutoff=0.4) or tuple(PATCHES)
        super().__init__(f"the patch {quoted(given)} is not known; known are {', '.join(PATCHES)}")


class UnavailableFlag(ValueError):
    """The release does not have a flag that was given.

    Attributes:
        flag: its name, with underscores; after a slash, the key inside its value.
        since: the first release that has it.
    """

    def __init__(self, flag: str, release: Version, since: Version) -> None:
        self.flag = flag
        self.since = str(since)
        option, _, key = flag.partition("/")
        meant = f"{key!r} in --" if key else "--"
        super().__init__(f"vLLM {release} has no {meant}{option.replace('_', '-')}: it came with {since}")


@dataclass(frozen=True, slots=True)
class Patch:
    """An unreleased pull request, as changes to rules."""

    id: str
    title: str
    status: str
    source: str
    rules: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule's history."""

    name: str
    summary: str
    timeline: Timeline[Any]


def _load(name: str) -> Mapping[str, Any]:
    return tomllib.loads(files("service.engines").joinpath(name).read_text("utf-8"))


def _read_rules(tables: Mapping[str, Any]) -> tuple[Rule, ...]:
    unknown = tables.keys() ^ RULE_PARSERS.keys()
    if unknown:
        raise InvalidTimeline(f"rules without a reader, or readers without a rule: {sorted(unknown)}")
    return tuple(
        Rule(name, table["summary"], Timeline.parse(name, table["changes"], RULE_PARSERS[name]))
        for name, table in tables.items()
    )


def _read_patches(tables: Mapping[str, Any]) -> Mapping[str, Patch]:
    return {
        name: Patch(
            id=name,
            title=table["title"],
            status=table["status"],
            source=table["source"],
            rules={rule: RULE_PARSERS[rule](value) for rule, value in table["rules"].items()},
        )
        for name, table in tables.items()
    }


_DATA: Final = _load("vllm.toml")
RELEASES: Final = tuple(sorted(map(Version, _DATA["engine"]["releases"])))
"""Releases that can be planned, oldest first."""
_RULE_FILES: Final = ("vllm_cache.toml", "vllm_start.toml", "vllm_speculation.toml")
RULES: Final = _read_rules(
    {name: rule for file in _RULE_FILES for name, rule in _load(file)["rules"].items()}
)
PATCHES: Final = _read_patches(_DATA["patches"])
FLAG_SINCE: Final[Mapping[str, Version]] = {
    name: Version(flag["since"]) for name, flag in _DATA["flags"].items()
}
"""First release of the flags that not every release has."""
FLAG_DEFAULTS: Final[Mapping[str, Timeline[tuple[Any, ...]]]] = {
    name: Timeline.parse(name, changes, tuple) for name, changes in _DATA["defaults"].items()
}
"""What a release takes for a flag that is left out; nothing where model, GPU or other flags decide."""
KEY_SINCE: Final[Mapping[str, Version]] = {
    name: Version(key["since"]) for name, key in _DATA["speculative_config"].items()
}
"""First release of the keys of ``speculative_config`` that not every release has."""


def find_release(text: str | None) -> Version:
    """Return the modelled release that a version names; post, dev and local parts map to their release.

    A build between two releases is on its way to the later one, whatever number it was given in advance
    (vLLM counts up the patch number: ``0.23.1rc1.dev531`` is what became 0.24.0).

    Raises:
        UnknownRelease: it is no version, or none that is modelled.
    """
    if text is None:
        return RELEASES[-1]
    try:
        version = Version(text.removeprefix("v"))
    except InvalidVersion as error:
        raise UnknownRelease(text) from error
    release = Version(version.base_version)
    if release in RELEASES:
        return release
    later = [known for known in RELEASES if known > release] if release > RELEASES[0] else []
    if not version.is_prerelease or not later:
        raise UnknownRelease(text)
    return later[0]


@cache
def _released(release: Version) -> EngineRules:
    return EngineRules(release=release, **{rule.name: rule.timeline.at(release) for rule in RULES})


def rules_for(release: Version, patches: Iterable[str] = ()) -> EngineRules:
    """Return the rules of a release with patches laid over it, in the order given.

    Raises:
        UnknownPatch: no patch has this name.
    """
    rules = _released(release)
    for name in patches:
        rules = with_patch(rules, name)
    return rules


@lru_cache(maxsize=512)
def with_patch(rules: EngineRules, name: str) -> EngineRules:
    """Return rules with a patch laid over them: one object for equal ones, the same where it changes none.

    Raises:
        UnknownPatch: no patch has this name.
    """
    if name not in PATCHES:
        raise UnknownPatch(name)
    changed = replace(rules, **PATCHES[name].rules)
    return rules if changed == rules else changed


def check_flags(flags: ServeFlags, release: Version) -> None:
    """Refuse flags that the release does not have.

    Raises:
        UnavailableFlag: it names the first such flag.
    """
    untouched = ServeFlags()
    for name, since in FLAG_SINCE.items():
        if release < since and getattr(flags, name) != getattr(untouched, name):
            raise UnavailableFlag(name, release, since)
    given = {} if flags.speculative_config is None else flags.speculative_config.document()
    for name, since in KEY_SINCE.items():
        if release < since and name in given:
            raise UnavailableFlag(f"speculative_config/{name}", release, since)
