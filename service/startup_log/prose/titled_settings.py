"""Finds what the title of a text claims, and the settings with or without which something fails by it."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from service.engines.arguments.arguments import releases_with
from service.startup_log.prose.sentences import MOST_OF_QUOTE, Quote, Sentence, opening, title_of
from service.startup_log.prose.what_works import SETTING
from service.startup_log.text.lines import LogLine

LEAST_OF_CLAIM: Final = 4
"""Words of a title that claims something."""
MOST: Final = 3
"""Settings that are named of one title."""
_CASE: Final = re.compile(r"(?i)\b(?:when|with|using|if|under|enabl(?:e|ing|ed)|setting|once|after)\b|\+")
"""What stands before the settings of the case in which it fails."""
_SUBJECT: Final = re.compile(r"[\s:`\"'*#]{0,6}")
"""What stands before a setting that is the subject of the title."""
_DOES: Final = re.compile(
    r"(?i)^[^,;:]{0,30}?\b(?:causes?|breaks?|corrupts?|crash\w{0,2}|hangs?|leads? to|makes?|produces?|"
    r"results? in|triggers?|slows?|fails?|generates?|disables?|drops?)\b"
)
"""What a setting does that is the subject of a title."""
OTHER: Final = re.compile(
    r"(?i)\b(?:without(?! (?:it|this|that|them)\b)|support|add|allow|default|ignored?|no effect|missing|"
    r"try|increas\w{2,3}|lower\w{0,3}|need\w?|unset|(?:not|isn't|aren't) (?:set|given|passed|specified|used)"
    r")\b"
)
"""What shows that a title is about the setting itself, or that it fails without it."""


_NAMED: Final = re.compile(
    r"(?<![\w.-])[a-z][a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){1,6}"
    r"(?: ?= ?(?:True|False|\d{1,6})(?!\w)|(?! ?=)(?![\w.(=]))"
)
"""An argument as a program passes it: `num_scheduler_steps=8`."""
_NOT_SET: Final = re.compile(
    r"(?i)^[`'\")]{0,3}(?:=\S{1,20})? {0,2}(?:(?:is |was |are |were )?(?:not|isn't|wasn't|aren't)"
    r"(?: been| explicitly)? (?:set|given|passed|specified|used|provided|enabled|present)|"
    r"(?:is )?(?:unset|missing|absent))\b"
)
"""What stands behind a setting that is not there."""
_WITHOUT: Final = re.compile(r"(?i)\b(?:without|unless)(?: \w{1,12}){0,2}[ `'\"(]{1,3}$")
"""What stands before a setting that is not there."""
_WORKS_WITH: Final = re.compile(
    r"(?i)(?<!n't )(?<!not )\b(?:only works?|works? only|works?(?: fine| well| again)?|is (?:fine|ok))"
    r"(?: (?:with|if|when|once|after)(?: \w{1,12}){0,2})[ `'\"(]{1,3}$"
)
"""What stands before a setting with which it works."""
_WITHOUT_IT: Final = re.compile(
    r"(?i)(?<!n't )(?<!not )\b(?:works?|worked|runs?|starts?|fine|ok|okay|no (?:error|problem|issue|crash)|"
    r"goes away|disappears|gone)\b[^.;]{0,30}\b(?:without|(?:after|if|when|by)(?: (?:i|we|you))? "
    r"(?:remov|disabl|dropp|unset|omit|leav)\w{1,4}(?: out| off)?)(?: \w{1,12}){0,2}[ `'\"(]{1,3}$"
)
"""What stands before a setting without which it works."""
_ONLY_WITH: Final = re.compile(
    r"(?i)\b(?:fails?|crash\w{0,2}|hangs?|happens?|occurs?|breaks?|errors?|appears?)\b[^.;]{0,20}\bonly "
    r"(?:with|when|if|under|after)(?: \w{1,12}){0,3}[ `'\"(]{1,3}$|"
    r"\bonly (?:fails?|crash\w{0,2}|hangs?|happens?|occurs?|breaks?|appears?) (?:with|when|if|under|after)"
    r"(?: \w{1,12}){0,3}[ `'\"(]{1,3}$"
)
"""What stands before a setting with which alone it fails."""
_FAILS: Final = re.compile(
    r"(?i)\b(?:fail\w{0,4}|crash\w{0,4}|errors?|hangs?|hung|broken|breaks?|dies|oom|cannot|can't|"
    r"(?:not|n't) (?:work|start|load|run)\w{0,3}|raises?|throws?|wrong|garbage)\b"
)
_DOUBTS: Final = re.compile(r"(?i)\b(?:even|also|still|with (?:and|or) without|both)\b|\?$")
"""What says that it fails with and without."""
_WHICH_DEVICES: Final = "_VISIBLE_DEVICES="
"""A variable that says which devices a start uses, and not how."""


def claim_of_title(lines: Sequence[LogLine]) -> Quote | None:
    """Return the title of a text, where it says more than which model or program it is about."""
    title = title_of(lines)
    if title is None or len(title.words.split()) < LEAST_OF_CLAIM or title.text.rstrip().endswith("("):
        # A line that ends so is source of a traceback.
        return None
    return Quote(title.line.number, title.text.strip(" #*")[:MOST_OF_QUOTE])


def titled_settings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the flags and variables with which something fails, by the title or the paragraph below it."""
    said = opening(lines)
    if not said:
        return ()
    return tuple(dict.fromkeys((*_of_title(said[0].text), *_culprits(said))))[:MOST]


def needed_settings(lines: Sequence[LogLine]) -> tuple[str, ...]:
    """Return the flags and variables without which something fails, by the title or what is below it.

    Of one that is named as the case in which it fails another value may help.
    """
    said = opening(lines)
    others = {_as_flag(each) for each in (*_of_title(said[0].text), *_culprits(said))} if said else set()
    found = (
        setting
        for each in said
        for setting, before, behind in _settings(each.text)
        if _as_flag(setting) not in others and _is_needed(before, behind, each.text)
    )
    return tuple(dict.fromkeys(found))[:MOST]


def _culprits(said: Sequence[Sentence]) -> Iterator[str]:
    """Yield the settings of which sentences say that it works without them, or fails with them only."""
    for each in said:
        for setting, before, behind in _settings(each.text):
            only = _ONLY_WITH.search(before) is not None and not _NOT_SET.match(behind)
            if only or _WITHOUT_IT.search(before) is not None:
                yield setting


def _is_needed(before: str, behind: str, text: str) -> bool:
    """Whether a sentence says that it fails without a setting, or works with it only."""
    if _WORKS_WITH.search(before) is not None:
        return not _NOT_SET.match(behind)
    absent = _NOT_SET.match(behind) is not None or _WITHOUT.search(before) is not None
    return absent and _FAILS.search(text) is not None and _DOUBTS.search(text) is None


def _settings(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the engine's settings in a sentence, with what stands before and behind each."""
    for each in (*SETTING.finditer(text), *_NAMED.finditer(text)):
        if _is_known(each[0]):
            yield each[0], text[: each.start()], text[each.end() :]


def _of_title(title: str) -> tuple[str, ...]:
    """Return the settings that a title names as the case in which something fails."""
    found = sorted((*SETTING.finditer(title), *_NAMED.finditer(title)), key=lambda each: each.start())
    known = [each for each in found if _is_known(each[0])]
    if not known or OTHER.search(title):
        return ()
    before, behind = title[: known[0].start()], title[known[0].end() :]
    is_subject = _SUBJECT.fullmatch(before) is not None and _DOES.match(behind) is not None
    if not is_subject and _CASE.search(before) is None:
        return ()
    return tuple(each[0] for each in known)


def _is_known(setting: str) -> bool:
    """Whether a flag or an argument is one of the engine's, of any release, or it is given a value."""
    if setting[:1].isupper() or ("=" in setting and not setting.startswith("-")):
        return _WHICH_DEVICES not in setting
    return bool(releases_with(_as_flag(setting)))


def _as_flag(setting: str) -> str:
    """Return an argument of a program as a flag."""
    name = setting.partition("=")[0].strip()
    return name if name.startswith("-") or name[:1].isupper() else f"--{name.replace('_', '-')}"
