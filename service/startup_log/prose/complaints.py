"""Says whether a person complains of a failure in one sentence."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.errors.exceptions import raises
from service.startup_log.errors.tracebacks import HEADER, frame_of
from service.startup_log.prose.listed_titles import lists_titles
from service.startup_log.text.lines import LogLine

MOST_OF_CHANGE: Final = 200
"""Lines of a text in which the headings of a form are looked for."""
FAILING: Final = frozenset({"ERROR", "CRITICAL"})
"""Levels of lines that report a failure."""
_FAILS: Final = re.compile(rf"{re.escape(HEADER)}|[a-z]error: |exception in ", re.IGNORECASE)
"""What shows that a text is about a failure."""
_COMPLAINS: Final = re.compile(
    r"\b(?:oom|fail(?:s|ed|ing|ure)?|crash(?:es|ed|ing)?|hang(?:s|ing)?|stuck|freezes|blocked|unresponsive|"
    r"segfaults?|killed|faults?|wrong|broken|fatal|unable to|time[sd]? ?out|can(?:'t|not))\b|"
    r"error\b|\u62a5\u9519|\u5931\u8d25|\u5d29\u6e83|\u9519\u8bef|\u5361\u4f4f|\u5361\u6b7b|"
    r"\u30a8\u30e9\u30fc|\uc624\ub958|\uc5d0\ub7ec|\u65e0\u6cd5|\u7121\u6cd5|\u4e0d\u80fd|\u3067\u304d\u305a|"
    r"\u3067\u304d\u306a\u3044|\u8d77\u52d5\u3057\u306a\u3044|\u843d\u3061\u308b|\uc2e4\ud328|\uc548 ?\ub428",
    re.IGNORECASE,
)
"""What shows that a person's sentence is about a failure, in English, Chinese, Japanese and Korean."""
_TROUBLE: Final = re.compile(
    r"(?i)\b(?:bug|issues?|problems?|errors?|exception|troubleshoot\w{0,3}|known limitations?|symptoms?|faq|"
    r"incident|regression|post-?mortem|debug\w{0,5}|why .{1,60} fail\w{0,3})\b|\u95ee\u9898|\u6545\u969c|"
    r"\u6392\u67e5|\u6392\u9519|\u30c8\u30e9\u30d6\u30eb|\ubb38\uc81c"
)
"""What shows that a heading is about failures."""
_DENIES: Final = re.compile(
    r"\b(?:no|never|not|without)(?: an?| any)? "
    r"(?:oom|errors?|fail\w{0,5}|crash\w{0,4}|hang\w{0,4}|stuck|problems?)",
    re.IGNORECASE,
)
"""What shows that a person's sentence is about no failure."""


_CHANGE: Final = re.compile(
    r"(?i)^(?:#{1,4} |\*\*)(?:purpose|test plan|test result|what this pr does|this pr contains|pr type|"
    r"pr information|"
    r"type of change|summary of changes|why are these changes needed)\b"
)
_THIS_CHANGE: Final = re.compile(
    r"(?i)^[\s>*-]{0,8}this (?:pr|pull request) "
    r"(?:add|fix|updat|creat|mak|enabl|implement|remov|refactor|allow|ensur|support|replac|open|"
    r"introduc|extend|improv|"
    r"migrat|mov|chang|bump|avoid|handl)\w{0,4}\b|"
    r"^[\s>*-]{0,8}this change (?:adds|allows|enables|ensures|extends|improves|moves|refactors|removes|"
    r"replaces|updates)\b|"
    r"\bthis (?:pr|pull request) (?:is|aims|was made|was opened|tries|intends) to "
    r"(?:add|fix|solve|resolve|support|avoid|improve|enable|make|remove|address)\b"
)
"""A sentence about a change."""
_ENDED_WITH_CHANGE: Final = re.compile(
    r"(?i)[.!;] this (?:pr|patch|pull request) (?:fix|solv|resolv|address|add)\w{1,3} "
)
"""What a description says behind the failure that its change mends; a report can point to such a one."""
_REPORTS: Final = ("[bug]", "# [bug]", "[usage]", "# [usage]")
"""Beginnings of the titles of reports."""
_SUMMARY: Final = re.compile(r"(?i)^#{1,4} (?:summary|what does this pr do|changes)\b")
_CHANGES: Final = re.compile(
    r"(?i)^#{0,2} ?(?:\[(?:bug-?fix|build|ci|ci/build|core|kernel|hardware|model|frontend|refactor|feat)\])"
    r"|^#{0,2} ?(?:fix|fixes|fixed|add|adds|added|support|enable|update|bump|remove|guard|revert)\b"
)
"""Headings of the forms for changes of code, and beginnings of their titles."""
_CHANGED: Final = re.compile(
    r"(?i)^#{1,4} (?:what(?:'s| is| was| has)? (?:been )?changed|changes made|description of changes?)\b"
)
"""Headings of such forms that no report of a failure has."""
_STEP: Final = re.compile(
    r"(?i)^(?:#{1,2} |[-*+] )?(?:add|allow|avoid|bump|change|clean|document|drop|enable|expose|fix|handle|"
    r"improve|increase|introduce|lower|make|move|pin|raise|reduce|refactor|remove|rename|replace|skip|"
    r"support|switch|tweak|"
    r"update|use)(?:s|d|es|ed|ing)? \w"
)
"""A title or an item that says what a change does."""
_ITEM: Final = re.compile(r"^[-*+] \S")
_OF_RELEASE: Final = re.compile(
    r"(?i)^#{0,3} ?(?:change ?log|release notes?|what(?:'s| is) new)"
    r"(?: (?:for |of |in )?v?\d{1,4}(?:\.\w{1,12}){1,3})?(?:$|:)"
    r"|^#{1,3} \[?v?\d{1,4}(?:\.\w{1,12}){1,3}\]?(?: \(?[-\u2013]? ?\d{4}-\d\d-\d\d\)?)?$"
    r"|^#{0,3} ?(?:\S{1,24} ?){0,2}(?:(?:\u66f4\u65b0|\u53d8\u66f4)(?:\u65e5\u5fd7|\u5185\u5bb9|\u8bf4\u660e|"
    r"\u8bb0\u5f55)|\u53d1\u5e03\u8bf4\u660e|\u7248\u672c\u8bf4\u660e|\u30ea\u30ea\u30fc\u30b9\u30ce\u30fc\u30c8|"
    r"\ubcc0\uacbd ?\uc0ac\ud56d)\s?[:\uff1a]?$"
)
"""The title of a list of what changed in a release: `# Changelog`, `## v0.9.1`, `## [1.2.0] - 2025-01-31`."""
_FIXED: Final = re.compile(
    r"(?i)^(?:[-*+] )?(?:fixed|fixes|resolved|resolves) (?:an?|the|some|several|rare|issues?|bugs?|"
    r"crash\w{0,3}|hangs?|errors?|memory|deadlocks?|races?) "
    r"(?!.{0,400}\b(?:but|still|however|now|again|yet)\b)"
)
"""A sentence of a list of changes, whose failure is gone."""
LEAST_ITEMS: Final = 2
"""Items of a list of what a change does."""
_OF_COMMIT: Final = re.compile(
    r"(?i)^#{0,2} ?(?:\[[^\]\[]{1,40}\] ?){0,3}"
    r"(?:\[(?:bug-?fix|fix|feat|chore|refactor|perf|docs?|ci|build|test)\]|"
    r"(?:bug-?fix|fix|feat|chore|refactor|perf|docs|build|test|ci)(?:\([^)(]{1,40}\))?!?: )"
)
"""Beginning of the title of a commit: the kind of the change behind those of its parts."""
_ANSWERS: Final = re.compile(r"(?i)^(?:fix(?:es)?|closes?|resolves?):? (?:[\w./-]{0,60}#\d{1,6}|https?://)")
"""A line that names the issue which a change ends."""


_FIXES: Final = (
    r"(?:bug-?)?fix(?:es for)?:?(?: the| an?)? (?=\w)(?!needed|required|please|me\b|my\b|this\b)"
    r"|\u4fee\u590d"
)
_IMPERATIVE: Final = re.compile(
    r"(?i)^#{0,2} ?(?:\[(?!(?:bug|usage|installation|performance|question|help|issue|error|ci failure|"
    r"feature|rfc)\b)[^\]\[]{1,40}\][: ]{0,3}){0,4}(?:[\w./-]{2,60}: )?"
    rf"(?:(?P<fix>{_FIXES})|"
    r"(?:add|allow|avoid|bump|clean ?up|document|drop|enable|expose|extend|guard|handle|implement|"
    r"improve|introduce|lower|migrate|move|optimi[sz]e|raise|refactor|remove|rename|reorgani[sz]e|replace|"
    r"restore|revert|rewrite|simplify|support|switch|unify|update|use) \w)"
)
"""A title that says what a change does, as git asks of one: `[V1] Improve error handling`, `Fix the ...`."""
_TAGGED: Final = re.compile(r"^#{0,2} ?\[")
_HAPPENED: Final = re.compile(
    r"(?i)\b(?:fails|failed|failing|crashes|crashed|hangs|hung|breaks|broke|broken|does(?: not|n't)|"
    r"is(?: not|n't)|"
    r"cannot|can't|not work\w{0,3}|raises|throws|leads|causes|results|makes|gives|takes|still|but|however|"
    r"after (?:upgrad|updat)\w{1,4})\b"
)
"""What a title says that happened, and no change does."""
_SUMMED_UP: Final = re.compile(
    r"(?i)^(?:#{1,4} |\*\*|)(?:summary|goals?|changes|description|motivation|solution|what changed|"
    r"\u4fee\u6539\u5185\u5bb9|\u6539\u52a8|\u4e3b\u8981\u6539\u52a8|\u53d8\u66f4|"
    r"\u66f4\u65b0\u5185\u5bb9)(?:\*\*)?:?(?:\*\*)?$"
)
"""What heads the description of a change."""
_OF_WORK: Final = re.compile(r"^#{0,2} ?(?:fix|feat|chore|refactor|perf|docs)(?:\([^)(]{1,40}\))?!?: ")
"""The title of a commit that changes something, in the form of conventional commits."""
_SAYS_I: Final = re.compile(r"(?:^|\W)(?:I|we|We|my|My)(?:'m|'ve)? (?!have not found)\w")
_QUOTES_PROGRAM: Final = re.compile(r"(?i)[`\"][^`\"]{0,80}\b(?:error|fatal)\s{0,4}: [^`\"]")
"""A message of a program within a sentence, which is what a reader asks about: `nvcc fatal   : ...`."""
_SET: Final = re.compile(
    r"(?:Set|Raise|Lower|Increase|Reduce) [`\w-]+ (?:to )?[`\w.]+ (?:and|on|in|for|from) "
)
"""What a change does, as the last sentence of its description: `Set failureThreshold 10 on both probes.`"""
_VERIFIED: Final = re.compile(r"(?:Verified|Tested) (?:with|on|by|locally) ")
"""How a change was tried."""
_UNBULLETED: Final = re.compile(r"^[-*+] ")
_NUMBERED: Final = re.compile(r"^(?:[-*+] |\d{1,2}[.)\u3001] ?)\S")
_STEP_IN_CJK: Final = re.compile(
    r"\u4fee\u590d|\u65b0\u589e|\u589e\u52a0|\u79fb\u9664|\u5220\u9664|\u66ff\u6362|\u4f18\u5316|"
    r"\u8c03\u6574|\u91cd\u6784|"
    r"\u9002\u914d|\u652f\u6301|\u5206\u5f00\u5904\u7406|\u6539\u4e3a|\u66f4\u65b0|\u6dfb\u52a0"
)
"""What a change does, in Chinese: repairs, adds, removes, replaces, adapts, handles apart."""


def describes_change(lines: Sequence[LogLine]) -> bool:
    """Whether a text describes a change of code, and no failure: by its headings, and by its title."""
    heads = [line.text for line in lines[:MOST_OF_CHANGE] if line.text.startswith("#")]
    title = next((line.text for line in lines if line.text), "")
    if title.lower().startswith(_REPORTS):
        return False
    described = any(_THIS_CHANGE.search(line.text) for line in lines[:MOST_OF_CHANGE])
    if described or any(map(_CHANGE.match, heads)):
        return True
    plain = title.lstrip("#* ")
    summed_up = any(map(_SUMMARY.match, heads))
    answers = any(_ANSWERS.match(line.text) for line in lines[:MOST_OF_CHANGE])
    of_commit = _OF_COMMIT.match(plain) is not None and (answers or summed_up)
    ended = any(_ENDED_WITH_CHANGE.search(line.text) for line in lines[:MOST_OF_CHANGE])
    of_form = _CHANGES.match(plain) is not None and (summed_up or ended)
    changed = _lists_steps(lines) or any(map(_CHANGED.match, heads))
    of_steps = _STEP.match(plain) is not None and changed
    of_work = _OF_WORK.match(plain) is not None and _is_headed(lines)
    titled = of_commit or of_form or of_steps or of_work or _only_answers(lines)
    return titled or _is_titled_as_change(plain, lines) or _is_of_release(title, lines)


def _only_answers(lines: Sequence[LogLine]) -> bool:
    """Whether a text says below its title only which issue it ends: `fix: #4571`."""
    below = [line.text for line in lines[:MOST_OF_CHANGE] if line.text][1:]
    return bool(below) and all(map(_ANSWERS.match, below))


def _is_titled_as_change(title: str, lines: Sequence[LogLine]) -> bool:
    """Whether a title says what a change does, and its tag or what is below it that there is one.

    That is a heading of a description, the issue that it ends, a list of steps, a last sentence that
    sets a value, or how it was tried.
    """
    found = _IMPERATIVE.match(title)
    if found is None or (found["fix"] is None and _HAPPENED.search(title) is not None):
        return False
    below = [line.text for line in lines[:MOST_OF_CHANGE] if line.text][1:]
    if any(map(_QUOTES_PROGRAM.search, below)):
        return False
    if found["fix"] is not None and _HAPPENED.search(title) is None and not any(map(_SAYS_I.search, below)):
        return True
    if _TAGGED.match(title) is not None and found["fix"] is None:
        return True
    items = [text for text in below if _NUMBERED.match(text)]
    steps = sum(_STEP.match(text) is not None or _STEP_IN_CJK.search(text) is not None for text in items)
    ended = bool(below) and (_SET.match(below[-1]) is not None or any(map(_VERIFIED.match, below)))
    ended = ended and not any(map(_SAYS_I.search, below))
    return _is_headed(lines) or ended or (steps >= LEAST_ITEMS and 2 * steps >= len(items))


def _is_headed(lines: Sequence[LogLine]) -> bool:
    """Whether below its title a text heads the description of a change, or names the issue that it ends."""
    below = [line.text for line in lines[:MOST_OF_CHANGE] if line.text][1:]
    return any(_SUMMED_UP.match(text) or _ANSWERS.match(_UNBULLETED.sub("", text)) for text in below)


def _lists_steps(lines: Sequence[LogLine]) -> bool:
    """Whether a text below its title is a list of what a change does, and nothing else."""
    below = [line.text for line in lines if line.text][1:]
    items = [text for text in below if _ITEM.match(text)]
    return len(items) >= LEAST_ITEMS and len(items) == len(below) and all(map(_STEP.match, items))


def _is_of_release(title: str, lines: Sequence[LogLine]) -> bool:
    """Whether a text is what changed in a release: its title says so above a list, or each line is a fix."""
    if _OF_RELEASE.match(title) is None:
        return bool(title) and all(_FIXED.match(line.text) for line in lines if line.text)
    return ":" in title or any(_NUMBERED.match(line.text) for line in lines)


def is_titled_as_commit(lines: Sequence[LogLine]) -> bool:
    """Whether the title of a text is that of a commit: `fix: update the endpoint`."""
    return _OF_COMMIT.match(next((line.text for line in lines if line.text), "")) is not None


_TASK: Final = re.compile(
    r"\s{0,12}[-*+] \[[ xX]\] {1,4}(?!(?:i|i've|i'm|please|make sure|the bug|issues?|if this|this)\b)",
    re.IGNORECASE,
)
"""An item of a list of tasks; those of a project's form ask whether the writer has searched."""
LEAST_TASKS: Final = 5
"""Tasks of a list that is what a text is about."""


def lists_tasks(lines: Sequence[LogLine]) -> bool:
    """Whether a text is mostly a list of tasks, such as a roadmap, under a title that names no failure."""
    filled = [line for line in lines[:MOST_OF_CHANGE] if line.text]
    tasks = sum(_TASK.match(line.text) is not None for line in filled)
    return tasks >= LEAST_TASKS and 2 * tasks >= len(filled) and not is_about_failure(filled[0])


def only_describes_change(lines: Sequence[LogLine]) -> bool:
    """Whether a text describes a change, or lists tasks or titles, and holds no error, calls or exception."""
    return (describes_change(lines) or lists_tasks(lines) or lists_titles(lines)) and not any(
        line.level in FAILING or frame_of(line) is not None or raises(line.text) for line in lines
    )


def is_complaint(line: LogLine) -> bool:
    """Whether a person says on a line that something failed."""
    if line.level or _DENIES.search(line.text):
        return False
    return _COMPLAINS.search(line.text) is not None


def is_about_failure(line: LogLine) -> bool:
    """Whether a line, such as a heading, says that something failed, or is about what can fail."""
    return _COMPLAINS.search(line.text) is not None or _TROUBLE.search(line.text) is not None


def reports_failure(line: LogLine) -> bool:
    """Whether a program says on a line that something failed."""
    return line.level in FAILING or _FAILS.search(line.text) is not None or frame_of(line) is not None
