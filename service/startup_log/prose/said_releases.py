"""Finds two releases of which a person says that something works with one and not with the other."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from packaging.version import InvalidVersion, Version

from service.startup_log.prose.sentences import Sentence, sentences
from service.startup_log.text.lines import LogLine

MOST: Final = 40
"""Sentences of a text in which they are looked for."""
MOST_NAMED: Final = 6
"""Releases of one sentence."""
NEAR: Final = 60
"""Characters before and behind a release that say whether it works."""
_PATCH: Final = r"(?:\.?(?:post|rc|dev)\d{1,3})?"
_RELEASE: Final = re.compile(
    rf"(?:(?<![\w.=/-])|(?<=vllm-)|(?<=openai:)|(?<===))v?([01]\.\d{{1,3}}\.\d{{1,3}}{_PATCH}|"
    rf"(?:(?<=\bv)|(?<=vllm )|(?<=vllm-)|(?<=version )|(?<=release )|(?<=\u4ece)|(?<=\u5347\u7ea7\u5230))"
    rf"[01]\.\d{{1,3}}(?:\.(?:\*|x))?)(?![\w%]|\.\d)(?! ?(?:GB|GiB|TB|MB|ms|s\b|req|tok|t/s|it/s|hours|min))",
    re.IGNORECASE | re.ASCII,
)
"""A release of the engine or of a project of its age; one without a patch only behind a word for it."""
_FLAGS: Final = re.IGNORECASE | re.ASCII
_OF_FAILURE: Final = (
    "\u95ee\u9898|\u4e0b\u964d|\u53d8\u6162|\u62a5\u9519|\u5931\u8d25|"
    "\u9519\u8bef|\u5f02\u5e38|\u5d29\u6e83|\u5361\u4f4f|\u6cc4\u6f0f"
)
_FINE: Final = (
    "\u6b63\u5e38|\u6ca1\u6709?\u95ee\u9898|"
    "\u65e0\u6b64\u95ee\u9898|\u53ef\u4ee5|\u6ca1\u6709\u6b64\u95ee\u9898"
)
"""What says in Chinese that it fails, and that a release is fine."""
_REGRESSION: Final = re.compile(
    r"\b(?:regress\w{0,6}|degrad\w{0,6}|slow\w{0,4}|drop\w{0,4}|decreas\w{0,4}|worse|broken?|breaks|"
    r"fail\w{0,4}|crash\w{0,3}|\w{0,40}errors?|hangs?|stuck|oom|wrong|incorrect|cannot|unable|leak\w{0,3}|"
    rf"accuracy|issues?|problems?|no longer|disables?)\b|{_OF_FAILURE}",
    _FLAGS,
)
_MENDED: Final = re.compile(
    r"\b(?:fix(?:es|ed)?|solv(?:es|ed)|resolv(?:es|ed)|works?|worked|helps|helped|gone|goes away|"
    rf"went away)\b|\u89e3\u51b3|{_FINE}",
    _FLAGS,
)
_NOT_MENDED: Final = re.compile(
    "\\b(?:not|never|nothing|doesn't|didn't|won't|no luck|would|should)\\b|\u6ca1\u7528|\u65e0\u6548", _FLAGS
)
_UNCHANGED: Final = re.compile(
    r"\b(?:still|either|hop(?:e|ed|ing)|the same (?:way|error|issue|problem|crash|result))\b", _FLAGS
)
"""What shows that two releases do alike."""
_IN_VAIN: Final = re.compile(
    r"\b(?:tried|attempted|after|even)\b.{0,40}\b(?:downgrad|roll|revert)\w{0,4}\b.{0,200}"
    r"\b(?:but|still|in vain|no luck|without success|did(?:n't| not) help)\b",
    _FLAGS,
)
"""What shows that a person went back to an older release, which did not help."""
_NAME_BEFORE: Final = re.compile(r"([a-z][\w.-]*)(?: |==?)(?:(?:version|release) )?v?$", _FLAGS)
_NOT_A_NAME: Final = re.compile(
    r"vllm|versions?|releases?|docker|image|tag|build|in|on|with|from|to|than|and|or|but|between|under|at|using|for|"
    r"since|after|before|of|the|is|was|are|back|only|while|until|through|by|as|not|up(?:grad|dat)\w{1,4}|"
    r"downgrad\w{1,4}|reverted|work\w{0,3}|fine|ok|runs?|running|fail\w{0,3}|crash\w{0,3}|breaks|broken|tried|"
    r"tested|installed|use|used|both|versus|vs",
    _FLAGS,
)
"""Words before a release of the engine; behind a name stands a release of the project that has it."""
_BETWEEN: Final = re.compile("(?:\\b(?:from|between)|\u4ece|\u7531)\\s?(?:vllm )?$", _FLAGS)
_TO: Final = re.compile(
    "\\s?(?:to|and|through|->|\u2192|\u5347\u7ea7\u5230|\u5347\u7ea7\u81f3|\u964d\u7ea7\u5230|\u5230|\u81f3)"
    "(?: the)?(?: vllm)?(?: version)?\\s?",
    _FLAGS,
)
_THAN: Final = re.compile(
    r"\b(?:than|compared (?:to|with)|vs\.?|versus)(?: (?:in|on|with|for))?\s?(?:vllm )?$", _FLAGS
)
_NAME: Final = "(?: the)?(?: vllm)?(?: version| release)?"
_WORKS_BEFORE: Final = re.compile(
    r"(?:(?<!not )(?<!n't )(?<!never )\b(?:works?|worked|working|fine|ok|okay|normal\w{0,2}|good|reverted|"
    r"(?:downgrad|roll|revert)\w{0,4}(?: back)?|no (?:such )?(?:errors?|issues?|problems?|crash\w{0,2})|"
    rf"not (?:present|happen\w{{0,3}}|reproduc\w{{0,4}}))|{_FINE})(?: (?!but)\w{{1,12}}){{0,2}}"
    rf"(?: (?:on|in|with|under|at|using|for|to))?{_NAME}[ (:]{{0,2}}$",
    _FLAGS,
)
_WORKS_BEHIND: Final = re.compile(
    "(?:,|:|\\)|\\s|\u7248\u672c|\u7684){0,4}(?:version |release )?(?:(?:is|was|are|does) )?"
    r"(?:(?:works?|worked|working|runs?|fine|ok|okay|normal|good|not affected|unaffected)\b|"
    f"{_FINE})",
    _FLAGS,
)
_FAILS_BEFORE: Final = re.compile(
    r"(?:\b(?:since|starting (?:from|with)|after (?:upgrad|updat)\w{1,4}(?: to)?|as of|introduced in|"
    r"upgrad\w{1,4}(?: \w{1,12}){0,2} to|fails?(?: \w{1,12})? (?:in|on|with|for)|"
    r"(?:broken?|crash\w{0,3}|\w{0,40}errors?|hangs?|regress\w{0,6}|slow\w{0,4}) (?:in|on|with|for|since|at))"
    rf"{_NAME}|\u4ece)\s?$",
    _FLAGS,
)
_FAILS_BEHIND: Final = re.compile(
    r"(?:\s|,|:){0,2}(?:version |release )?(?:[\w/-]{1,24} ){0,3}(?:(?:fails?|crash\w{0,3}|errors?|hangs?|"
    "broken|oom|is broken|does(?:n't| not) work)\\b|\u7248\u672c?\u6709?\u95ee\u9898|\u5f00\u59cb)",
    _FLAGS,
)


@dataclass(frozen=True, slots=True)
class SaidReleases:
    """What a person says of two releases."""

    works: str
    fails: str
    line: int
    """Counted from 1 in the log."""

    @property
    def is_regression(self) -> bool:
        """Whether the later one of the two fails."""
        return _version(self.works) < _version(self.fails)


@dataclass(frozen=True, slots=True)
class _At:
    """A release, and the line on which it is named."""

    release: str
    line: int


def said_releases(lines: Sequence[LogLine]) -> SaidReleases | None:
    """Return the first two releases of which one works and the other does not, unchecked.

    The other one is what the text says so of, else the first one that it names beside.
    """
    works: _At | None = None
    fails: _At | None = None
    others: list[_At] = []
    for each in islice(sentences(lines), MOST):
        named = tuple(_named(each))
        pair = _pair(each, named)
        if pair is not None:
            return pair
        if each.text.rstrip().endswith(("?", "\uff1f")) or _IN_VAIN.search(each.text) is not None:
            continue
        for match in named:
            at = _At(match[1], each.line.number)
            if _is_said(each.text, match, _WORKS_BEFORE, _WORKS_BEHIND):
                works = works or at
            elif _is_said(each.text, match, _FAILS_BEFORE, _FAILS_BEHIND):
                fails = fails or at
            else:
                others.append(at)
    fails = fails or next((each for each in others if works and each.release != works.release), None)
    if works is None or fails is None or works.release == fails.release:
        return None
    return SaidReleases(works.release, fails.release, works.line)


def _version(release: str) -> Version:
    """Return a release as a version that can be compared; one of any patch is its first."""
    return Version(re.sub(r"\.(?:\*|x)$", "", release, flags=re.IGNORECASE))


def _named(sentence: Sentence) -> Iterator[re.Match[str]]:
    for match in islice(_RELEASE.finditer(sentence.text), MOST_NAMED):
        name = _NAME_BEFORE.search(sentence.text[max(0, match.start() - NEAR) : match.start()])
        if name is not None and not _NOT_A_NAME.fullmatch(name[1]):
            continue
        try:
            _version(match[1])
        except InvalidVersion:
            continue
        yield match


def _pair(sentence: Sentence, named: Sequence[re.Match[str]]) -> SaidReleases | None:
    """Return two releases that a sentence joins: from one to the other, between both, worse than."""
    text, number = sentence.text, sentence.line.number
    for first, second in pairwise(named):
        before, joint = text[: first.start()], text[first.end() : second.start()]
        if first[1] == second[1]:
            continue
        if _THAN.search(joint) is not None and _REGRESSION.search(before):
            return SaidReleases(works=second[1], fails=first[1], line=number)
        if _BETWEEN.search(before) is None or _TO.fullmatch(joint) is None or _UNCHANGED.search(text):
            continue
        mended = _MENDED.search(text) is not None and _NOT_MENDED.search(text) is None
        if mended:
            return SaidReleases(works=second[1], fails=first[1], line=number)
        if _REGRESSION.search(text) is not None and _version(first[1]) < _version(second[1]):
            return SaidReleases(works=first[1], fails=second[1], line=number)
    return None


def _is_said(text: str, release: re.Match[str], before: re.Pattern[str], behind: re.Pattern[str]) -> bool:
    """Whether the words on either side of a release say so of it."""
    left = text[max(0, release.start() - NEAR) : release.start()]
    right = text[release.end() : release.end() + NEAR]
    return before.search(left) is not None or behind.match(right) is not None
