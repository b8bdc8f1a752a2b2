"""Leaves out of a remedy what another platform, another host or another release is needed for."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.arguments.arguments import releases_with
from service.engines.releases import RELEASES
from service.explanation.remedies.remedy_parts import BRACKETS, alternatives, joined, keeping, parts_of
from service.explanation.remedies.start_facts import StartFacts

_TABLES: Final = read_toml("service.explanation.remedies", "conditions.toml")
_NEEDS: Final[Sequence[tuple[str, Sequence[str]]]] = [
    (each["needs"], each["words"]) for each in _TABLES["condition"]
]
_PLACES: Final[Mapping[str, str]] = {words: fact for fact, each in _TABLES["place"].items() for words in each}
_AT_PLACE: Final = re.compile(
    r"(?:^|(?<=[:,;] )|(?<=\())(?:[Oo]n|[Ii]n|[Ff]or) "
    rf"({'|'.join(map(re.escape, sorted(_PLACES, key=len, reverse=True)))})\b(?:[^,;.()]|\.(?=\w)){{0,240}}"
    r"(?:\s?\([^()]{0,240}\))?"
)
"""A phrase that says what holds at one place alone."""
_VERSION: Final = r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)"
_BEFORE: Final = re.compile(
    rf" ?\((?:in releases )?before {_VERSION}(?!\d)[^()]{{0,200}}\)|"
    rf",? (?:in releases )?before {_VERSION}(?!\d) [^,;.()]{{1,200}}(?=[,;.)])"
)
"""What holds for older releases alone."""
_OR_LATER: Final = re.compile(
    rf"\b[Uu]se (?:vLLM |a release of )?{_VERSION} or (?:later|newer)(?:, which [^,;.]{{1,200}})?(?=[,;.])"
)
_SINCE: Final = re.compile(rf"(?:and |or )?[Ss]ince {_VERSION}(?!\d),? ")
_UNTIL: Final = re.compile(rf"(?:and |or )?(?:[Ii]n releases )?[Bb]efore {_VERSION}(?!\d),? ")
"""How a part begins that holds from a release on, or for older releases alone."""
_NEWER: Final = re.compile(r"\ba newer release\b(?! of )")
_NAMED: Final = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]{2,60}|VLLM_[A-Z0-9_]{3,60})(?![\w-])")


def without_unmet(remedy: str, facts: StartFacts) -> str:
    """Return a remedy without the alternatives that need a fact which does not hold."""
    return joined(_met(_of_release(part, facts.release), facts) for part in parts_of(remedy))


def _met(part: str, facts: StartFacts) -> str:
    """Return a part as far as the facts allow it; empty for nothing."""
    part = _at_places(part, facts)
    part = BRACKETS.sub(lambda found: "" if _is_elsewhere(found[0], facts) else found[0], part)
    part = re.sub(r" +(?=[ ,;]|[.](?: |$))", "", part)
    spans = alternatives(part)
    kept = [(begin, end) for begin, end in spans if not _is_unmet(part[begin:end], facts)]
    if not kept and ", and " in part:
        return part
    return part if len(kept) == len(spans) else keeping(part, kept)


def _at_places(part: str, facts: StartFacts) -> str:
    """Return a part without the phrases for places that the start is not at."""
    for found in reversed(list(_AT_PLACE.finditer(part))):
        if facts.holds.get(_PLACES[found[1]], True):
            continue
        before, after = part[: found.start()], part[found.end() :]
        if before.endswith("(") and after.startswith(")"):
            before, after = before[:-1].rstrip(), after[1:]
        elif before and after[:1] == ",":
            after = after[1:].lstrip()
        elif not before:
            after = after.lstrip(",; ")
        else:
            before = before.rstrip(",;: ")
        part = before + after
    return "" if not part.strip(".;: ") else part


def _is_unmet(text: str, facts: StartFacts) -> bool:
    return _is_elsewhere(text, facts) or any(_is_absent(name, facts.release) for name in _named_first(text))


def _is_elsewhere(text: str, facts: StartFacts) -> bool:
    """Whether words need a platform or a host which is not that of the start."""
    needs = (fact for fact, words in _NEEDS if any(map(text.__contains__, words)))
    return any(not facts.holds.get(fact, True) for fact in needs)


def _named_first(text: str) -> Iterator[str]:
    """Yield the flag or the variable that an alternative proposes."""
    found = _NAMED.search(text)
    if found is not None and "without" not in text[: found.start()] and "eave" not in text[: found.start()]:
        yield found[1]


def _is_absent(name: str, release: Version | None) -> bool:
    """Whether a release has no such flag or variable, which another one has."""
    if release is None or release.is_prerelease or not RELEASES[0] <= release <= RELEASES[-1]:
        return False
    having = releases_with(name)
    return bool(having) and release not in having and release in RELEASES


def _of_release(part: str, release: Version | None) -> str:
    """Return a part without what is for older releases, and with what is newer than the newest one."""
    if release is None:
        return part
    since, until = _SINCE.match(part), _UNTIL.match(part)
    if (since and release < Version(since[1])) or (until and release >= Version(until[1])):
        return ""
    part = _BEFORE.sub(lambda found: _unless_reached(found, release), part)
    part = _OR_LATER.sub(lambda found: _unless_reached(found, release), part)
    if release >= RELEASES[-1]:
        part = _NEWER.sub(f"a release after {release.base_version}", part)
    return "" if not part.strip(".;, ") else part.lstrip(",; ")


def _unless_reached(found: re.Match[str], release: Version) -> str:
    least = Version(next(filter(None, found.groups())))
    return "" if release >= least else found[0]
