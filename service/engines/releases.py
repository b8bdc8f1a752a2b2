"""Releases and patches that can be planned, how they were checked, and the rules each brings."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Final, get_type_hints

from packaging.version import InvalidVersion, Version

from service.bundled_toml import read_toml
from service.engines.dated import SUMMARY, parse_value, read_timeline, read_timelines, record_at
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.timeline import Timeline
from service.nearest_names import LONGEST_NAME, MOST_NEAREST, cut, few_of, nearest, quoted

TEXTS: Final = 256
"""Texts of versions whose release is remembered."""
LATEST: Final = "latest"
"""What people call the newest release."""
LISTS_ALL: Final = "`dryserve engines list` and GET /v1/engines list all"


class UnknownRelease(ValueError):
    """The release is not modelled, so nothing is said about it.

    Attributes:
        given: the version that was given.
        newest: the newest release that is modelled.
        nearest: releases with the same numbers, or else the same digits, in another order; those of the same
            minor version; those with a similar spelling; then the oldest for an older version, and the newest
            for any other text. At most five.
    """

    def __init__(self, given: str) -> None:
        self.given = given
        self.newest = str(RELEASES[-1])
        self.nearest = _nearest_releases(given)
        super().__init__(
            f"vLLM {cut(given)} is not modelled; the newest known release is {self.newest}; {LISTS_ALL}"
        )


class Check(StrEnum):
    """How the rules of a release were checked."""

    ORACLE = "oracle"
    """Against answers of the release itself."""
    LOGS = "logs"
    """Against starts that were logged."""
    SOURCES = "sources"
    """By reading its source."""


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """What is known of a release beside its rules."""

    released: date
    """The day on which its files were uploaded to PyPI."""
    checked: frozenset[Check]
    """How its rules were checked; empty when they were not."""


@dataclass(frozen=True, slots=True)
class ResolvedRelease:
    """The release that is planned for a version."""

    release: Version
    doubt: str = ""
    """Why the version may behave otherwise than the rules say; empty for a checked release."""


class UnknownPatch(ValueError):
    """No patch of this name can be laid over a release."""

    def __init__(self, given: str) -> None:
        self.given = given
        alike = nearest(given, PATCHES, cutoff=0.4)
        self.nearest = alike or tuple(PATCHES)[:MOST_NEAREST]
        where = "GET /v1/engines and `dryserve engines list --json` list all"
        super().__init__(f"the patch {quoted(given)} is not known; {few_of(alike, tuple(PATCHES), where)}")


class UnavailableFlag(ValueError):
    """The release does not have a flag that was given.

    Attributes:
        flag: its name, with underscores; after a slash, the key inside its value.
        since: the first release that has it, or where it was removed, the first without it.
    """

    def __init__(self, flag: str, release: Version, since: Version, *, removed: bool = False) -> None:
        self.flag = flag
        self.since = str(since)
        option, _, key = flag.partition("/")
        meant = f"{key!r} in --" if key else "--"
        change = "was removed in" if removed else "came with"
        super().__init__(f"vLLM {release} has no {meant}{option.replace('_', '-')}: it {change} {since}")


@dataclass(frozen=True, slots=True)
class Patch:
    """An unreleased pull request, as changes to rules."""

    id: str
    title: str
    status: str
    source: str
    rules: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DatedRule:
    """One rule's history."""

    topic: str
    """Name of its group in ``EngineRules``."""
    field: str
    """Name of its field in that group."""
    summary: str
    timeline: Timeline[Any]

    @property
    def name(self) -> str:
        """Name by topic and field, such as ``pages.unification``."""
        return f"{self.topic}.{self.field}"

    def of(self, rules: EngineRules) -> Any:  # noqa: ANN401 - of the rule's own type
        """Return the rule's value among the rules of a release."""
        return getattr(getattr(rules, self.topic), self.field)

    def laid_over(self, rules: EngineRules, value: object) -> EngineRules:
        """Return the rules of a release with another value of this rule."""
        group = replace(getattr(rules, self.topic), **{self.field: value})
        return replace(rules, **{self.topic: group})


TOPICS: Final[Mapping[str, type]] = {
    topic: group
    for topic, group in get_type_hints(EngineRules).items()
    if isinstance(group, type) and is_dataclass(group)
}
"""Groups of rules by name; the data of each is in ``rules/<name>.toml``."""


def _load(name: str) -> Mapping[str, Any]:
    return read_toml("service.engines", name)


def _read_rules(topic: str, tables: Mapping[str, Any]) -> Iterator[DatedRule]:
    timelines = read_timelines(topic, tables, TOPICS[topic])
    for field, timeline in timelines.items():
        yield DatedRule(topic, field, tables[field][SUMMARY], timeline)


def _read_patch(name: str, table: Mapping[str, Any]) -> Patch:
    rules = {rule: parse_value(_annotation(rule), value) for rule, value in table["rules"].items()}
    return Patch(name, table["title"], table["status"], table["source"], rules)


def _annotation(rule: str) -> object:
    topic, _, field = rule.partition(".")
    return get_type_hints(TOPICS[topic])[field]


_DATA: Final = _load("vllm.toml")
RELEASE_FACTS: Final[Mapping[Version, ReleaseFacts]] = {
    Version(name): parse_value(ReleaseFacts, facts) for name, facts in _load("releases.toml").items()
}
RELEASES: Final = tuple(sorted(RELEASE_FACTS))
"""Releases that can be planned, oldest first."""
RULES: Final = tuple(rule for topic in TOPICS for rule in _read_rules(topic, _load(f"rules/{topic}.toml")))
"""Every rule of every topic, with its history."""
_RULES_BY_NAME: Final = {rule.name: rule for rule in RULES}
PATCHES: Final = {name: _read_patch(name, table) for name, table in _DATA["patches"].items()}
FLAG_SINCE: Final[Mapping[str, Version]] = {
    name: Version(flag["since"]) for name, flag in _DATA["flags"].items() if "since" in flag
}
"""First release of the flags that not every release has."""
FLAG_UNTIL: Final[Mapping[str, Version]] = {
    name: Version(flag["until"]) for name, flag in _DATA["flags"].items() if "until" in flag
}
"""First release without a flag that earlier ones have."""
FLAG_DEFAULTS: Final[Mapping[str, Timeline[tuple[Any, ...]]]] = {
    name: read_timeline(name, changes, tuple[Any, ...]) for name, changes in _DATA["defaults"].items()
}
"""What a release takes for a flag that is left out; nothing where model, GPU or other flags decide."""
KEY_SINCE: Final[Mapping[str, Version]] = {
    name: Version(key["since"]) for name, key in _DATA["speculative_config"].items()
}
"""First release of the keys of ``speculative_config`` that not every release has."""


_UNTOUCHED: Final = ServeFlags()
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}(?:\.|$)")


@lru_cache(maxsize=TEXTS)
def find_release(text: str | None) -> Version:
    """Return the release in the table that a version is or becomes; ``None`` means the newest.

    Post releases and local builds are their release. A build between two releases is on its way to the
    later one, whatever number it was given in advance (vLLM counts up the patch number:
    ``0.23.1rc1.dev531`` is what became 0.24.0). ``resolve_release`` also takes newer versions.

    Raises:
        UnknownRelease: it is no version, or none that the table has or leads to.
    """
    if text is None:
        return RELEASES[-1]
    version = _version(text)
    release = Version(version.base_version)
    if release in RELEASES:
        # 0.20 equals 0.20.0, but only the table's own spelling is a release and the tag of an image.
        return RELEASES[RELEASES.index(release)]
    later = [known for known in RELEASES if known > release] if release > RELEASES[0] else []
    if not version.is_prerelease or not later:
        raise UnknownRelease(text)
    return later[0]


@lru_cache(maxsize=TEXTS)
def resolve_release(text: str | None) -> ResolvedRelease:
    """Return the release to plan for a version, and why the plan may not hold for that version.

    A version beyond the newest release is planned as the newest checked release before it. No version, and
    the word ``latest``, mean the newest release.

    Raises:
        UnknownRelease: it is no version, older than every release of the table, or between two of them
            without being a build on its way to the later one.
    """
    if text is None or text.strip().lower() == LATEST:
        return _known(RELEASES[-1])
    version = _version(text)
    if Version(version.base_version) > RELEASES[-1]:
        release = max(known for known in RELEASES if RELEASE_FACTS[known].checked)
        doubt = (
            f"vLLM {text} is newer than {release}, the newest release that was checked. It is planned as "
            f"{release} and may behave differently."
        )
        return ResolvedRelease(release, doubt)
    release = find_release(text)
    if version.is_prerelease:
        doubt = f"vLLM {text} is a development build. It is planned as {release} and may behave differently."
        return ResolvedRelease(release, doubt)
    if names_own_commit(version):
        doubt = (
            f"vLLM {text} is a build of a commit of its own, as vendors make them. It is planned as "
            f"{release} and may have what later releases brought."
        )
        return ResolvedRelease(release, doubt)
    return _known(release)


def names_own_commit(version: Version) -> bool:
    """Whether a version names a commit beside its release, as vendors' containers do.

    NVIDIA's 0.17.1+a03ca76a.nv26.03.46967107 and 0.21.0+2325b6f0.dev (26.03-py3 and 26.05.post1-py3): the
    second has what 0.22.0 and 0.23.0 brought. What only names a way of building (``+cu129``) is a release.
    """
    return version.local is not None and _COMMIT.match(version.local) is not None


def _nearest_releases(given: str) -> tuple[str, ...]:
    """Return the releases that a text may mean, the likeliest first."""
    text = given.strip().removeprefix("v")[:LONGEST_NAME]
    newest_first = [str(release) for release in reversed(RELEASES)]
    numbers, digits = sorted(text.split(".")), sorted(text)
    same_numbers = [each for each in newest_first if sorted(each.split(".")) == numbers]
    same_digits = [each for each in newest_first if sorted(each) == digits]
    minor = ".".join(text.split(".")[:2])
    same_minor = [each for each in newest_first if each.startswith(f"{minor}.")]
    older = _is_older(text)
    # What may be a release of that time is meant as it is written, and no slip of the hand.
    spelt = [] if older else nearest(text, newest_first, count=MOST_NEAREST)
    others = [] if same_minor else newest_first[::-1] if older else newest_first
    found = (*same_numbers, *same_digits, *same_minor, *(() if same_minor else spelt), *others)
    return tuple(dict.fromkeys(found))[:MOST_NEAREST]


def _is_older(text: str) -> bool:
    """Whether a text is a version before every release of the table."""
    try:
        return Version(text.removeprefix("v")) < RELEASES[0]
    except InvalidVersion:
        return False


def _version(text: str) -> Version:
    try:
        return Version(text.removeprefix("v"))
    except InvalidVersion as error:
        raise UnknownRelease(text) from error


def _known(release: Version) -> ResolvedRelease:
    """Return a release, with a doubt if the table has it and says that it was not checked."""
    facts = RELEASE_FACTS.get(release)
    if facts is None or facts.checked:
        return ResolvedRelease(release)
    words = f"The rules for vLLM {release} were not checked against it, so it may behave differently."
    return ResolvedRelease(release, words)


@cache
def _released(release: Version) -> EngineRules:
    timelines: dict[str, dict[str, Timeline[Any]]] = {topic: {} for topic in TOPICS}
    for rule in RULES:
        timelines[rule.topic][rule.field] = rule.timeline
    groups = {topic: record_at(TOPICS[topic], found, release) for topic, found in timelines.items()}
    return EngineRules(release=release, doubt=_known(release).doubt, **groups)


def rules_for(release: Version | ResolvedRelease, patches: Iterable[str] = ()) -> EngineRules:
    """Return the rules of a release with patches laid over it, in the order given.

    Raises:
        UnknownPatch: no patch has this name.
    """
    if isinstance(release, ResolvedRelease):
        rules = _released(release.release)
        if release.doubt != rules.doubt:
            rules = replace(rules, doubt=release.doubt)
    else:
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
    changed = rules
    for rule, value in PATCHES[name].rules.items():
        changed = _RULES_BY_NAME[rule].laid_over(changed, value)
    return rules if changed == rules else changed


def check_flags(flags: ServeFlags, release: Version) -> None:
    """Refuse flags that the release does not have.

    Raises:
        UnavailableFlag: it names the first such flag.
    """
    for error in unavailable_flags(flags, release):
        raise error


def unavailable_flags(flags: ServeFlags, release: Version) -> Iterator[UnavailableFlag]:
    """Yield the flags in use that the release does not have, each with the release that has it."""
    for name, since, removed in _missing_flags(release):
        if getattr(flags, name) != getattr(_UNTOUCHED, name):
            yield UnavailableFlag(name, release, since, removed=removed)
    if flags.speculative_config is None:
        return
    given = flags.speculative_config.document()
    for name, since in KEY_SINCE.items():
        if release < since and name in given:
            yield UnavailableFlag(f"speculative_config/{name}", release, since)


@cache
def _missing_flags(release: Version) -> tuple[tuple[str, Version, bool], ...]:
    """Return the flags that a release does not have: the name, the change, and whether that was a removal."""
    later = ((name, since, False) for name, since in FLAG_SINCE.items() if release < since)
    removed = ((name, until, True) for name, until in FLAG_UNTIL.items() if release >= until)
    return (*later, *removed)
